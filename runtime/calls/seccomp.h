/* What seccomp.c offers. */
#ifndef RETAKE_CALLS_SECCOMP_H
#define RETAKE_CALLS_SECCOMP_H
#include "contract/context.h"

struct call;

/* Returns 1 if the program's filter has decided. Then *how is LEAVE_*. */
u32 filter_call(struct call *call, u32 *how);
/* prctl(PR_SET_SECCOMP). */
u32 filter_set(struct call *call);
/* prctl(PR_GET_SECCOMP). */
u32 filter_mode(struct call *call);

#endif
