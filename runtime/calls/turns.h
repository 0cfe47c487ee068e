/* What turns.c offers. */
#ifndef RETAKE_CALLS_TURNS_H
#define RETAKE_CALLS_TURNS_H
#include "contract/context.h"

/* Obeys all TURN events that come next. The thread has come to the call whose event follows them.
 */
void obey_turns(struct context *context);

#endif
