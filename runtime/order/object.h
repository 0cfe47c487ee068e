/* What object.c offers. */
#ifndef RETAKE_ORDER_OBJECT_H
#define RETAKE_ORDER_OBJECT_H
#include "contract/context.h"

/* A function that works on an object begins, in a section of the current depth. */
void object_begin(struct context *context, u64 object, u32 is_condition);
/* The function goes on after a call, or after a function within it. */
void object_enter(struct context *context);
/* The function comes to a call. */
void object_leave(struct context *context);
/* The function is over. The one around it goes on. */
void object_end(struct context *context);
/* Ends all functions that the thread is in. */
void object_forget(struct context *context);

#endif
