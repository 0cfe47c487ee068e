/* What signal.c offers. */
#ifndef RETAKE_ENTRY_SIGNAL_H
#define RETAKE_ENTRY_SIGNAL_H
#include "base/signals.h"
#include "contract/context.h"

struct signal_action;

void signals_install(struct context *context);
/* Record, in a program that runs already: keeps its dispositions, and sets the kernel's. */
void signals_take_over(struct context *context);
/* Stores in the slot which dispositions exec keeps. */
void note_ignored(struct context *context);
void apply_action(u32 number, const struct signal_action *action);
void signals_apply(struct context *context);
/* Resets handlers to the default, as CLONE_CLEAR_SIGHAND demands. */
void signals_clear(struct context *context);
void set_kernel_mask(struct context *context, u64 mask);
/* Record: holds signals back until set_kernel_mask. */
void hold_signals(struct context *context);
/* Record: the same, including the signals of faults. No fault may occur meanwhile. */
void hold_all_signals(struct context *context);
/* Both return LEAVE_*. */
u32 deliver_deferred(struct context *context, u32 before_call);
u32 replay_signals(struct context *context, u32 before_call);
u32 replay_undone(struct context *context);
/* Undoes the call, so that the program makes it again. */
void back_to_call(struct context *context);
void replay_fatal(struct context *context, u32 before_call);
u32 leave(struct context *context);
void raise_fault(struct context *context, const struct deferred_signal *raised, u32 certain);

#endif
