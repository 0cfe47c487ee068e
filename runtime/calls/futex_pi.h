/* What futex_pi.c offers. */
#ifndef RETAKE_CALLS_FUTEX_PI_H
#define RETAKE_CALLS_FUTEX_PI_H
#include "contract/context.h"

struct call;

void futex_waits(struct call *call);

#endif
