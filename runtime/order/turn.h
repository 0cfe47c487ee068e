/* What turn.c offers. */
#ifndef RETAKE_ORDER_TURN_H
#define RETAKE_ORDER_TURN_H
#include "contract/context.h"
#include "log/gate.h"

/* Most sections are short, but one may be a call that wakes another thread. */
#define SECTION_SPINS 4000
/* A TURN event. */
struct turn_event {
	u64 turn;
	u16 kind; /* TURN_* */
	u8 flags;
};
/* Takes the next event, a TURN event. The thread keeps its old turn until turn_give_up. */
struct turn_event turn_take(struct context *context);
void turn_give_up(struct context *context, const struct turn_event *next);
void turn_await(struct context *context, const struct turn_event *next);
/* Does all three for one TURN event, which must be the next event. A further TURN event may belong
 * to the system call that follows. */
void turn_obey_next(struct context *context);
/* Obeys what baton_leave logged. The next event is a TURN event. */
void turn_leave(struct context *context);
void turn_enter_section(struct context *context);
void turn_leave_section(struct context *context);

#endif
