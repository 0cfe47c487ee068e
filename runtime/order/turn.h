/* What turn.c offers. */
#ifndef RETAKE_ORDER_TURN_H
#define RETAKE_ORDER_TURN_H
#include "contract/context.h"

#define SECTION_SPINS 4000 /* sections are short, but one may be a call: waking another thread, say */
void turn_complete(struct context *context);      /* the turn, if it has one, is over */
void turn_obey_all(struct context *context, u32 at_call); /* obeys TURN events that come next */
void turn_obey_next(struct context *context);           /* there is to be one, and only that: the next may be of the system call that comes */
void turn_leave(struct context *context); /* obeys what baton_leave logged; a TURN event comes next */
u32 turn_is_over(struct context *context);      /* no more sections of its turn, nor events, are in its stream */
void turn_enter_section(struct context *context);
void turn_leave_section(struct context *context);

#endif
