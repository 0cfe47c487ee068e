/* Locks with priority inheritance. The kernel would write the words of waiting threads at times of
 * its own. So its work is done here at ordered points, and threads wait as on ordinary futexes.
 * Priorities are not inherited: threads take turns anyway. Private stack.
 *
 * A word holds the thread number of its owner, and whether a thread waits. Changes to it depend on
 * memory alone, so replay repeats them. All waits are as for shared futexes, so that a dying owner
 * finds the waiters without knowing how they wait. */
#include "calls/futex_pi.h"
#include "base/futex.h"
#include "base/leave.h"
#include "base/state.h"
#include "base/user.h"
#include "calls/plain.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "mode/call.h"
#include "order/baton.h"
#include "signals/signal.h"

#define OWNER_DIED 0x40000000u
#define WAITERS 0x80000000u
#define THREAD_MASK 0x3fffffffu
#define EPERM 1
#define EINTR 4
#define EAGAIN 11
#define EFAULT 14
#define EINVAL 22
#define EDEADLK 35
#define ENOSYS 38
#define ETIMEDOUT 110
/* As in the kernel: the call is made again after the signals are delivered. */
#define RESTART (-513L)

enum {
	LOCK_PI = 6,
	UNLOCK_PI = 7,
	TRYLOCK_PI = 8,
	WAIT_BITSET = 9,
	LOCK_PI2 = 13,
	PRIVATE = 0x80,
	CLOCK_REALTIME = 0x100
};

static u32 operation_of(const struct call *call)
{
	return (u32)call->arguments[1] & ~(u32)(PRIVATE | CLOCK_REALTIME);
}

static u32 is_lock(const struct call *call)
{
	return operation_of(call) == LOCK_PI || operation_of(call) == LOCK_PI2;
}

/* Returns -EAGAIN if another thread has the lock. The word then says that a thread waits. */
static i64 try_lock(struct call *call, u32 *word, u32 waits)
{
	u64 address = call->arguments[0];
	if (address % sizeof *word)
		return -EINVAL;
	if (copy_user(word, (const void *)address, sizeof *word))
		return -EFAULT;
	u32 owner = *word & THREAD_MASK, is_free = !owner;
	if (owner == call->context->tid)
		return -EDEADLK;
	if (!is_free && !waits)
		return -EAGAIN;
	*word |= (is_free ? call->context->tid : 0) | (waits ? WAITERS : 0);
	if (copy_user((void *)address, word, sizeof *word))
		return -EFAULT;
	return is_free ? 0 : -EAGAIN;
}

/* Waits until the lock is free, the time is up, or a signal arrives. */
static i64 lock(struct call *call)
{
	u64 turn, clock = operation_of(call) == LOCK_PI ? CLOCK_REALTIME
							: call->arguments[1] & CLOCK_REALTIME;
	u32 word;
	for (;;) {
		i64 result = try_lock(call, &word, 1);
		if (result != -EAGAIN)
			return result;
		u64 wait[6] = {
			call->arguments[0], WAIT_BITSET | clock, word, call->arguments[3], 0, ~0U};
		u32 shares = call->context->process->domain != NULL;
		if (shares)
			baton_release(call->context);
		result = call_kernel_window(NR_futex, wait);
		if (shares && baton_acquire(call->context, &turn))
			turn_before_staged(call->context, turn, &call->start, &call->position);
		if (result == CALL_ABORTED || result == -EINTR)
			return RESTART;
		if (result < 0 && result != -EAGAIN)
			return result;
	}
}

static i64 unlock(struct call *call)
{
	u32 word;
	static const u32 nobody = 0;
	u64 address = call->arguments[0];
	if (address % sizeof word)
		return -EINVAL;
	if (copy_user(&word, (const void *)address, sizeof word))
		return -EFAULT;
	if ((word & THREAD_MASK) != call->context->tid)
		return -EPERM;
	if (copy_user((void *)address, &nobody, sizeof nobody))
		return -EFAULT;
	if (executes())
		futex_wake((u32 *)address, 1);
	return 0;
}

static i64 decide(struct call *call)
{
	u32 word;
	if (operation_of(call) == TRYLOCK_PI)
		return try_lock(call, &word, 0);
	if (operation_of(call) == UNLOCK_PI)
		return unlock(call);
	return executes() ? lock(call) : try_lock(call, &word, 1);
}

/* Replay: the thread lost the baton while it waited for a lock, after it had marked the word. */
void futex_waits(struct call *call)
{
	u32 word;
	if (call->number == NR_futex && is_lock(call))
		try_lock(call, &word, 1);
}

u32 handle_futex(struct call *call)
{
	struct context *context = call->context;
	if (!repeatable())
		return handle_plainly(call);
	call_prepare(call);
	u32 is_known = is_lock(call) || operation_of(call) == UNLOCK_PI ||
		       operation_of(call) == TRYLOCK_PI;
	i64 result = is_known ? decide(call) : -ENOSYS;
	if (executes())
		call->result = result;
	else if (result != call->result && !(result == -EAGAIN && is_lock(call)))
		diverge(context, WHY_RESULT, (u64)call->result, (u64)result);
	call_finish(call, NULL, 0);
	if (call->result != RESTART)
		return leave_with_result(call);
	back_to_call(context);
	leave(context);
	return LEAVE_FULL;
}
