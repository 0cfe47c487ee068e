// Spin locks of four kinds, a sequence lock, double-checked initialisation and a volatile flag: the
// compiler declares their plain
// accesses.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

static constexpr int ROUNDS = 500, THREADS = 3;

struct TestAndTest {
	std::atomic<bool> taken{false};
	void lock()
	{
		while (taken.exchange(true, std::memory_order_acquire))
			while (taken.load(std::memory_order_relaxed))
				std::this_thread::yield();
	}
	void unlock() { taken.store(false, std::memory_order_release); }
};

struct Ticket {
	std::atomic<unsigned> next{0}, serving{0};
	void lock()
	{
		unsigned own = next.fetch_add(1, std::memory_order_relaxed);
		while (serving.load(std::memory_order_acquire) != own)
			std::this_thread::yield();
	}
	void unlock()
	{
		serving.store(serving.load(std::memory_order_relaxed) + 1, std::memory_order_release);
	}
};

struct Node {
	std::atomic<Node *> next{nullptr};
	std::atomic<bool> waits{false};
};

struct Queued {
	std::atomic<Node *> last{nullptr};
	static inline thread_local Node own;
	void lock()
	{
		own.next.store(nullptr, std::memory_order_relaxed);
		own.waits.store(true, std::memory_order_relaxed);
		Node *before = last.exchange(&own, std::memory_order_acq_rel);
		if (!before)
			return;
		before->next.store(&own, std::memory_order_release);
		while (own.waits.load(std::memory_order_acquire))
			std::this_thread::yield();
	}
	void unlock()
	{
		Node *expected = &own;
		if (!own.next.load(std::memory_order_acquire)) {
			if (last.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel))
				return;
			while (!own.next.load(std::memory_order_acquire))
				std::this_thread::yield();
		}
		own.next.load(std::memory_order_relaxed)->waits.store(false, std::memory_order_release);
	}
};

struct Inline {
	int taken = 0;
	void lock()
	{
		int old;
		do {
			old = 1;
			asm volatile("xchgl %0, %1" : "+r"(old), "+m"(taken) : : "memory");
			if (old)
				std::this_thread::yield();
		} while (old);
	}
	void unlock() { asm volatile("movl $0, %0" : "=m"(taken) : : "memory"); }
};

template <class Lock> static unsigned long sum_under()
{
	Lock lock;
	unsigned long sum = 1;
	std::vector<std::thread> threads;
	for (int number = 0; number < THREADS; number++)
		threads.emplace_back([&, number] {
			for (int round = 0; round < ROUNDS; round++) {
				lock.lock();
				sum = sum * 31 + number;
				lock.unlock();
			}
		});
	for (auto &thread : threads)
		thread.join();
	return sum;
}

static std::atomic<unsigned> sequence{0};
static std::atomic<unsigned long> left{0}, right{0};

static unsigned long read_under_sequence()
{
	unsigned long sum = 0, torn = 0, tries = 0;
	std::thread writer([] {
		for (unsigned long value = 1; value <= ROUNDS; value++) {
			unsigned now = sequence.load(std::memory_order_relaxed);
			sequence.store(now + 1, std::memory_order_relaxed);
			std::atomic_thread_fence(std::memory_order_release);
			left.store(value, std::memory_order_relaxed);
			right.store(-value, std::memory_order_relaxed);
			sequence.store(now + 2, std::memory_order_release);
		}
	});
	for (unsigned long seen = 0; seen < ROUNDS;) {
		unsigned before = sequence.load(std::memory_order_acquire);
		unsigned long a = left.load(std::memory_order_relaxed), b = right.load(std::memory_order_relaxed);
		std::atomic_thread_fence(std::memory_order_acquire);
		tries++;
		if ((before & 1) || sequence.load(std::memory_order_relaxed) != before)
			continue;
		torn += a + b != 0;
		sum = sum * 7 + a;
		seen = a;
	}
	writer.join();
	return sum * 1000 + tries * 2 + torn;
}

struct Made {
	unsigned long by;
};
static std::atomic<Made *> made{nullptr};
static volatile int go, here;

static unsigned long initialise_once()
{
	static TestAndTest lock;
	std::vector<std::thread> threads;
	std::atomic<unsigned long> sum{0};
	for (int number = 0; number < THREADS; number++)
		threads.emplace_back([&, number] {
			while (!go)
				here = here + 1;
			Made *is = made.load(std::memory_order_acquire);
			if (!is) {
				lock.lock();
				is = made.load(std::memory_order_relaxed);
				if (!is)
					made.store(is = new Made{number + 1UL}, std::memory_order_release);
				lock.unlock();
			}
			sum += is->by;
		});
	go = 1;
	for (auto &thread : threads)
		thread.join();
	return sum * 1000003 + here;
}

int main()
{
	printf("test and test %lx\n", sum_under<TestAndTest>());
	printf("ticket %lx\n", sum_under<Ticket>());
	printf("queued %lx\n", sum_under<Queued>());
	printf("inline %lx\n", sum_under<Inline>());
	printf("sequence %lx\n", read_under_sequence());
	printf("once %lx\n", initialise_once());
}
