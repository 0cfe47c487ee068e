/* Locks in inline assembly, in all shapes in which it is written: several instructions in a line,
 * loops, jumps out of it, a section of its own, a macro, code without memory, and code that cannot
 * be ordered. */
#include <pthread.h>
#include <stdio.h>

#define ROUNDS 1000

static int taken;
static unsigned long sum = 1;

static void lock(void)
{
	__asm__ volatile("1:\n\t"
			 "movl $1, %%eax; xchgl %%eax, %0\n\t"
			 "testl %%eax, %%eax\n\t"
			 "jz 3f\n"
			 "2: pause; cmpl $0, %0\n\t"
			 "jne 2b\n\t"
			 "jmp 1b\n"
			 "3:"
			 : "+m"(taken)
			 :
			 : "eax", "memory", "cc");
}

static void unlock(void)
{
	__asm__ volatile(".pushsection .rodata.note,\"a\"\n\t.long 7\n\t.popsection\n\t"
			 "movl $0, %0"
			 : "=m"(taken)
			 :
			 : "memory");
}

static int is_free(void)
{
	__asm__ goto("cmpl $0, %0; jne %l1" : : "m"(taken) : "cc", "memory" : is_taken);
	return 1;
is_taken:
	return 0;
}

static void copy(void *to, const void *from, unsigned long bytes)
{
	__asm__ volatile(".macro retake_test_copy\n\trep movsb\n\t.endm\n\tretake_test_copy\n\t.purgem retake_test_copy"
			 : "+D"(to), "+S"(from), "+c"(bytes)
			 :
			 : "memory");
}

static void *work(void *own)
{
	unsigned long number = (unsigned long)own, seen_free = 0;
	for (int round = 0; round < ROUNDS; round++) {
		seen_free += is_free();
		lock();
		unsigned long next = sum * 31 + number;
		copy(&sum, &next, sizeof sum);
		unlock();
	}
	return (void *)seen_free;
}

int main(void)
{
	pthread_t threads[3];
	unsigned long seen_free = 0;
	for (unsigned long number = 0; number < 3; number++)
		pthread_create(&threads[number], NULL, work, (void *)number);
	for (int number = 0; number < 3; number++) {
		void *seen;
		pthread_join(threads[number], &seen);
		seen_free += (unsigned long)seen;
	}
	printf("%lx %lu\n", sum, seen_free);
	return 0;
}
