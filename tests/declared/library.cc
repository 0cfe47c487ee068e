// The means of C++20 to synchronise threads, and structures made of atomics alone: a queue, a deque
// with stealing, hazard pointers.
#include <atomic>
#include <barrier>
#include <cstdio>
#include <latch>
#include <memory>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <vector>

static constexpr int ROUNDS = 300, THREADS = 3;

template <class Work> static void side_by_side(Work work)
{
	std::vector<std::jthread> threads;
	for (int number = 0; number < THREADS; number++)
		threads.emplace_back([=] { work(number); });
}

static unsigned long phases()
{
	static unsigned long sum = 1, parts[THREADS];
	std::latch ready(THREADS);
	std::barrier phase(THREADS, []() noexcept {
		for (unsigned long part : parts)
			sum = sum * 31 + part;
	});
	std::counting_semaphore<2> places(2);
	std::atomic<unsigned long> order{1};
	side_by_side([&](int number) {
		ready.arrive_and_wait();
		for (int round = 0; round < ROUNDS / 10; round++) {
			places.acquire();
			order = order * 31 + number;
			places.release();
			parts[number] = order;
			phase.arrive_and_wait();
		}
	});
	return sum ^ order;
}

static unsigned long waits()
{
	std::atomic<int> turn{0};
	unsigned long sum = 1;
	side_by_side([&](int number) {
		for (int round = 0; round < ROUNDS; round++) {
			for (int now; (now = turn.load(std::memory_order_acquire)) % THREADS != number;)
				turn.wait(now, std::memory_order_relaxed);
			sum = sum * 31 + number;
			turn.store(turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
			turn.notify_all();
		}
	});
	return sum;
}

static unsigned long shared()
{
	std::atomic<std::shared_ptr<unsigned long>> current{std::make_shared<unsigned long>(1)};
	std::atomic<unsigned long> seen{0};
	side_by_side([&](int number) {
		unsigned long own = 0;
		for (int round = 0; round < ROUNDS; round++) {
			auto is = current.load();
			auto next = std::make_shared<unsigned long>(*is * 31 + number);
			own += current.compare_exchange_strong(is, next);
		}
		seen += own << (number * 16);
	});
	return *current.load() ^ seen;
}

static unsigned long stops()
{
	std::atomic<unsigned long> rounds{0};
	{
		std::jthread worker([&](std::stop_token token) {
			while (!token.stop_requested())
				rounds.store(rounds.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
		});
		while (rounds.load(std::memory_order_relaxed) < ROUNDS)
			;
	}
	return rounds;
}

// By Chase and Lev: the owner works at one end, thieves at the other.
struct Deque {
	static constexpr long SIZE = 1 << 14;
	std::atomic<long> top{0}, bottom{0};
	std::atomic<long> items[SIZE];

	void push(long item)
	{
		long at = bottom.load(std::memory_order_relaxed);
		items[at % SIZE].store(item, std::memory_order_relaxed);
		bottom.store(at + 1, std::memory_order_release);
	}
	long pop()
	{
		long at = bottom.load(std::memory_order_relaxed) - 1;
		bottom.store(at, std::memory_order_relaxed);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		long first = top.load(std::memory_order_relaxed), item = -1;
		if (first <= at) {
			item = items[at % SIZE].load(std::memory_order_relaxed);
			if (first < at)
				return item;
			if (!top.compare_exchange_strong(first, first + 1))
				item = -1;
		}
		bottom.store(at + 1, std::memory_order_relaxed);
		return item;
	}
	long steal()
	{
		long first = top.load(std::memory_order_acquire);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		if (first >= bottom.load(std::memory_order_acquire))
			return -1;
		long item = items[first % SIZE].load(std::memory_order_relaxed);
		return top.compare_exchange_strong(first, first + 1) ? item : -1;
	}
};

static unsigned long steals()
{
	static Deque deque;
	std::atomic<bool> ended{false};
	std::atomic<unsigned long> sums[THREADS] = {};
	side_by_side([&](int number) {
		unsigned long sum = 0;
		if (number == 0) {
			for (long item = 0; item < 4 * ROUNDS; item++) {
				deque.push(item);
				if (item % 3 == 0)
					sum = sum * 31 + deque.pop();
			}
			for (long item; (item = deque.pop()) >= 0;)
				sum = sum * 31 + item;
			ended.store(true, std::memory_order_release);
		} else
			while (!ended.load(std::memory_order_acquire))
				if (long item = deque.steal(); item >= 0)
					sum = sum * 31 + item;
		sums[number] = sum;
	});
	return sums[0] ^ sums[1] * 3 ^ sums[2] * 5;
}

// A stack: a reader of a node first puts the node into its hazard pointer.
struct Node {
	Node *next;
	unsigned long value;
};
static std::atomic<Node *> stack_top{nullptr}, hazards[THREADS];

static unsigned long hazard_pointers()
{
	std::atomic<unsigned long> sum{0}, freed{0};
	side_by_side([&](int number) {
		std::vector<Node *> retired;
		unsigned long own = 1;
		for (int round = 0; round < ROUNDS; round++) {
			Node *node = new Node{nullptr, round * 3UL + number};
			node->next = stack_top.load(std::memory_order_relaxed);
			while (!stack_top.compare_exchange_weak(node->next, node, std::memory_order_release,
				std::memory_order_relaxed))
				;
			Node *top;
			do {
				do {
					top = stack_top.load(std::memory_order_acquire);
					hazards[number].store(top);
				} while (top != stack_top.load());
			} while (top && !stack_top.compare_exchange_strong(top, top->next));
			own = own * 31 + (top ? top->value : 7);
			hazards[number].store(nullptr, std::memory_order_release);
			if (top)
				retired.push_back(top);
			if (retired.size() < 16)
				continue;
			std::vector<Node *> kept;
			for (Node *old : retired) {
				bool is_seen = false;
				for (auto &hazard : hazards)
					is_seen |= hazard.load(std::memory_order_acquire) == old;
				if (is_seen)
					kept.push_back(old);
				else {
					freed++;
					delete old;
				}
			}
			retired.swap(kept);
		}
		sum += own;
	});
	return sum * 3 + freed;
}

int main()
{
	printf("phases %lx\n", phases());
	printf("waits %lx\n", waits());
	printf("shared %lx\n", shared());
	printf("stops %lx\n", stops());
	printf("steals %lx\n", steals());
	printf("hazard pointers %lx\n", hazard_pointers());
}
