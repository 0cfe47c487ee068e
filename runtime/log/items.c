/* Walks what a call reads and writes, from its table row. One walk serves four purposes; sink.c
 * does the work for each item. Private stack; touches the program's memory only by copy_user. */
#include "log/items.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "gen/table.h"
#include "log/sink.h"

#define INLINE_STRING 4096u
#define MAX_VECTORS 1024u
#define EFAULT 14
/* The limit for one output or array of vectors, after a call that failed half way. */
#define FAULTED_BYTES 0x10000UL
#define BEGUN_BYTES 0x100000UL
/* The limit for one list: two lists must fit the space for inputs. */
#define MAX_STRINGS 150u
/* Our own flag: the command holds the byte count. */
#define RULE_IOCTL_SIZE 0x80

static u64 compare_command(u64 command, const struct sub_row *rows, u32 count)
{
	u32 low = 0, high = count;
	while (low < high) {
		u32 middle = (low + high) / 2;
		if (rows[middle].command < command)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#define UNDESCRIBED(way)                                                                       \
	{                                                                                      \
		.policy = POLICY_EMULATE, .argument_count = 3, .may_wait = 1, .inputs_end = 3, \
		.outputs_end = 3, .selector_argument = NO_SELECTOR, .arguments = {             \
			[2] = {.direction = way,                                               \
				.shape = SHAPE_PLAIN,                                          \
				.length_rule = LENGTH_CONSTANT,                                \
				.element_bytes = 1,                                            \
				.flags = way ? RULE_IOCTL_SIZE : 0}                            \
		}                                                                              \
	}
static const struct call_row undescribed_ioctls[4] = {UNDESCRIBED(DIRECTION_VALUE),
	UNDESCRIBED(DIRECTION_IN), UNDESCRIBED(DIRECTION_OUT), UNDESCRIBED(DIRECTION_INOUT)};

/* Finds the row of an ioctl without one. The command encodes the number of bytes and their
 * direction; drivers that ignore the convention are rare. */
static const struct call_row *decode_ioctl(const u64 *arguments)
{
	static const struct call_row refused = {.policy = POLICY_REFUSE,
		.argument_count = 3,
		.selector_argument = NO_SELECTOR,
		.refuse_errno = 25 /* ENOTTY */};
	u32 low = (u32)arguments[1] & 0xffff;
	for (u32 i = 0; i < REFUSED_RANGE_COUNT; i++)
		if (low >= refused_ranges[i].first && low <= refused_ranges[i].last)
			return &refused;
	u32 direction = (u32)arguments[1] >> 30, bytes = (u32)arguments[1] >> 16 & 0x3fff;
	return &undescribed_ioctls[bytes ? direction : 0];
}

const struct call_row *find_row(u64 number, const u64 *arguments)
{
	if (UNLIKELY(number >= CALL_ROW_COUNT))
		return NULL;
	const struct call_row *row = &call_rows[number];
	if (LIKELY(row->selector_argument == 0xff))
		return row;
	const struct sub_row *rows = &sub_rows[row->first_sub_row];
	u64 command =
		number == NR_ioctl ? (u32)arguments[1] : (u32)arguments[row->selector_argument];
	u64 at = compare_command(command, rows, row->sub_row_count);
	if (at < row->sub_row_count && rows[at].command == command)
		return &rows[at].row;
	return number == NR_ioctl ? decode_ioctl(arguments) : row;
}

/* ---- shapes ---- */

struct vector {
	u64 base, bytes;
};

static void visit_vectors(struct sink *sink, u32 argument, u64 array, u64 count, u64 limit)
{
	for (u64 i = 0; i < count && i < MAX_VECTORS && limit; i++) {
		struct vector vector;
		if (copy_user(&vector, (const void *)(array + i * sizeof vector), sizeof vector))
			return;
		u64 bytes = minimum(vector.bytes, limit);
		sink->is_data = 1;
		one_item(sink, argument, vector.base, bytes, INLINE_WHOLE);
		sink->is_data = 0;
		limit -= bytes;
	}
}

struct message {
	u64 name;
	u32 name_bytes, padding;
	u64 vectors, vector_count, control, control_bytes;
	u32 flags, padding2;
};
_Static_assert(sizeof(struct message) == 56, "struct user_msghdr");

static void message_inputs(struct sink *sink, u32 argument, u64 address, u32 sends)
{
	struct message message;
	one_item(sink, argument, address, sizeof message, INLINE_WHOLE);
	if (!address || copy_user(&message, (const void *)address, sizeof message))
		return;
	one_item(sink, argument, message.vectors, minimum(message.vector_count, MAX_VECTORS) * 16,
		INLINE_WHOLE);
	if (!sends)
		return;
	one_item(sink, argument, message.name, minimum(message.name_bytes, 128), INLINE_WHOLE);
	visit_vectors(sink, argument, message.vectors, message.vector_count, ~0UL);
	one_item(sink, argument, message.control, minimum(message.control_bytes, 0x10000),
		INLINE_WHOLE);
}

/* The outputs of a receive. The structure holds the resulting lengths of name and control. The
 * length of the name may exceed its buffer. */
static void message_outputs(struct sink *sink, u32 argument, u64 address, u64 received)
{
	struct message message;
	if (!address || copy_user(&message, (const void *)address, sizeof message))
		return;
	one_item(sink, argument, address, sizeof message, 0);
	one_item(sink, argument, message.name, minimum(message.name_bytes, 128), 0);
	visit_vectors(sink, argument, message.vectors, message.vector_count, received);
	one_item(sink, argument, message.control, minimum(message.control_bytes, 0x10000), 0);
}

static void visit_strings(struct sink *sink, u32 argument, u64 array)
{
	if (!array)
		return;
	u64 count = 0, text = 0;
	while (count < 0x10000 && !copy_user(&text, (const void *)(array + count * 8), 8) && text)
		count++;
	one_item(sink, argument, array, count * 8, 0);
	for (u64 i = 0; i < count && (i < MAX_STRINGS || traces()); i++) {
		if (copy_user(&text, (const void *)(array + i * 8), 8))
			return;
		i64 length = string_length_user((const char *)text, 0x20000);
		one_item(sink, argument, text, length < 0 ? 1 : (u64)length + 1, INLINE_WHOLE);
	}
}

static u64 pointee(u64 address, u64 bytes)
{
	u64 value = 0;
	if (address)
		copy_user(&value, (const void *)address, bytes);
	return value;
}

static u32 has_failed(i64 result) { return result < 0 && result >= -4095; }

static __attribute__((noinline)) u64 count_elements(struct sink *sink,
	const struct argument_rule *rule, u64 address, const u64 *arguments, i64 result)
{
	u64 argument = not_negative(arguments[rule->length_argument]),
	    answer = result > 0 ? (u64)result : 0;
	switch (rule->length_rule) {
	case LENGTH_CONSTANT: return 0;
	case LENGTH_RESULT: return answer;
	case LENGTH_RESULT_MAX_ARGUMENT: return minimum(answer, argument);
	case LENGTH_POINTEE32:
		return minimum(pointee(arguments[rule->length_argument], 4), sink->pointee_before);
	case LENGTH_POINTEE64:
		return minimum(pointee(arguments[rule->length_argument], 8), sink->pointee_before);
	case LENGTH_BITS: return (argument + 63) / 64 * 8;
	case LENGTH_PAGES: return (argument + 4095) / 4096;
	case LENGTH_PRODUCT:
		return minimum(argument, LARGEST_MOVE) *
		       minimum(not_negative(arguments[rule->length_argument2]), LARGEST_MOVE);
	case LENGTH_COUNTED:
		return minimum(pointee(address + rule->length_argument, rule->length_argument2),
			sink->pointee_before);
	}
	return 0;
}

static u64 plain_bytes(struct sink *sink, u32 i, const struct argument_rule *rule,
	const u64 *arguments, i64 result)
{
	if (rule->flags & RULE_IOCTL_SIZE)
		return (u32)arguments[1] >> 16 & 0x3fff;
	if (rule->length_rule == LENGTH_CONSTANT)
		return (u64)rule->count * rule->element_bytes;
	u64 count = rule->length_rule == LENGTH_ARGUMENT
			    ? not_negative(arguments[rule->length_argument])
			    : count_elements(sink, rule, arguments[i], arguments, result);
	return bytes_of(rule, count);
}

/* Notes the value that limits the length after the call. */
static void note_pointee(
	struct sink *sink, u32 i, const struct argument_rule *rule, const u64 *arguments)
{
	switch (rule->length_rule) {
	case LENGTH_POINTEE32:
		sink->pointee_before = pointee(arguments[rule->length_argument], 4);
		break;
	case LENGTH_POINTEE64:
		sink->pointee_before = pointee(arguments[rule->length_argument], 8);
		break;
	case LENGTH_COUNTED:
		sink->pointee_before = arguments[i] ? pointee(arguments[i] + rule->length_argument,
							      rule->length_argument2)
						    : 0;
		break;
	}
}

static u8 is_data(const struct argument_rule *rule)
{
	return rule->element_bytes == 1 && rule->length_rule != LENGTH_CONSTANT;
}

struct interfaces {
	u32 bytes, padding;
	u64 buffer;
};

static void interface_outputs(struct sink *sink, u32 i, u64 address)
{
	struct interfaces list;
	if (copy_user(&list, (const void *)address, sizeof list))
		return;
	one_item(sink, i, address, sizeof list, 0);
	one_item(sink, i, list.buffer, minimum(list.bytes, 0x100000), 0);
}

/* The bytes for all semaphores of the set in argument 0, whose number semctl(IPC_STAT) returns.
 * Both modes need it: replay gets it from the items. */
static u64 semaphore_bytes(const u64 *arguments)
{
	u64 status[13] = {0};
	if (sys4(NR_semctl, arguments[0], 0, 2 /* IPC_STAT */, status) < 0)
		return 0;
	return minimum(status[10], 32000) * 2;
}

static __attribute__((noinline)) void visit_input(
	struct sink *sink, u32 i, const struct argument_rule *rule, const u64 *arguments)
{
	note_pointee(sink, i, rule, arguments);
	u32 reads = rule->direction != DIRECTION_OUT;
	u64 address = arguments[i];
	i64 length;
	switch (rule->shape) {
	case SHAPE_STRING:
		if (!address)
			break;
		length = string_length_user((const char *)address, INLINE_STRING);
		one_item(sink, i, address, length < 0 ? 1 : (u64)length, INLINE_STRING);
		break;
	case SHAPE_STRINGS: visit_strings(sink, i, address); break;
	case SHAPE_IOVEC:
		one_item(sink, i, address,
			minimum(arguments[rule->length_argument], MAX_VECTORS) * 16, INLINE_WHOLE);
		if (reads)
			visit_vectors(sink, i, address, arguments[rule->length_argument], ~0UL);
		break;
	case SHAPE_IFCONF:
		one_item(sink, i, address, sizeof(struct interfaces), INLINE_WHOLE);
		break;
	case SHAPE_SEMARRAY:
		if (reads && executes())
			one_item(sink, i, address, semaphore_bytes(arguments), INLINE_WHOLE);
		else if (reads && sink->item < sink->item_end)
			one_item(sink, i, address, ((const struct item *)sink->item)->total_bytes,
				INLINE_WHOLE);
		break;
	case SHAPE_SIGMASK_PAIR:
		one_item(sink, i, address, 16, INLINE_WHOLE);
		if (address)
			one_item(sink, i, pointee(address, 8), 8, INLINE_WHOLE);
		break;
	case SHAPE_MSGHDR:
		message_inputs(sink, i, address, reads && rule->direction == DIRECTION_IN);
		break;
	case SHAPE_MMSGHDR:
		for (u64 k = 0; k < minimum(arguments[rule->length_argument], MAX_VECTORS); k++)
			message_inputs(sink, i, address + k * 64, rule->direction == DIRECTION_IN);
		break;
	default:
		sink->is_data = is_data(rule);
		if (reads)
			one_item(sink, i, address, plain_bytes(sink, i, rule, arguments, 0),
				INLINE_WHOLE);
		sink->is_data = 0;
	}
}

void visit_inputs(struct sink *sink, const struct call_row *row, const u64 *arguments)
{
	sink->largest = LARGEST_MOVE;
	for (u32 i = 0; i < row->inputs_end; i++) {
		const struct argument_rule *rule = &row->arguments[i];
		if (rule->direction == DIRECTION_VALUE)
			continue;
		if (rule->direction == DIRECTION_IN && rule->shape == SHAPE_PLAIN &&
			rule->length_rule == LENGTH_ARGUMENT && !traces())
			one_item(sink, i, arguments[i], plain_bytes(sink, i, rule, arguments, 0),
				INLINE_WHOLE);
		else
			visit_input(sink, i, rule, arguments);
	}
}

/* ---- outputs of a call that failed with EFAULT, or has not returned yet: the kernel writes from
 * the beginning and stops at the first fault ---- */

static u32 readable(u64 address)
{
	u8 byte;
	return copy_user(&byte, (const void *)address, 1) == 0;
}

/* Returns 1 if all of it can be read. */
static u32 readable_part(struct sink *sink, u32 argument, u64 address, u64 bytes)
{
	u64 end = address;
	if (!address || address + bytes < address)
		return !bytes;
	while (end < address + bytes && readable(end))
		end = PAGE_FLOOR(end) + PAGE_BYTES;
	if (end > address + bytes)
		end = address + bytes;
	one_item(sink, argument, address, end - address, 0);
	return end == address + bytes;
}

static void readable_vectors(struct sink *sink, u32 argument, u64 array, u64 count, u64 limit)
{
	struct vector vector;
	for (u64 i = 0; i < count && i < MAX_VECTORS && limit; i++) {
		if (copy_user(&vector, (const void *)(array + i * sizeof vector), sizeof vector))
			return;
		u64 bytes = minimum(vector.bytes, limit);
		if (!readable_part(sink, argument, vector.base, bytes))
			return;
		limit -= bytes;
	}
}

/* `limit`: the most bytes of each output. */
static void visit_written(
	struct sink *sink, const struct call_row *row, const u64 *arguments, u64 limit)
{
	struct message message;
	for (u32 i = 0; i < row->outputs_end; i++) {
		const struct argument_rule *rule = &row->arguments[i];
		if (arguments[i] == 0 ||
			(rule->direction != DIRECTION_OUT && rule->direction != DIRECTION_INOUT))
			continue;
		switch (rule->shape) {
		case SHAPE_PLAIN:
			readable_part(sink, i, arguments[i],
				minimum(plain_bytes(sink, i, rule, arguments, (i64)limit), limit));
			break;
		case SHAPE_IOVEC:
			readable_vectors(
				sink, i, arguments[i], arguments[rule->length_argument], limit);
			break;
		case SHAPE_MSGHDR:
			if (copy_user(&message, (const void *)arguments[i], sizeof message))
				break;
			readable_part(sink, i, arguments[i], sizeof message);
			readable_vectors(sink, i, message.vectors, message.vector_count, limit);
			readable_part(sink, i, message.name, minimum(message.name_bytes, 128));
			readable_part(
				sink, i, message.control, minimum(message.control_bytes, limit));
			break;
		}
	}
}

static __attribute__((noinline)) void visit_output(struct sink *sink, u32 i,
	const struct argument_rule *rule, const u64 *arguments, i64 result)
{
	u32 failed = has_failed(result);
	u64 address = arguments[i], bytes;
	switch (rule->shape) {
	case SHAPE_STRING:
	case SHAPE_STRINGS:
	case SHAPE_SIGMASK:
	case SHAPE_SIGMASK_PAIR: break;
	case SHAPE_IFCONF: interface_outputs(sink, i, address); break;
	case SHAPE_SEMARRAY:
		if (rule->direction != DIRECTION_IN)
			one_item(sink, i, address, semaphore_bytes(arguments), 0);
		break;
	case SHAPE_IOVEC:
		if (rule->direction == DIRECTION_OUT)
			visit_vectors(sink, i, address, arguments[rule->length_argument],
				result > 0 ? (u64)result : 0);
		break;
	case SHAPE_MSGHDR:
		if (rule->direction != DIRECTION_IN)
			message_outputs(sink, i, address, (u64)result);
		break;
	case SHAPE_MMSGHDR:
		for (i64 k = 0; k < result; k++) {
			u32 received = 0;
			copy_user(&received, (const void *)(address + (u64)k * 64 + 56), 4);
			if (rule->direction != DIRECTION_IN)
				message_outputs(sink, i, address + (u64)k * 64, received);
			one_item(sink, i, address + (u64)k * 64 + 56, 4, 0);
		}
		break;
	default:
		if (rule->direction == DIRECTION_IN)
			break;
		bytes = plain_bytes(sink, i, rule, arguments, result);
		sink->is_data = is_data(rule);
		/* A failed call with an impossible size wrote nothing. */
		if (!failed || bytes <= 0x10000)
			one_item(sink, i, address, bytes, 0);
		sink->is_data = 0;
	}
}

void visit_outputs(struct sink *sink, const struct call_row *row, const u64 *arguments, i64 result)
{
	sink->largest = LARGEST_MOVE;
	if (UNLIKELY(result == -EFAULT) && logs()) {
		visit_written(sink, row, arguments, FAULTED_BYTES);
		return;
	}
	for (u32 i = 0; i < row->outputs_end; i++) {
		const struct argument_rule *rule = &row->arguments[i];
		if (rule->direction == DIRECTION_VALUE || arguments[i] == 0 ||
			(has_failed(result) && !(rule->flags & ARGUMENT_ALWAYS)))
			continue;
		visit_output(sink, i, rule, arguments, result);
	}
}

void visit_begun(struct sink *sink, const struct call_row *row, const u64 *arguments)
{
	sink->largest = LARGEST_MOVE;
	visit_written(sink, row, arguments, BEGUN_BYTES);
}
