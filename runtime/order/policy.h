/* The order policy: what of the threads of a domain is in order, and who makes that order. */
#ifndef RETAKE_ORDER_POLICY_H
#define RETAKE_ORDER_POLICY_H
#include "base/capabilities.h"
#include "base/shared.h"
#include "base/state.h"

/* Threads make the order as they run, by the baton, and it is logged. A trace has none: no process
 * of it has a domain. */
static inline u32 makes_order(void) { return logs(); }
/* The order is the log's. */
static inline u32 obeys_order(void) { return answers(); }
/* Only sections are in order: between them threads run side by side (section.c). Else everything
 * is: whoever runs has the baton. */
static inline u32 orders_by_sections(void) { return HEADER->options & OPTION_SYNC; }
/* Only in processes whose code tells by what its threads synchronise; others go in turns. */
static inline u32 orders_by_choice(void) { return HEADER->options & OPTION_AUTO; }
/* Who is next, and when, is drawn at random (chaos.c). */
static inline u32 orders_at_random(void) { return HEADER->chaos.seed != 0; }
/* Neither: turns come as suits the threads, so whatever makes them cheaper may be done. */
static inline u32 orders_plainly(void) { return !orders_at_random() && !orders_by_sections(); }
/* While recording the process knows its domain; at replay each thread knows it from its stream. */
static inline struct domain *domain_of(const struct context *context)
{
	return obeys_order() ? context->domain : context->process->domain;
}
/* Others of the domain may pass the same places at the same time. */
static inline u32 runs_in_parallel(const struct context *context)
{
	return context->sections && domain_of(context);
}

#endif
