/* What process.c offers. */
#ifndef RETAKE_CALLS_PROCESS_H
#define RETAKE_CALLS_PROCESS_H
#include "contract/context.h"

/* Trace: for what the threads of an address space share and change; nothing in other modes, where
 * the baton does it. */
void process_lock(void);
void process_unlock(void);
struct context *region_create(u32 *region);
void region_attach_ring(struct context *context);
void region_return(u32 region);

#endif
