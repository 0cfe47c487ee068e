/* Returning from handlers, and the alternate stack. Private stack. */
#include "base/interception.h"
#include "base/leave.h"
#include "base/state.h"
#include "base/user.h"
#include "log/log.h"
#include "mode/call.h"
#include "order/section.h"
#include "signals/frame.h"
#include "signals/signal.h"

#define EPERM 1
#define ENOMEM 12
#define EFAULT 14
#define EINVAL 22

static u32 stack_valid(u64 bytes) { return bytes >= 2048; }

/* Programs may switch between the contexts of handlers. These handlers return in another order than
 * they began, and perhaps more than once. */
static void handler_returned(struct context *context)
{
	u32 place = context->handler_depth % FRAMES_KNOWN;
	u64 frame = context->frames[place];
	if (!context->handler_depth || frame != context->regs.rsp - sizeof frame) {
		expect_returns(context);
		return;
	}
	section_resume(context, &context->interrupted[place]);
	if (!--context->handler_depth)
		arm_interception(context);
}

/* Raises the fault by which the kernel reports that it cannot return. */
static void bad_frame(struct context *context)
{
	const struct deferred_signal raised = {.info = {.number = SIGSEGV, .code = SI_KERNEL}};
	context->fault_made = 1;
	raise_fault(context, &raised, 0);
}

/* The program returns from a handler. The event holds no data, but separates signals before the
 * return from those after it. */
u32 handle_rt_sigreturn(struct call *call)
{
	struct context *context = call->context;
	struct user_context user;
	call_prepare(call);
	call_finish(call, NULL, 0);
	handler_returned(context);
	if (copy_user(&user, (const void *)context->regs.rsp, sizeof user) ||
		!restore_extended(user.machine.extended)) {
		bad_frame(context);
		return LEAVE_FULL;
	}
	u64 flags = (context->regs.eflags & ~(u64)FLAG_OF_FRAME) |
		    (user.machine.regs.eflags & FLAG_OF_FRAME);
	context->regs = user.machine.regs;
	context->regs.eflags = flags;
	context->sigmask = user.mask & ~(SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP));
	if (user.stack.flags & SS_DISABLE)
		context->altstack_pointer = 0, context->altstack_bytes = 0,
		context->altstack_flags = SS_DISABLE;
	else if (stack_valid(user.stack.bytes) && !on_alternate(context, context->regs.rsp)) {
		context->altstack_pointer = user.stack.pointer;
		context->altstack_bytes = user.stack.bytes;
		context->altstack_flags = user.stack.flags & SS_AUTODISARM;
	}
	if (!context->deferred_count)
		set_kernel_mask(context, context->sigmask);
	leave(context);
	return LEAVE_FULL;
}

u32 handle_sigaltstack(struct call *call)
{
	struct context *context = call->context;
	struct user_stack fresh, old = {context->altstack_pointer, context->altstack_flags, 0,
					 context->altstack_bytes};
	u32 on = on_alternate(context, context->regs.rsp);
	i64 result = 0;
	call_prepare(call);
	if (call->arguments[0]) {
		u32 mode;
		if (copy_user(&fresh, (const void *)call->arguments[0], sizeof fresh))
			result = -EFAULT;
		else if (on)
			result = -EPERM;
		else if (mode = fresh.flags & ~SS_AUTODISARM,
			mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE)
			result = -EINVAL;
		else if (mode != SS_DISABLE && !stack_valid(fresh.bytes))
			result = -ENOMEM;
		else {
			u32 disable = mode == SS_DISABLE;
			context->altstack_pointer = disable ? 0 : fresh.pointer;
			context->altstack_bytes = disable ? 0 : fresh.bytes;
			context->altstack_flags = disable ? SS_DISABLE : fresh.flags;
		}
	}
	if (on)
		old.flags |= SS_ONSTACK;
	if (!result && call->arguments[1] &&
		copy_user((void *)call->arguments[1], &old, sizeof old))
		result = -EFAULT;
	if (answers() && result != call->result)
		diverge(context, WHY_RESULT, (u64)call->result, (u64)result);
	call->result = result;
	call_finish(call, NULL, 0);
	context->regs.rax = (u64)result;
	return leave(context);
}
