/* Computes for long without an event. The argument is the number of rounds, in millions. */
#include <stdlib.h>
#include <unistd.h>

long once, thousands;
unsigned long total;

unsigned long mix(unsigned long x, unsigned long i)
{
	return x * 6364136223846793005UL + i;
}

void note(unsigned long i)
{
	thousands = i / 1000;
}

int done(unsigned long x)
{
	return x & 7;
}

int main(int argc, char **argv)
{
	unsigned long x = 1, rounds = strtoul(argv[argc - 1], NULL, 10) * 1000000;
	getppid();
	for (unsigned long i = 0; i < rounds; i++) {
		x = mix(x, i);
		if (i == rounds / 3)
			once = 1;
		if (i % (rounds / 4) == 1000)
			note(i);
	}
	total = x;
	getppid();
	return done(x);
}
