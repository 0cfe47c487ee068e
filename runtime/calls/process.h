/* What process.c offers. */
#ifndef RETAKE_CALLS_PROCESS_H
#define RETAKE_CALLS_PROCESS_H
#include "contract/context.h"

void region_return(u32 region);

#endif
