/* The order policy: which parts of a domain's threads are ordered, and whether the threads or the
 * log make the order. */
#ifndef RETAKE_ORDER_POLICY_H
#define RETAKE_ORDER_POLICY_H
#include "base/capabilities.h"
#include "base/shared.h"
#include "base/state.h"

/* Threads make the order as they run, by the baton, and log it. In a trace no process has a domain.
 */
static inline u32 makes_order(void) { return logs(); }
/* The threads obey the order in the log. */
static inline u32 obeys_order(void) { return answers(); }
/* Only sections are ordered, and between them threads run in parallel (section.c). Otherwise a
 * thread runs only while it has the baton. */
static inline u32 orders_by_sections(void) { return HEADER->options & OPTION_SYNC; }
/* Sections are ordered only in processes whose code tells how its threads synchronise. Other
 * processes run in turns. */
static inline u32 orders_by_choice(void) { return HEADER->options & OPTION_AUTO; }
/* The next thread and the time of its turn are random (chaos.c). */
static inline u32 orders_at_random(void) { return HEADER->chaos.seed != 0; }
/* The order is neither random nor by sections. Then turns may come in any order, so anything may be
 * done that makes them cheaper. */
static inline u32 orders_plainly(void) { return !orders_at_random() && !orders_by_sections(); }
/* While recording the process has its domain; at replay each thread gets it from its stream. */
static inline struct domain *domain_of(const struct context *context)
{
	return obeys_order() ? context->domain : context->process->domain;
}
/* Other threads of the domain may pass the same places at the same time. */
static inline u32 runs_in_parallel(const struct context *context)
{
	return context->sections && domain_of(context);
}

#endif
