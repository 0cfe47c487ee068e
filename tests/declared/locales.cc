// Threads are the first to use a locale other than the classic one.
#include "order.h"
#include <locale>
#include <sstream>

struct Points : std::numpunct<char> {
	char do_thousands_sep() const override { return '.'; }
	std::string do_grouping() const override { return "\3"; }
};
static std::locale *shared;

static void *print(void *argument)
{
	int thread = static_cast<int>(reinterpret_cast<intptr_t>(argument));
	std::ostringstream stream;
	stream.imbue(*shared);
	stream << 1234567;
	see(thread, stream.str().size());
	return nullptr;
}

int main()
{
	for (int round = 0; round < 20; round++) {
		std::locale locale(std::locale::classic(), new Points);
		shared = &locale;
		run_threads(4, print);
	}
	show_order();
}
