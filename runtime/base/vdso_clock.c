/* Calls the vDSO's clocks through the vDSO's original code, which the patcher saved. Record only.
 * Private stack. */
#include "base/vdso_clock.h"
#include "base/shared.h"
#include "base/state.h"

clock_function *vdso_clock_of(const struct context *context, u32 number)
{
	if (!context->process->clocks)
		return NULL;
	for (u32 i = 0; i < VDSO_CLOCKS && HEADER->vdso_clocks[i].number; i++)
		if (HEADER->vdso_clocks[i].number == number)
			return (clock_function *)(context->process->clocks +
						  HEADER->vdso_clocks[i].offset);
	return NULL;
}

i64 vdso_clock_ask(struct context *context, clock_function *function, u64 first, u64 second)
{
	__atomic_store_n(&context->in_clock, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	i64 result = function(first, second);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&context->in_clock, 0, __ATOMIC_RELAXED);
	return result;
}
