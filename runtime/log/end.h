/* What end.c offers. */
#ifndef RETAKE_LOG_END_H
#define RETAKE_LOG_END_H
#include "contract/context.h"

/* Ends the stream. From here on another thread may get the slot. */
void slot_exited(struct context *context);
/* Dies at once as the program would have, without running a handler. The parent sees the right
 * status. */
void kill_self(u32 number) NORETURN;
/* Replay, after the stream's last event: how many sections the thread ended in its turn, and how
 * many operations, as far as it is known of a recording that was cut off. */
u64 cut_sections(struct context *context);
u64 cut_operations(struct context *context);
/* Replay: the thread's turn is over. If the recording was cut off within the turn, no thread gets
 * the next one. */
void turn_ends(struct context *context);
/* Replay: the whole process ends. Its own threads get no turn any more; those of other processes in
 * the domain do. */
void turns_end(struct context *context);
/* Replay: the process dies by a signal. */
void end_by_signal(struct context *context, u32 number) NORETURN;
/* Replay: the thread has no more events. */
void end_of_stream(struct context *context) NORETURN;
/* Replay: a child that used the memory of this process is gone. If the recording was cut off before
 * the child was done, nobody knows the rest of what it wrote, and this thread ends too. */
void end_after_guest(struct context *context, const struct process *guest);
/* Whether the process ends with its last thread, because one has ended it, or was killed. */
u32 is_ending(const struct process *process);
/* Replay: the thread has exited by itself, and `left` others are left. If the process is ending,
 * the last thread takes it along. */
void end_if_ending(struct context *context, u32 left);
/* Replay: the thread ends its process. */
void end_process(struct context *context, u32 status) NORETURN;

#endif
