/* Waiting for the supervisor and waking it; and the end of the road. Any stack; makes system calls. */
#include "../include/context.h"

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_WAIT_BITSET = 9, FUTEX_WAKE_BITSET = 10 };

/* Shared futexes: the words live in segments that other processes map too. Returns after a wake, a signal, a timeout, or at once. */
void futex_wait(u32 *word, u32 value, u64 timeout_ms)
{
	struct { i64 seconds, nanoseconds; } timeout = { (i64)(timeout_ms / 1000), (i64)(timeout_ms % 1000) * 1000000 };
	sys4(NR_futex, word, FUTEX_WAIT, value, timeout_ms ? &timeout : NULL);
}

void futex_wake(u32 *word, i32 count)
{
	sys3(NR_futex, word, FUTEX_WAKE, count);
}

/* Many wait for the same word, each for another number: only those are woken that may be meant. */
static u32 bit_of(u64 number) { return 1u << number % 32; }

void futex_wait_for(u32 *word, u32 value, u64 number, u64 timeout_ms)
{
	u64 end = now_ns() + timeout_ms * 1000000;
	struct { u64 seconds, nanoseconds; } deadline = { end / 1000000000, end % 1000000000 };
	sys6(NR_futex, (u64)word, FUTEX_WAIT_BITSET, value, (u64)&deadline, 0, bit_of(number));
}

void futex_wake_for(u32 *word, u64 number)
{
	sys6(NR_futex, (u64)word, FUTEX_WAKE_BITSET, 0x7fffffff, 0, 0, bit_of(number));
}

u64 now_ns(void)
{
	struct { u64 seconds, nanoseconds; } now;
	sys2(NR_clock_gettime, 1 /* CLOCK_MONOTONIC */, &now);
	return now.seconds * 1000000000UL + now.nanoseconds;
}

void fail(const char *message)
{
	u64 length = 0;
	while (message[length])
		length++;
	static const char prefix[] = "retake: runtime: ";
	sys3(NR_write, 2, prefix, sizeof prefix - 1);
	sys3(NR_write, 2, message, length);
	sys3(NR_write, 2, "\n", 1);
	for (;;)
		sys1(NR_exit_group, 125);
}
