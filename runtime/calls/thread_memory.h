/* What thread_memory.c offers. */
#ifndef RETAKE_CALLS_THREAD_MEMORY_H
#define RETAKE_CALLS_THREAD_MEMORY_H
#include "contract/context.h"

/* Memory for one more thread of this process (or for a vfork child that lives in it). Regions are
 * of the address space, so children that live in their parent's memory take them from the same
 * place. NULL: there is none. */
struct context *region_create(void);
/* Its thread ends, or was not made. */
void region_return(u32 region);

#endif
