/* How a thread goes back to the program. */
#ifndef RETAKE_BASE_LEAVE_H
#define RETAKE_BASE_LEAVE_H

/* Fast: the compiled code has kept the callee-saved registers. Full: all are as the context says.
 */
enum { LEAVE_FAST = 0, LEAVE_FULL = 1 };

#endif
