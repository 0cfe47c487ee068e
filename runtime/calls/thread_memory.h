/* What thread_memory.c offers. */
#ifndef RETAKE_CALLS_THREAD_MEMORY_H
#define RETAKE_CALLS_THREAD_MEMORY_H
#include "contract/context.h"

/* Returns memory for one more thread of this process, or for a vfork child that lives in it, or
 * NULL if there is none. Regions belong to the address space, so children in their parent's memory
 * take them from the same place. */
struct context *region_create(void);
/* The region's thread ends, or was not made. */
void region_return(u32 region);

#endif
