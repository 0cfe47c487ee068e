// Static variables of functions that some threads reach first, and others find ready: those do not
// call the library that guards them, but look. So do functions of the C++ library itself. Late
// threads sleep first, which takes no time at replay.
#include "order.h"
#include <atomic>
#include <future>
#include <memory>
#include <system_error>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utility>

static constexpr int THREADS = 4, VARIABLES = 100;
static std::atomic<int> number;
static std::shared_ptr<int> pointers[VARIABLES];

template <int> static int first_use()
{
	static int value = number.fetch_add(1);
	return value;
}

/* The library finds the lock of the pointer in a static variable of its own. */
template <int Which> static void use(int thread)
{
	see(thread, first_use<Which>());
	auto found = std::atomic_load(&pointers[Which]);
	see(thread, found ? *found : 0);
	std::atomic_store(&pointers[Which], std::make_shared<int>(thread * VARIABLES + Which));
	std::weak_ptr<int> weak = found;
	found.reset();
	auto again = weak.lock();
	see(thread, again ? *again : 0);
}

template <int... I> static void use_all(int thread, std::integer_sequence<int, I...>)
{
	(use<I>(thread), ...);
}

static void compute(int thread)
{
	for (int i = 0; i < 20000000; i++)
		see(thread, i);
}

static void *work(void *argument)
{
	int thread = static_cast<int>(reinterpret_cast<intptr_t>(argument));
	timespec late = {0, 200000000};
	if (thread >= THREADS / 2)
		syscall(SYS_nanosleep, &late, nullptr);
	else
		compute(thread);
	see(thread, std::future_category().name()[0]);
	use_all(thread, std::make_integer_sequence<int, VARIABLES>());
	return nullptr;
}

int main()
{
	run_threads(THREADS, work);
	show_order();
}
