/* Atomic and volatile variables of all sizes and kinds, accesses of different sizes to one word,
 * and variables of one thread or on its stack that other threads change. */
#include "order.h"
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 400 };
static atomic_uchar byte;
static atomic_ushort half;
static atomic_uint word;
static atomic_ulong whole;
static _Atomic _Bool flag;
static _Atomic double real;
static volatile long double longest;
static volatile struct {
	unsigned low : 3, middle : 7, high : 22;
} bits;
static union {
	volatile uint64_t whole;
	volatile uint32_t halves[2];
	volatile uint8_t bytes[8];
} parts;
static __thread atomic_long own;
static _Atomic(atomic_long *) owned[THREADS], on_stack[THREADS];
static atomic_int ended;

static void change_atomics(int thread, unsigned round)
{
	see(thread, atomic_fetch_add(&byte, (unsigned char)(thread + 1)));
	see(thread, atomic_fetch_or(&half, (unsigned short)(1u << (round & 15))));
	see(thread, atomic_fetch_and(&half, (unsigned short)~(round * 7)));
	see(thread, atomic_fetch_xor(&word, round * 77));
	see(thread, atomic_fetch_sub(&whole, round));
	see(thread, atomic_exchange(&flag, round & 1));
	unsigned char expected = byte;
	see(thread, atomic_compare_exchange_strong(&byte, &expected, 3));
	real = real + 1.5;
	see(thread, (uint64_t)real);
}

static void change_volatiles(int thread, unsigned round)
{
	bits.middle += 1;
	longest += 1;
	see(thread, bits.middle);
	see(thread, (uint64_t)longest);
	parts.bytes[round & 7] ^= (uint8_t)round;
	parts.halves[round & 1] += round;
	see(thread, parts.whole);
}

static void change_of_others(int thread, unsigned round)
{
	atomic_long *of_other = atomic_load(&owned[(thread + 1) % THREADS]);
	if (of_other)
		see(thread, (uint64_t)atomic_fetch_add(of_other, 3));
	of_other = atomic_load(&on_stack[((unsigned)thread + round) % THREADS]);
	if (of_other)
		see(thread, (uint64_t)atomic_fetch_xor(of_other, round));
	see(thread, (uint64_t)atomic_fetch_add(&own, 1));
}

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;
	atomic_long local = 0;
	atomic_store(&owned[thread], &own);
	atomic_store(&on_stack[thread], &local);
	for (unsigned round = 0; round < ROUNDS; round++) {
		change_atomics(thread, round);
		change_volatiles(thread, round);
		change_of_others(thread, round);
	}
	atomic_fetch_add(&ended, 1);
	while (atomic_load(&ended) < THREADS)
		sched_yield();
	return NULL;
}

int main(void)
{
	run_threads(THREADS, work);
	show_order();
	return 0;
}
