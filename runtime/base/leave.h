/* How a thread goes back to the program. */
#ifndef RETAKE_BASE_LEAVE_H
#define RETAKE_BASE_LEAVE_H
#include "contract/context.h"

/* Fast: the compiled code has kept the callee-saved registers. Full: all registers come from the
 * context. */
enum { LEAVE_FAST = 0, LEAVE_FULL = 1 };

/* The first of what restore.S offers: sets every register exactly as the context says. */
void restore_full(struct context *context) NORETURN;
/* Does LEAVE_FAST from the middle of compiled code that does not return. */
void leave_fast(void) NORETURN;
/* From here to restore_stepping_end, the registers and the trap flag are being loaded. */
void restore_stepping(void);
/* The instruction that faults if the program's next address is invalid. */
void restore_jump(void);
void restore_stepping_end(void);

#endif
