/* How a thread goes back to the program. */
#ifndef RETAKE_BASE_LEAVE_H
#define RETAKE_BASE_LEAVE_H
#include "contract/context.h"

/* Fast: the compiled code has kept the callee-saved registers. Full: all are as the context says.
 */
enum { LEAVE_FAST = 0, LEAVE_FULL = 1 };

/* What restore.S offers: every register exactly as the context says; */
void restore_full(struct context *context) NORETURN;
/* LEAVE_FAST, from the middle of compiled code that does not return; */
void leave_fast(void) NORETURN;
/* Behind which the registers are on their way from the context, and the trap flag is too; */
void restore_stepping(void);
/* The instructions that fault when the program is to go on at no address. */
void restore_jump(void);
void restore_stepping_end(void);

#endif
