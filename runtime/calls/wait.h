/* What wait.c offers. */
#ifndef RETAKE_CALLS_WAIT_H
#define RETAKE_CALLS_WAIT_H
#include "base/state.h"
#include "contract/context.h"

/* Replay: what the program and what the kernel call a child. */
void child_note(struct process *process, u64 flags, u32 recorded, u32 real);

#endif
