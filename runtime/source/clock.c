/* Clocks that programs ask the vDSO for. The runtime asks it too, by what was there before the patcher came: a system call takes five times as long.
 * Record only. Private stack. */
#include "../include/context.h"

#define EFAULT 14

typedef i64 clock_function(u64 first, u64 second);

static const struct vdso_clock *original_of(u32 number)
{
	for (u32 i = 0; i < VDSO_CLOCKS && HEADER->vdso_clocks[i].number; i++)
		if (HEADER->vdso_clocks[i].number == number)
			return &HEADER->vdso_clocks[i];
	return NULL;
}

/* The code reads the counter, and makes system calls for what it does not know: neither may be trapped, for we are not the program. */
u32 clock_answers(const struct call *call)
{
	const struct context *context = call->context;
	u32 asks_zone = call->number == NR_gettimeofday && call->arguments[1];
	return context->process->clocks && !context->dispatched && !context->counter_traps && !tracing() && !asks_zone && original_of(call->number);
}

i64 clock_read(struct call *call)
{
	struct context *context = call->context;
	u64 time[2] = { 0, 0 }, by_clock = call->number == NR_clock_gettime;
	u64 address = call->actual[by_clock], bytes = call->number == NR_time ? 8 : sizeof time;
	clock_function *function = (clock_function *)(context->process->clocks + original_of(call->number)->offset);
	__atomic_store_n(&context->in_clock, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	i64 result = by_clock ? function(call->actual[0], (u64)time) : function((u64)time, 0);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&context->in_clock, 0, __ATOMIC_RELAXED);
	if (result < 0 || (call->number != NR_clock_gettime && !address))
		return result;
	return copy_user((void *)address, time, bytes) ? -EFAULT : result;
}

/* The program is about to change something about these addresses. */
void clock_touch(struct context *context, u64 start, u64 bytes)
{
	struct process *process = context->process;
	if (start + bytes <= process->vdso_start || start >= process->vdso_end)
		return;
	process->clocks = 0;
	if (context->is_guest)
		PROCESS_INITIAL->clocks = 0;
}
