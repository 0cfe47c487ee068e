/* What gate.c offers. */
#ifndef RETAKE_LOG_GATE_H
#define RETAKE_LOG_GATE_H
#include "contract/context.h"

/* Where those wait whose turn it is then. */
static inline struct turn_gate *gate_of(struct domain *domain, u64 turn)
{
	return &domain->gates[turn % TURN_GATES];
}
/* The turn, if it has one, is over. */
void turn_complete(struct context *context);

#endif
