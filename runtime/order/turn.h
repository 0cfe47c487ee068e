/* What turn.c offers. */
#ifndef RETAKE_ORDER_TURN_H
#define RETAKE_ORDER_TURN_H
#include "contract/context.h"

/* Sections are short, but one may be a call: waking another thread, say. */
#define SECTION_SPINS 4000
/* The turn, if it has one, is over. */
void turn_complete(struct context *context);
/* Obeys TURN events that come next. */
void turn_obey_all(struct context *context, u32 at_call);
/* There is to be one, and only that: the next may be of the system call that comes. */
void turn_obey_next(struct context *context);
/* Obeys what baton_leave logged; a TURN event comes next. */
void turn_leave(struct context *context);
/* No more sections of its turn, nor events, are in its stream. */
u32 turn_is_over(struct context *context);
void turn_enter_section(struct context *context);
void turn_leave_section(struct context *context);

#endif
