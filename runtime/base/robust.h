/* What robust.c offers. */
#ifndef RETAKE_BASE_ROBUST_H
#define RETAKE_BASE_ROBUST_H
#include "contract/context.h"

/* The thread dies, perhaps with its process. Releases its locks, and lets other processes that
 * share its memory see that it is gone. */
void memory_left(struct context *context);
/* The thread dies, and others of its process go on. */
void thread_id_clear(struct context *context);

#endif
