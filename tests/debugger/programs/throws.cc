// Exceptions thrown through templates.
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

long caught, rounds;

template <typename T> struct Box {
	T value;
	__attribute__((noinline)) T checked(long limit) const
	{
		if (static_cast<long>(value) > limit)
			throw std::out_of_range("too much");
		return value;
	}
};

template <typename T> __attribute__((noinline)) T sum(const std::vector<Box<T>> &boxes, long limit)
{
	T total = 0;
	for (const auto &box : boxes)
		total += box.checked(limit);
	return total;
}

__attribute__((noinline)) long attempt(long limit)
{
	rounds++;
	std::vector<Box<long>> longs;
	std::vector<Box<double>> doubles;
	for (long i = 0; i < 4; i++) {
		longs.push_back({ i * limit });
		doubles.push_back({ 0.5 * i });
	}
	try {
		return sum(longs, limit) + static_cast<long>(sum(doubles, limit));
	} catch (const std::out_of_range &error) {
		caught++;
		return -static_cast<long>(std::string(error.what()).size());
	}
}

int main()
{
	std::map<long, long> results;
	for (long limit = 0; limit < 5; limit++)
		results[limit] = attempt(limit);
	return static_cast<int>(results.size() + caught);
}
