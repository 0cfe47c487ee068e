/* Waiting for the supervisor and waking it, clocks, and fatal errors. Any stack; makes system
 * calls. */
#include "base/futex.h"
#include "base/shared.h"
#include "base/sys.h"
#include "gen/numbers.h"

#define ETIMEDOUT 110

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_PRIVATE = 128 };

/* Other processes map the header too, and may map the program's memory. Only the runtime's own data
 * is private; the kernel finds private futexes faster. */
static u64 operation(const u32 *word, u64 plain)
{
	u64 at = (u64)word;
	return at >= RUNTIME_DATA && at < HEADER_ADDRESS ? plain | FUTEX_PRIVATE : plain;
}

/* Ends the process if both the supervisor and its guardian have died. Otherwise it would wait for
 * ever for what they do: empty rings, answer requests, note that a holder was killed. */
static void end_if_alone(void)
{
	const struct header *header = HEADER;
	if (__atomic_load_n(&header->supervisor_alive, __ATOMIC_RELAXED) &
		__atomic_load_n(&header->guardian_alive, __ATOMIC_RELAXED) & THREAD_DIED)
		sys1(NR_exit_group, 125);
}

/* Returns after a wake, a signal or a timeout, or at once. */
void futex_wait(u32 *word, u32 value, u64 timeout_ms)
{
	struct {
		i64 seconds, nanoseconds;
	} timeout = {(i64)(timeout_ms / 1000), (i64)(timeout_ms % 1000) * 1000000};
	if (sys4(NR_futex, word, operation(word, FUTEX_WAIT), value,
		    timeout_ms ? &timeout : NULL) == -ETIMEDOUT)
		end_if_alone();
}

void futex_wake(u32 *word, i32 count) { sys3(NR_futex, word, operation(word, FUTEX_WAKE), count); }

u64 clock_ns(u64 clock)
{
	struct {
		u64 seconds, nanoseconds;
	} now;
	sys2(NR_clock_gettime, clock, &now);
	return now.seconds * 1000000000UL + now.nanoseconds;
}

u64 now_ns(void) { return clock_ns(1 /* CLOCK_MONOTONIC */); }

u64 computed_ns(void) { return clock_ns(2 /* CLOCK_PROCESS_CPUTIME_ID */); }

void complain(const char *message)
{
	u64 length = 0;
	while (message[length])
		length++;
	static const char prefix[] = "retake: runtime: ";
	sys3(NR_write, 2, prefix, sizeof prefix - 1);
	sys3(NR_write, 2, message, length);
	sys3(NR_write, 2, "\n", 1);
}

void fail(const char *message)
{
	complain(message);
	for (;;)
		sys1(NR_exit_group, 125);
}
