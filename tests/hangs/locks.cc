// Two threads take two locks in opposite orders.
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <thread>

static std::mutex first, second, meeting;
static std::condition_variable met;
static int arrived;

static void meet()
{
	std::unique_lock<std::mutex> lock(meeting);
	arrived++;
	met.notify_all();
	met.wait(lock, [] { return arrived == 2; });
}

static void take(std::mutex &one, std::mutex &other)
{
	std::lock_guard<std::mutex> held(one);
	meet();
	if (&one == &first)
		std::cout << "ready" << std::endl;
	std::lock_guard<std::mutex> wanted(other);
}

int main()
{
	std::thread thread([] { take(second, first); });
	take(first, second);
	thread.join();
}
