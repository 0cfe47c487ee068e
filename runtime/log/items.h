/* What items.c offers. */
#ifndef RETAKE_LOG_ITEMS_H
#define RETAKE_LOG_ITEMS_H
#include "contract/context.h"
#include "gen/table.h"
#include "log/sink.h"

const struct call_row *find_row(u64 number, const u64 *arguments);
void visit_inputs(struct sink *sink, const struct call_row *row, const u64 *arguments);
void visit_outputs(struct sink *sink, const struct call_row *row, const u64 *arguments, i64 result);
/* Visits what a call may have written that has not returned yet. */
void visit_begun(struct sink *sink, const struct call_row *row, const u64 *arguments);
/* The most bytes that one call moves. */
#define LARGEST_MOVE 0x7ffff000UL
static inline u64 not_negative(u64 value) { return (i64)value < 0 ? 0 : value; }
static inline u64 bytes_of(const struct argument_rule *rule, u64 count)
{
	return minimum(
		minimum(count, LARGEST_MOVE) * rule->element_bytes + rule->count, LARGEST_MOVE);
}

#endif
