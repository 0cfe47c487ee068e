/* What start.c offers. */
#ifndef RETAKE_CALLS_START_H
#define RETAKE_CALLS_START_H
#include "contract/context.h"

enum start_how { START_ROOT, START_FORK, START_VFORK, START_THREAD };
/* Record: begins the thread's stream. */
void log_start(struct context *context, u64 how);
/* Called first in a new thread, in either mode. From here on the thread has its own stream. `how`:
 * START_*. */
void begin_stream(struct context *context, u64 how);

#endif
