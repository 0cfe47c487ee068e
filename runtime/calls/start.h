/* What start.c offers. */
#ifndef RETAKE_CALLS_START_H
#define RETAKE_CALLS_START_H
#include "contract/context.h"

enum start_how { START_ROOT, START_FORK, START_VFORK, START_THREAD };
/* The first thing a new thread does, in either mode: from here on it has a stream of its own.
 * `how`: START_*. */
void begin_stream(struct context *context, u64 how);

#endif
