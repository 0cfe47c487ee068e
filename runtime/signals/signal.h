/* What signal.c offers. */
#ifndef RETAKE_ENTRY_SIGNAL_H
#define RETAKE_ENTRY_SIGNAL_H
#include "base/signals.h"
#include "contract/context.h"

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
/* Nor one of those that a fault here would raise: there must be none. */
void hold_all_signals(struct context *context);
/* LEAVE_*. */
u32 deliver_deferred(struct context *context, u32 before_call);
u32 replay_signals(struct context *context, u32 before_call);
u32 replay_undone(struct context *context);
/* Undoes the call: the program is to make it again. */
void back_to_call(struct context *context);
void replay_fatal(struct context *context, u32 before_call);
u32 leave(struct context *context);
void raise_fault(struct context *context, const struct deferred_signal *raised, u32 certain);

#endif
