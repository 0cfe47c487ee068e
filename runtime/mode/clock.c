/* Clocks that programs read through the vDSO. The runtime reads them through the vDSO's original
 * code, which the patcher saved: a system call takes five times as long. Record only. Private
 * stack. */
#include "mode/clock.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "base/vdso_clock.h"
#include "gen/numbers.h"
#include "gen/table.h"
#include "log/ring.h"
#include "log/sink.h"

#define EFAULT 14

/* Returns the vDSO's function for the call, or NULL if the kernel has to answer. That code reads
 * the counter, and makes system calls in cases that it does not handle. Neither may trap, because
 * the runtime runs it, not the program. */
static clock_function *function_of(const struct context *context)
{
	const struct registers *regs = &context->regs;
	u32 number = (u32)regs->rax, asks_zone = number == NR_gettimeofday && regs->rsi;
	if (context->dispatched || context->counter_traps || traces() || context->slot->filter ||
		asks_zone)
		return NULL;
	return vdso_clock_of(context, number);
}

/* Answers the call and returns 1, or returns 0 if the kernel has to answer. Programs read clocks so
 * often that there is no struct call: the time goes to the ring, and from there to the program. */
u32 clock_record(struct context *context)
{
	const struct registers *regs = &context->regs;
	clock_function *function = function_of(context);
	if (UNLIKELY(!function))
		return 0;
	u32 number = (u32)regs->rax, by_clock = number == NR_clock_gettime,
	    count = call_rows[number].argument_count;
	u64 address = by_clock ? regs->rsi : regs->rdi, bytes = number == NR_time ? 8 : 16;
	u8 *start = ring_reserve(context, sizeof(struct event) + 2 * 8 + sizeof(struct item) + 16);
	u64 *arguments = (u64 *)(start + sizeof(struct event));
	arguments[0] = regs->rdi;
	arguments[1] = regs->rsi;
	struct item *item = (struct item *)(arguments + count);
	u64 time = (u64)(item + 1), size = (u64)((u8 *)item - start);
	i64 result = by_clock ? vdso_clock_ask(context, function, regs->rdi, time)
			      : vdso_clock_ask(context, function, time, 0);
	u32 is_wanted = result >= 0 && (address || by_clock);
	if (is_wanted && UNLIKELY(copy_user((void *)address, (const void *)time, bytes))) {
		result = -EFAULT;
	} else if (LIKELY(is_wanted)) {
		*item = output_item(by_clock, address, bytes);
		size += sizeof *item + bytes;
	}
	*(struct event *)start =
		(struct event){(u32)size, EVENT_CALL, (u8)context->parallel, (u16)number, result};
	ring_publish(context, start, size);
	count_event(context);
	context->regs.rax = (u64)result;
	return 1;
}

/* Called before the program changes the mapping of these addresses. */
void clock_touch(struct context *context, u64 start, u64 bytes)
{
	struct process *process = context->process;
	if (start + bytes <= process->vdso_start || start >= process->vdso_end)
		return;
	process->clocks = 0;
	if (context->is_guest)
		PROCESS_INITIAL->clocks = 0;
}
