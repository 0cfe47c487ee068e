/* What stepped.c offers. */
#ifndef RETAKE_ENTRY_STEPPED_H
#define RETAKE_ENTRY_STEPPED_H
#include "contract/context.h"

/* Continues the thread in the runtime at `saved`, with its registers in the context. The thread is
 * at an entry's end or before a call. */
void enter_saved(struct context *context, struct registers *regs, void (*saved)(void));
/* Handles a trap of a thread that has set the trap flag itself. Returns 1 if the program must not
 * see it. */
u32 own_step(struct context *context, struct siginfo *info, struct registers *regs);
/* Makes the trap at the end of an emulated instruction. */
void step_emulated(struct siginfo *info, struct fault *fault, u64 rip);

#endif
