// Atomic shared and weak pointers, and the older functions for ordinary ones.
#include "order.h"
#include <atomic>
#include <memory>

static constexpr int THREADS = 4, ROUNDS = 200;
static std::atomic<std::shared_ptr<int>> atomic_pointer;
static std::atomic<std::weak_ptr<int>> weak_pointer;
static std::shared_ptr<int> plain_pointer;

static void change(int thread, int round)
{
	auto found = atomic_pointer.load();
	see(thread, *found);
	see(thread, found.use_count());
	if (round % THREADS == thread) {
		atomic_pointer.store(std::make_shared<int>(thread * ROUNDS + round));
		weak_pointer = found;
	}
	auto expected = found;
	auto fresh = std::make_shared<int>(round);
	see(thread, atomic_pointer.compare_exchange_strong(expected, fresh));
	see(thread, *std::atomic_load(&plain_pointer));
	std::atomic_store(&plain_pointer, found);
	if (auto locked = weak_pointer.load().lock())
		see(thread, *locked);
}

static void *work(void *argument)
{
	int thread = static_cast<int>(reinterpret_cast<intptr_t>(argument));
	for (int round = 0; round < ROUNDS; round++)
		change(thread, round);
	return nullptr;
}

int main()
{
	atomic_pointer = std::make_shared<int>(0);
	plain_pointer = atomic_pointer.load();
	run_threads(THREADS, work);
	show_order();
}
