/* What object.c offers. */
#ifndef RETAKE_ORDER_OBJECT_H
#define RETAKE_ORDER_OBJECT_H
#include "contract/context.h"

/* A function begins that works on an object, in a section of the depth that it has now. */
void object_begin(struct context *context, u64 object, u32 is_condition);
/* The function goes on behind a call, or ends. */
void object_enter(struct context *context);
/* It comes to a call. */
void object_leave(struct context *context);
/* It is over. The one around it goes on. */
void object_end(struct context *context);
/* Whatever the thread is in is over. */
void object_forget(struct context *context);

#endif
