/* What robust.c offers. */
#ifndef RETAKE_BASE_ROBUST_H
#define RETAKE_BASE_ROBUST_H
#include "contract/context.h"

/* The thread dies, perhaps with its process: its locks are left to others, and whoever shares its
 * memory from another process sees that it is gone. */
void memory_left(struct context *context);
/* The thread dies; others of its process go on. */
void thread_id_clear(struct context *context);

#endif
