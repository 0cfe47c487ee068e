/* Teams of the GNU OpenMP library. Its threads synchronise by plain accesses, too: they wait for a
 * barrier in loops that read its generation, and look for tasks before they take the lock. The
 * output depends on the order of threads. */
#include <omp.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 60, TASKS = 100, DEPENDENCIES = 8 };

static unsigned long order = 1, shares;

static void note(unsigned long what)
{
#pragma omp critical
	order = order * 31 + what;
}

static void barriers(void)
{
#pragma omp parallel num_threads(THREADS)
	for (int round = 0; round < ROUNDS; round++) {
		note((unsigned long)omp_get_thread_num());
#pragma omp barrier
	}
}

static void loops(void)
{
#pragma omp parallel num_threads(THREADS)
	for (int round = 0; round < ROUNDS; round++) {
#pragma omp for schedule(dynamic, 1) nowait
		for (int index = 0; index < 10; index++) {
			__atomic_fetch_add(
				&shares, (unsigned long)omp_get_thread_num(), __ATOMIC_SEQ_CST);
		}
#pragma omp single
		note(7);
	}
#pragma omp parallel for ordered schedule(guided) num_threads(THREADS)
	for (int index = 0; index < TASKS; index++) {
#pragma omp ordered
		order = order * 31 + (unsigned long)omp_get_thread_num();
	}
}

static unsigned long tree(int depth)
{
	if (depth < 2) {
		return 1;
	}
	unsigned long left, right;
#pragma omp task shared(left) if (depth > 8)
	left = tree(depth - 1);
#pragma omp task shared(right) if (depth > 8)
	right = tree(depth - 2);
#pragma omp taskwait
	return left + right;
}

static void tasks(void)
{
	unsigned long cells[DEPENDENCIES] = {0}, leaves = 0;
#pragma omp parallel num_threads(THREADS)
#pragma omp single
	{
		leaves = tree(16);
		for (int task = 0; task < TASKS; task++) {
#pragma omp task depend(inout : cells[task % DEPENDENCIES])
			cells[task % DEPENDENCIES] += (unsigned long)omp_get_thread_num();
		}
#pragma omp taskgroup
		for (int task = 0; task < TASKS; task++) {
#pragma omp task
			note((unsigned long)omp_get_thread_num());
		}
	}
	printf("%lu leaves\n", leaves);
	for (int cell = 0; cell < DEPENDENCIES; cell++) {
		order = order * 31 + cells[cell];
	}
}

static void locks(void)
{
	omp_lock_t lock;
	omp_nest_lock_t nested;
	unsigned long inner = 0;
	omp_init_lock(&lock);
	omp_init_nest_lock(&nested);
#pragma omp parallel num_threads(THREADS)
	for (int round = 0; round < ROUNDS; round++) {
		omp_set_lock(&lock);
		order = order * 31 + (unsigned long)omp_get_thread_num();
		omp_unset_lock(&lock);
		omp_set_nest_lock(&nested);
		omp_set_nest_lock(&nested);
		inner = inner * 31 + (unsigned long)omp_get_thread_num();
		omp_unset_nest_lock(&nested);
		omp_unset_nest_lock(&nested);
	}
	order += inner;
}

int main(void)
{
	barriers();
	loops();
	tasks();
	locks();
	printf("%lx %lu\n", order, shares);
	return 0;
}
