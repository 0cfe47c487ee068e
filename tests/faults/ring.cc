// One thread passes numbers to another through a ring, with acquire and release: no data race, and
// no locked instruction.
#include <atomic>
#include <cstdio>
#include <thread>

static constexpr unsigned SIZE = 1024, COUNT = 300000;
static std::atomic<unsigned> head{0}, tail{0};
static std::atomic<bool> ended{false};
static unsigned long ring[SIZE];

static void produce()
{
	unsigned long number = 88172645463325252UL;
	for (unsigned made = 0; made < COUNT; made++) {
		number ^= number << 13, number ^= number >> 7, number ^= number << 17;
		unsigned at = tail.load(std::memory_order_relaxed);
		while (at - head.load(std::memory_order_acquire) == SIZE)
			;
		ring[at % SIZE] = number;
		tail.store(at + 1, std::memory_order_release);
	}
	ended.store(true, std::memory_order_release);
}

int main()
{
	std::thread producer(produce);
	unsigned long hash = 0, empty = 0;
	for (unsigned at = 0;;) {
		bool is_last = ended.load(std::memory_order_acquire);
		if (at == tail.load(std::memory_order_acquire)) {
			if (is_last)
				break;
			empty++;
			continue;
		}
		hash = hash * 31 + ring[at % SIZE];
		head.store(++at, std::memory_order_release);
	}
	producer.join();
	// How often the ring was empty depends on which thread was faster.
	std::printf("%lu %lu\n", hash, empty);
}
