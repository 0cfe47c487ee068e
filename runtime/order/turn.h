/* What turn.c offers. */
#ifndef RETAKE_ORDER_TURN_H
#define RETAKE_ORDER_TURN_H
#include "contract/context.h"
#include "log/gate.h"

/* Sections are short, but one may be a call: waking another thread, say. */
#define SECTION_SPINS 4000
/* A TURN event. */
struct turn_event {
	u64 turn;
	u16 kind; /* TURN_* */
	u8 flags;
};
/* It comes next; the thread has its last turn until it gives it up. */
struct turn_event turn_take(struct context *context);
void turn_give_up(struct context *context, const struct turn_event *next);
void turn_await(struct context *context, const struct turn_event *next);
/* All of that, for one TURN event, which is to come next: another may be of the system call that
 * comes. */
void turn_obey_next(struct context *context);
/* Obeys what baton_leave logged; a TURN event comes next. */
void turn_leave(struct context *context);
void turn_enter_section(struct context *context);
void turn_leave_section(struct context *context);

#endif
