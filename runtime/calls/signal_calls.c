/* System calls about signals. Private stack. */
#include "base/interception.h"
#include "base/process_lock.h"
#include "base/state.h"
#include "base/user.h"
#include "log/log.h"
#include "mode/call.h"
#include "signals/signal.h"

#define EINTR 4
#define EFAULT 14
#define EINVAL 22

/* Both modes change the runtime's own table of actions in the same way, after the arguments are
 * staged. */
u32 handle_rt_sigaction(struct call *call)
{
	struct context *context = call->context;
	u64 number = call->arguments[0];
	struct signal_action fresh, *slot = &context->process->actions[number <= 64 ? number : 0],
				    old;
	call_prepare(call);
	if (executes()) {
		call->result = 0;
		if (number < 1 || number > 64 || call->arguments[3] != 8 ||
			(call->arguments[1] && (number == SIGKILL || number == SIGSTOP)))
			call->result = -EINVAL;
		else if (call->arguments[1] &&
			 copy_user(&fresh, (void *)call->arguments[1], sizeof fresh))
			call->result = -EFAULT;
	} else if (call->arguments[1] && call->result == 0)
		copy_user(&fresh, (void *)call->arguments[1], sizeof fresh);
	if (call->result == 0) {
		old = *slot;
		if (call->arguments[2] && copy_user((void *)call->arguments[2], &old, sizeof old))
			call->result = -EFAULT;
	}
	process_lock();
	if (call->result == 0 && call->arguments[1]) {
		fresh.mask &= ~(SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP));
		*slot = fresh;
		apply_action((u32)number, slot);
	}
	process_unlock();
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

static u64 changed_mask(u64 how, u64 old, u64 set, i64 *error)
{
	set &= ~(SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP));
	switch (how) {
	case 0: return old | set;
	case 1: return old & ~set;
	case 2: return set;
	}
	*error = -EINVAL;
	return old;
}

u32 handle_rt_sigprocmask(struct call *call)
{
	struct context *context = call->context;
	u64 old = context->sigmask, fresh = old, set = 0;
	call_prepare(call);
	i64 result = call->arguments[3] != 8 ? -EINVAL : 0;
	if (!result && call->arguments[1]) {
		if (copy_user(&set, (void *)call->arguments[1], 8))
			result = -EFAULT;
		else
			fresh = changed_mask((u32)call->arguments[0], old, set, &result);
	}
	if (!result && call->arguments[2] && copy_user((void *)call->arguments[2], &old, 8))
		result = -EFAULT;
	if (result == 0 || result == -EFAULT)
		context->sigmask = fresh;
	/* getcontext and swapcontext do this. */
	if (context->handler_depth && call->arguments[2] &&
		(!call->arguments[1] || (u32)call->arguments[0] == 2))
		expect_returns(context);
	if (executes())
		call->result = result;
	else if (result != call->result)
		diverge(context, WHY_RESULT, (u64)call->result, (u64)result);
	call_finish(call, NULL, 0);
	context->regs.rax = (u64)result;
	if (fresh != old && !context->deferred_count)
		set_kernel_mask(context, fresh);
	return leave(context);
}

u32 handle_rt_sigpending(struct call *call)
{
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	u64 pending = 0, at = call->arguments[0];
	if (executes() && call->result == 0 && call->context->held_count &&
		!copy_user(&pending, (void *)at, 8)) {
		for (u32 i = 0; i < call->context->held_count; i++)
			pending |= SIGNAL_BIT(call->context->held[i].info.number);
		copy_user((void *)at, &pending, 8);
	}
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

/* Handles calls that wait under another mask. The kernel gets a copy of the mask without the
 * runtime's signals. */
static u32 wait_with_mask(struct call *call, u64 mask_address, u32 argument, u32 pair)
{
	struct context *context = call->context;
	struct {
		u64 address, bytes;
	} substitute;
	u64 mask = 0;
	call_prepare(call);
	if (executes()) {
		if (mask_address && !copy_user(&mask, (void *)mask_address, 8)) {
			context->temporary_mask =
				mask & ~(SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP));
			mask &= ~SYNCHRONOUS;
			substitute.address = (u64)&mask;
			substitute.bytes = 8;
			call->actual[argument] = pair ? (u64)&substitute : (u64)&mask;
		}
		if (call_execute(call) == CALL_ABORTED)
			return deliver_deferred(context, 1);
	} else if (mask_address && !copy_user(&mask, (void *)mask_address, 8))
		context->temporary_mask = mask & ~(SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP));
	context->temporary_active = mask_address && call->result == -EINTR;
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_rt_sigsuspend(struct call *call)
{
	return wait_with_mask(call, call->arguments[0], 0, 0);
}
u32 handle_ppoll(struct call *call) { return wait_with_mask(call, call->arguments[3], 3, 0); }
u32 handle_epoll_pwait(struct call *call) { return wait_with_mask(call, call->arguments[4], 4, 0); }
u32 handle_epoll_pwait2(struct call *call)
{
	return wait_with_mask(call, call->arguments[4], 4, 0);
}

u32 handle_pselect6(struct call *call)
{
	u64 pair[2] = {0, 0};
	if (call->arguments[5])
		copy_user(pair, (void *)call->arguments[5], 16);
	return wait_with_mask(call, pair[1] == 8 ? pair[0] : 0, 5, 1);
}

/* Handles calls with a set of signals to take synchronously. SIGSYS stays the runtime's. */
static u32 with_set(struct call *call, u32 argument)
{
	u64 set = 0;
	call_prepare(call);
	if (executes()) {
		if (call->arguments[argument] &&
			!copy_user(&set, (void *)call->arguments[argument], 8)) {
			set &= ~SIGNAL_BIT(SIGSYS);
			call->actual[argument] = (u64)&set;
		}
		if (call_execute(call) == CALL_ABORTED)
			return deliver_deferred(call->context, 1);
	}
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

/* Takes a held signal, which only the runtime has, if the program waits for it. */
static u32 take_held(struct call *call)
{
	struct context *context = call->context;
	u64 set = 0;
	if (answers() || !context->held_count || copy_user(&set, (void *)call->arguments[0], 8))
		return 0;
	for (u32 i = 0; i < context->held_count; i++) {
		struct siginfo info = context->held[i].info;
		if (!(set & SIGNAL_BIT(info.number)))
			continue;
		call_prepare(call);
		context->held[i] = context->held[--context->held_count];
		if (call->arguments[1])
			copy_user((void *)call->arguments[1], &info, sizeof info);
		call->result = info.number;
		call_finish(call, NULL, 0);
		context->regs.rax = (u64)call->result;
		return 1;
	}
	return 0;
}

u32 handle_rt_sigtimedwait(struct call *call)
{
	return take_held(call) ? leave(call->context) : with_set(call, 0);
}
u32 handle_signalfd(struct call *call) { return with_set(call, 1); }
u32 handle_signalfd4(struct call *call) { return with_set(call, 1); }
