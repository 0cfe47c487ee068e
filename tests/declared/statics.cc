// Static variables of functions, which many threads reach at once. Some initialisers throw.
#include "order.h"
#include <atomic>
#include <utility>

static std::atomic<int> number, ready;
static constexpr int THREADS = 5, VARIABLES = 60;

template <int> static int plain()
{
	static int value = number.fetch_add(1);
	return value;
}

static int throw_each_third(int thread)
{
	int value = number.fetch_add(1);
	see(thread, value);
	if (value % 3 == 0)
		throw value;
	return value;
}

template <int> static int thrown(int thread)
{
	for (;;)
		try {
			static int value = throw_each_third(thread);
			return value;
		} catch (int value) {
			see(thread, value);
		}
}

template <int... I> static void reach_all(int thread, std::integer_sequence<int, I...>)
{
	((see(thread, plain<I>()), see(thread, thrown<I>(thread))), ...);
}

static void *reach(void *argument)
{
	int thread = static_cast<int>(reinterpret_cast<intptr_t>(argument));
	ready++;
	while (ready.load() < THREADS)
		sched_yield();
	reach_all(thread, std::make_integer_sequence<int, VARIABLES>());
	return nullptr;
}

int main()
{
	run_threads(THREADS, reach);
	show_order();
}
