/* The memory that a call reads and writes, by its row of the table. `walk.rs` and the runtime's
 * `walk.c` read the same rows. */
#ifndef RETAKE_BPF_WALK_H
#define RETAKE_BPF_WALK_H

#include "item.h"
#include "../../../runtime/gen/numbers.h"
#include "../../../runtime/gen/table.c"


/* When an argument is captured. */
enum { AT_ENTRY, AT_RETURN };
/* The result of `visit`. VISIT_HELD: only user space can read the argument. */
enum { VISITED, VISIT_HELD };

/* Returns the index of a call's row. The rows of `sub_rows` come after all of `call_rows`. */
INLINE u32 row_index(u32 number, const u64 *arguments)
{
	AS_CHECKED(number);
	if (number >= CALL_ROW_COUNT)
		return ~0u;
	const struct call_row *row = &call_rows[number];
	if (row->selector_argument > 5)
		return number;
	u32 command = (u32)arguments[row->selector_argument];
	u32 low = row->first_sub_row, high = low + row->sub_row_count;
	for (u32 step = 0; step < 10 && low < high; step++) {
		u32 middle = (low + high) / 2;
		if (middle >= SUB_ROW_COUNT)
			break;
		u32 found = (u32)sub_rows[middle].command;
		if (found == command)
			return CALL_ROW_COUNT + middle;
		if (found < command)
			low = middle + 1;
		else
			high = middle;
	}
	return number;
}

INLINE const struct call_row *row_at(u32 index)
{
	AS_CHECKED(index);
	if (index < CALL_ROW_COUNT)
		return &call_rows[index];
	index -= CALL_ROW_COUNT;
	if (index >= SUB_ROW_COUNT)
		return 0;
	AS_CHECKED(index);
	return &sub_rows[index].row;
}

INLINE u64 not_negative(u64 value) { return (i64)value < 0 ? 0 : value; }
INLINE u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

INLINE u64 argument_of(struct work *work, u32 index)
{
	return index < 6 ? work->arguments[index] : 0;
}

/* Returns the present value of a value-result length. */
INLINE u64 length_there(struct work *work, const struct argument_rule *rule, u64 address)
{
	switch (rule->length_rule) {
	case LENGTH_POINTEE32: return word_at(argument_of(work, rule->length_argument), 4);
	case LENGTH_POINTEE64: return word_at(argument_of(work, rule->length_argument), 8);
	case LENGTH_COUNTED:
		return address ? word_at(address + rule->length_argument, rule->length_argument2)
			       : 0;
	default: return 0;
	}
}

INLINE u64 plain_bytes(struct work *work, const struct argument_rule *rule, u32 index, u64 result)
{
	u64 count, address = argument_of(work, index), before = index < 6 ? work->before[index] : 0;
	u64 named = not_negative(argument_of(work, rule->length_argument));
	switch (rule->length_rule) {
	case LENGTH_CONSTANT: return (u64)rule->count * rule->element_bytes;
	case LENGTH_ARGUMENT: count = named; break;
	case LENGTH_RESULT: count = result; break;
	case LENGTH_RESULT_MAX_ARGUMENT: count = smaller(result, named); break;
	case LENGTH_BITS: count = (named + 63) / 64 * 8; break;
	case LENGTH_PAGES: count = (named + 4095) / 4096; break;
	case LENGTH_PRODUCT:
		count = smaller(named, LARGEST) *
			smaller(argument_of(work, rule->length_argument2), LARGEST);
		break;
	default: count = smaller(length_there(work, rule, address), before); break;
	}
	return smaller(smaller(count, LARGEST) * rule->element_bytes + rule->count, LARGEST);
}

INLINE void plain(
	struct work *work, const struct argument_rule *rule, u32 index, u64 result, u32 direction)
{
	u32 is_data = rule->element_bytes == 1 && rule->length_rule != LENGTH_CONSTANT;
	take(argument_of(work, index), plain_bytes(work, rule, index, result), is_data,
		index | direction << 8);
}

INLINE u64 vector_count(struct work *work, const struct argument_rule *rule)
{
	if (rule->length_rule != LENGTH_ARGUMENT)
		return 0;
	return smaller(not_negative(argument_of(work, rule->length_argument)), MOST_VECTORS);
}

/* Writes inputs that the call may change, or that are gone after it. */
INLINE u32 visit_entry(struct work *work, const struct argument_rule *rule, u32 index)
{
	u64 address = argument_of(work, index);
	if (index < 6)
		work->before[index] = length_there(work, rule, address);
	if (address == 0)
		return VISITED;
	switch (rule->shape) {
	case SHAPE_STRINGS: put_strings(address, index); break;
	case SHAPE_MSGHDR:
		if (rule->direction != DIRECTION_IN)
			put_message(address, 0, 0, index);
		break;
	case SHAPE_STRING:
	case SHAPE_IOVEC:
	case SHAPE_MMSGHDR:
	case SHAPE_SIGMASK_PAIR:
	case SHAPE_SEMARRAY: break;
	case SHAPE_IFCONF: take(address, 16, 0, index); break;
	default:
		if (rule->direction == DIRECTION_INOUT)
			plain(work, rule, index, 0, ITEM_INPUT);
	}
	return VISITED;
}

INLINE u32 visit_input(struct work *work, const struct argument_rule *rule, u32 index)
{
	u64 address = argument_of(work, index), pair[2], count;
	switch (rule->shape) {
	case SHAPE_STRING: put_string(address, index); break;
	case SHAPE_IOVEC:
		count = vector_count(work, rule);
		take(address, count * 16, 0, index);
		if (rule->direction != DIRECTION_OUT)
			put_vectors(address, count, ~0ULL, index);
		break;
	case SHAPE_SIGMASK_PAIR:
		take(address, 16, 0, index);
		if (read_user(pair, sizeof pair, (const void *)address) == 0)
			take(pair[0], 8, 0, index);
		break;
	case SHAPE_MSGHDR:
		if (rule->direction == DIRECTION_IN)
			put_message(address, ~0ULL, 1, index);
		break;
	case SHAPE_MMSGHDR: return VISIT_HELD;
	case SHAPE_STRINGS:
	case SHAPE_SEMARRAY:
	case SHAPE_IFCONF: break;
	default:
		if (rule->direction == DIRECTION_IN)
			plain(work, rule, index, 0, ITEM_INPUT);
	}
	return VISITED;
}

INLINE u32 visit_output(struct work *work, const struct argument_rule *rule, u32 index, u32 failed)
{
	u64 address = argument_of(work, index), result = work->result;
	u32 what = index | ITEM_OUTPUT << 8;
	if (rule->shape == SHAPE_IFCONF)
		return VISIT_HELD;
	if (rule->direction == DIRECTION_IN)
		return VISITED;
	switch (rule->shape) {
	case SHAPE_STRING:
	case SHAPE_STRINGS:
	case SHAPE_SIGMASK:
	case SHAPE_SIGMASK_PAIR:
	case SHAPE_SEMARRAY: break;
	case SHAPE_IOVEC: put_vectors(address, vector_count(work, rule), result, what); break;
	case SHAPE_MSGHDR: put_message(address, result, 1, what); break;
	default:
		if (!failed || plain_bytes(work, rule, index, result) <= 0x10000)
			plain(work, rule, index, result, ITEM_OUTPUT);
	}
	return VISITED;
}

/* Writes one argument of the current call. Tells whether only user space can read it. */
APART u32 visit(u32 index_of_row, u32 index, u32 when, u32 failed)
{
	struct work *work = own_work();
	const struct call_row *row = row_at(index_of_row);
	if (!work || !row || index > 5)
		return VISITED;
	const struct argument_rule *rule = &row->arguments[index];
	if (rule->direction == DIRECTION_VALUE)
		return VISITED;
	if (when == AT_ENTRY)
		return visit_entry(work, rule, index);
	if (argument_of(work, index) == 0)
		return VISITED;
	if (visit_input(work, rule, index) != VISITED)
		return VISIT_HELD;
	if (failed && !(rule->flags & ARGUMENT_ALWAYS))
		return VISITED;
	return visit_output(work, rule, index, failed);
}

/* Writes the data of an ioctl without a row. Its number has the size and the direction. */
INLINE void undescribed(struct work *work, u32 number, u32 index_of_row, u32 direction)
{
	u32 command = (u32)work->arguments[1];
	if (number != NR_ioctl || index_of_row != NR_ioctl ||
		!(command >> 30 & (direction == ITEM_INPUT ? 1 : 2)))
		return;
	for (u32 i = 0; i < REFUSED_RANGE_COUNT; i++)
		if ((u16)command >= refused_ranges[i].first &&
			(u16)command <= refused_ranges[i].last)
			return;
	take(work->arguments[2], command >> 16 & 0x3fff, 0, 2 | direction << 8);
}

#endif
