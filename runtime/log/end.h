/* What end.c offers. */
#ifndef RETAKE_LOG_END_H
#define RETAKE_LOG_END_H
#include "contract/context.h"

/* The last word of a stream: from here on the slot may be another thread's. */
void slot_exited(struct context *context);
/* Dies as the program would have, without a handler and at once; the parent sees the right status.
 */
void kill_self(u32 number) NORETURN;
/* Replay: the whole process ends. Its own threads get no turn any more; those of others in the
 * domain do. */
void turns_end(struct context *context);
/* Replay: the process is killed. */
void end_by_signal(struct context *context, u32 number) NORETURN;
/* Replay: nothing more of the thread is recorded. */
void end_of_stream(struct context *context) NORETURN;
/* Replay: the thread ends its process. */
void end_process(struct context *context, u32 status) NORETURN;

#endif
