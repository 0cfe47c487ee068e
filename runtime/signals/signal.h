/* What signal.c offers. */
#ifndef RETAKE_ENTRY_SIGNAL_H
#define RETAKE_ENTRY_SIGNAL_H
#include "contract/context.h"
#include "mode/call.h"

struct signal_action;

void signals_install(struct context *context);
/* What exec keeps of the dispositions goes into the slot. */
void note_ignored(struct context *context);
void apply_action(u32 number, const struct signal_action *action);
void signals_apply(struct context *context);
/* Handlers become the default, as CLONE_CLEAR_SIGHAND wants. */
void signals_clear(struct context *context);
void set_kernel_mask(struct context *context, u64 mask);
/* Record: none comes until set_kernel_mask. */
void hold_signals(struct context *context);
/* LEAVE_*. */
u32 deliver_deferred(struct context *context, u32 before_call);
u32 replay_signals(struct context *context, u32 before_call);
u32 replay_undone(struct context *context);
/* Undoes the call: the program is to make it again. */
void back_to_call(struct context *context);
void replay_fatal(struct context *context, u32 before_call);
u32 leave(struct context *context);
/* The program finds it in rax. */
static inline u32 leave_with_result(struct call *call)
{
	call->context->regs.rax = (u64)call->result;
	return leave(call->context);
}
void runtime_fault(struct context *context);
void raise_fault(struct context *context, const struct deferred_signal *raised, u32 certain);
void die_by_signal(struct context *context, u32 number) NORETURN;
#define SI_KERNEL 0x80
#define SIGNAL_BIT(n) (1UL << ((n)-1))
enum {
	SIGILL = 4,
	SIGTRAP = 5,
	SIGABRT = 6,
	SIGBUS = 7,
	SIGFPE = 8,
	SIGKILL = 9,
	SIGSEGV = 11,
	SIGCHLD = 17,
	SIGCONT = 18,
	SIGSTOP = 19,
	SIGTSTP = 20,
	SIGTTIN = 21,
	SIGTTOU = 22,
	SIGURG = 23,
	SIGWINCH = 28,
	SIGSYS = 31
};
#define SYNCHRONOUS                                                                           \
	(SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGFPE) | \
		SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS))

#endif
