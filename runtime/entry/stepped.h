/* What stepped.c offers. */
#ifndef RETAKE_ENTRY_STEPPED_H
#define RETAKE_ENTRY_STEPPED_H
#include "contract/context.h"

/* The thread stands at an entry's end or before a call; it goes on in the runtime by `saved`, with
 * its registers in the context. */
void enter_saved(struct context *context, struct registers *regs, void (*saved)(void));
/* After a trap of a thread that has set the trap flag itself. 1: the program is told nothing. */
u32 own_step(struct context *context, struct siginfo *info, struct registers *regs);
/* The end of an instruction that was emulated. */
void step_emulated(struct siginfo *info, struct fault *fault, u64 rip);

#endif
