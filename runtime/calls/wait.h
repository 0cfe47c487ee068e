/* What wait.c offers. */
#ifndef RETAKE_CALLS_WAIT_H
#define RETAKE_CALLS_WAIT_H
#include "base/state.h"
#include "contract/context.h"

/* Replay: notes a child's number as the program knows it, and as the kernel does. */
void child_note(struct process *process, u64 flags, u32 recorded, u32 real);

#endif
