/* Record: begins in a process that runs already. The supervisor has stopped all its threads, and
 * has mapped the runtime, its data and the first region. It makes each thread come to attach_step:
 * once to prepare, and once to go on when all are prepared. In the end, all leave in the same way.
 *
 * Context: the thread's private stack. The extended registers are the program's. */
#include "base/addresses.h"
#include "base/futex.h"
#include "base/image.h"
#include "base/interception.h"
#include "base/leave.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/text.h"
#include "calls/image.h"
#include "calls/kept_back.h"
#include "calls/sharing.h"
#include "calls/start.h"
#include "calls/thread_memory.h"
#include "entry/start.h"
#include "gen/numbers.h"
#include "log/pool.h"
#include "log/ring.h"
#include "mode/descriptors.h"
#include "order/baton.h"
#include "order/domain.h"
#include "order/home.h"
#include "order/section.h"
#include "signals/signal.h"

#define ENOMEM 12
#define PR_GET_TID_ADDRESS 40
#define ARCH_SET_GS 0x1001

/* Takes over what the kernel does for a thread of the program. Returns 0, or an error before
 * anything has changed. */
static i64 take_over_thread(struct context *context)
{
	u64 length, stack[3] = {0};
	i64 error = pool_attach(context, context->slot);
	if (error)
		return error;
	sys2(NR_sigaltstack, NULL, stack);
	context->altstack_pointer = stack[0];
	context->altstack_flags = (u32)stack[1];
	context->altstack_bytes = stack[2];
	sys3(NR_get_robust_list, 0, &context->robust_list, &length);
	sys2(NR_prctl, PR_GET_TID_ADDRESS, &context->clear_tid);
	sys1(NR_set_tid_address, context->is_thread ? &context->thread_alive : NULL);
	context->sigmask = context->slot->carried.altered_mask;
	u64 own[3] = {region_address(context->region) + REGION_ALTERNATE, 0,
		REGION_ALTERNATE_TOP - REGION_ALTERNATE};
	sys2(NR_sigaltstack, own, NULL);
	return 0;
}

/* What may be in the memory of the program: code that nobody has patched, and handlers that have
 * not returned. */
static void expect_anything(struct process *process)
{
	process->unknown_calls = process->frames_kept = 1;
	process->untold = MADE_AT_RUN_TIME;
}

/* The first thread of another process has the baton of all that share memory. */
static void join_others(struct context *context)
{
	context->slot->ties |= TIE_MEMORY;
	context->domain = context->process->domain = &HEADER->shared_domain;
	image_keep_registers(context);
	context->goes_on = GOES_ON_TURN;
}

static i64 begin_process(struct slot *slot, u64 thread_count)
{
	populate_text();
	struct context *context = first_context(slot);
	struct process *process = context->process;
	u64 vdso = slot->request.arguments[0], shares = slot->request.arguments[1];
	forget_slots();
	addresses_begin(process, &slot->carried);
	expect_anything(process);
	for (u64 i = 1; i < thread_count; i++)
		if (!region_create())
			return -ENOMEM;
	i64 error = take_over_thread(context);
	if (error)
		return error;
	context->pid = context->tid = (u32)sys0(NR_getpid);
	slot->pid_space.inner_tid = context->tid;
	ring_begin(context);
	context->event_count = slot->event_count;
	patch_vdso(context, vdso);
	process->vdso_start = process->clocks = vdso;
	process->vdso_end = vdso + HEADER->vdso_bytes;
	descriptors_inherit(process, &slot->carried.uses);
	process->thread_count = (u32)thread_count;
	process->had_threads = thread_count > 1;
	process->break_end = (u64)sys1(NR_brk, 0);
	image_program(context);
	signals_take_over(context);
	trap_instructions();
	arm_interception(context);
	context->goes_on = GOES_ON_CODE;
	if (shares == SHARES_AS_OTHERS)
		join_others(context);
	else if (shares)
		shared_join(context);
	else if (thread_count > 1)
		baton_create(context);
	return 0;
}

static i64 begin_thread(struct slot *slot, u64 region)
{
	struct context *context = context_of((u32)region);
	sys2(NR_arch_prctl, ARCH_SET_GS, context);
	context->slot = slot;
	context->process = PROCESS_INITIAL;
	context->domain = context->process->domain;
	context->is_thread = context->thread_alive = 1;
	context->counter_traps = COUNTER_UNKNOWN;
	i64 error = take_over_thread(context);
	if (error)
		return error;
	trap_instructions();
	arm_interception(context);
	log_start(context, START_THREAD);
	image_keep_registers(context);
	context->goes_on = GOES_ON_TURN;
	return 0;
}

/* The first thread of the first process has the baton, if there is one. It makes the image from
 * which replay begins. */
static void go_on(struct context *context)
{
	if (context->goes_on == GOES_ON_CODE)
		image_take_first(context);
	else
		baton_begin(context);
	set_kernel_mask(context, context->sigmask);
	leave(context);
	section_leave(context);
	restore_full(context);
}

/* ---- the end ---- */

#define PR_SET_TSC 26
#define PR_TSC_ENABLE 1
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define ARCH_SET_CPUID 0x1012
#define SS_KEPT 0x80000002UL /* SS_AUTODISARM, SS_DISABLE */

/* The kernel delivers signals that the runtime has taken, and not delivered yet. */
static void give_signals_back(
	const struct context *context, const struct deferred_signal *signals, u32 count)
{
	for (u32 i = 0; i < count; i++)
		sys4(NR_rt_tgsigqueueinfo, context->pid, context->tid, (u64)signals[i].info.number,
			&signals[i].info);
}

/* All signals are blocked. The thread's state in the runtime is lost. */
static void leave_thread(struct context *context)
{
	u64 stack[3] = {context->altstack_pointer, context->altstack_flags & SS_KEPT,
		context->altstack_bytes};
	give_signals_back(context, context->held, context->held_count);
	give_signals_back(context, context->deferred, context->deferred_count);
	home_leave(context);
	baton_end(context);
	sys2(NR_sigaltstack, stack, NULL);
	sys1(NR_set_tid_address, context->clear_tid);
	if (traps_counter())
		sys2(NR_prctl, PR_SET_TSC, PR_TSC_ENABLE);
	if (traps_cpuid())
		sys2(NR_arch_prctl, ARCH_SET_CPUID, 1);
	sys6(NR_prctl, PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0);
}

static void leave_process(struct context *context)
{
	for (u32 number = 1; number <= 64; number++)
		if (number != SIGKILL && number != SIGSTOP)
			sys4(NR_rt_sigaction, number, &context->process->actions[number], NULL, 8);
}

/* Called through ENTRY_ATTACH. `step`: ATTACH_*. `slot`, `argument`: with ATTACH_KEPT_BACK the
 * first address with the advice, which is less than a page, and the number of bytes. Returns 0 or
 * an error. */
i64 attach_step(u64 step, u64 slot, u64 argument);
i64 attach_step(u64 step, u64 slot, u64 argument)
{
	if (step == ATTACH_PROCESS)
		return begin_process(&HEADER->slots[slot], argument);
	if (step == ATTACH_THREAD)
		return begin_thread(&HEADER->slots[slot], argument);
	if (step == ATTACH_GO)
		go_on(context_of((u32)argument));
	if (step == ATTACH_LEAVE)
		leave_thread(context_of((u32)argument));
	else if (step == ATTACH_RESTORED)
		image_as_replayed(context_of((u32)argument), 0);
	else if (step == ATTACH_KEPT_BACK)
		kept_back_advised(PROCESS_INITIAL, PAGE_FLOOR(slot), argument, slot % PAGE_BYTES);
	else
		leave_process(context_of((u32)argument));
	return 0;
}
