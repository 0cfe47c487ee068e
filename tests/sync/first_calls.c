/* Threads that call functions of a library for the first time, all at the same moment. The dynamic
 * linker binds each function then. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define FUNCTIONS(X)                                                                              \
	X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(atanh)    \
	X(exp2) X(expm1) X(log2) X(log10) X(log1p) X(cbrt) X(erf) X(erfc) X(tgamma) X(lgamma)     \
	X(j0) X(j1) X(y0)

static pthread_barrier_t barrier;
static volatile double zero;

static void *work(void *result)
{
	double sum = 0;
#define CALL(function)                  \
	pthread_barrier_wait(&barrier); \
	sum += function(zero + 0.5);
	FUNCTIONS(CALL)
	*(double *)result = sum;
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	double results[THREADS], sum = 0;
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, &results[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += results[i];
	}
	printf("%.6f\n", sum);
	return 0;
}
