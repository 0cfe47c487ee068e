/* What start.c offers. */
#ifndef RETAKE_ENTRY_START_H
#define RETAKE_ENTRY_START_H
#include "contract/context.h"

/* Prepares the context of the first thread, in the first region. */
struct context *first_context(struct slot *slot);
void forget_slots(void);
/* Record: `base`: where the vDSO is; 0: there is none. */
void patch_vdso(struct context *context, u64 base);
/* Makes instructions trap whose results differ between processors. */
void trap_instructions(void);
void replay_exec(struct context *context, const struct event *event) NORETURN;

#endif
