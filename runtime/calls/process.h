/* What process.c offers. */
#ifndef RETAKE_CALLS_PROCESS_H
#define RETAKE_CALLS_PROCESS_H
#include "contract/context.h"

struct context *region_create(u32 *region);
void region_attach_ring(struct context *context);
void region_return(u32 region);

#endif
