/* Items: pieces of a program's memory, copied into the record that is being written. Paper:
 * [RE-ANIMATOR §2.3]. */
#ifndef RETAKE_BPF_ITEM_H
#define RETAKE_BPF_ITEM_H

#include "record.h"

#define LARGEST 0x7ffff000ULL
#define PATH_LIMIT 4096u
#define MOST_VECTORS 1024u

enum { ITEM_INPUT, ITEM_OUTPUT, ITEM_TIMES = 6 };

struct item {
	u8 argument, direction;
	u16 flags;
	u32 inline_bytes, total_bytes, hash;
	u64 address;
};

INLINE u64 word_at(u64 address, u32 width)
{
	u64 value = 0;
	if (address == 0)
		return 0;
	if (width == 4)
		read_user(&value, 4, (const void *)address);
	else if (width == 2)
		read_user(&value, 2, (const void *)address);
	else if (width == 1)
		read_user(&value, 1, (const void *)address);
	else
		read_user(&value, 8, (const void *)address);
	return value;
}

INLINE void describe(
	struct item *item, u32 argument, u32 direction, u32 kept, u32 total, u64 address)
{
	item->argument = argument;
	item->direction = direction;
	item->flags = 0;
	item->inline_bytes = kept;
	item->total_bytes = total;
	item->hash = 0;
	item->address = address;
}

/* Writes one item of `total` bytes, of which `kept` have their contents. `what` is the argument,
 * with the direction above it. */
APART u32 put(u64 address, u32 total, u32 kept, u32 what)
{
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!ring || !work || work->failed)
		return 0;
	u32 size = work->size;
	if (kept > RECORD_LIMIT - 64 || size > RECORD_LIMIT || size + kept > RECORD_LIMIT - 64) {
		work->failed |= WORK_TOO_LONG;
		return 0;
	}
	u8 *at = place(ring, work, size);
	if (!at)
		return 0;
	describe((struct item *)at, what & 0xff, what >> 8, kept, total, address);
	if (kept) {
		*(u64 *)(at + sizeof(struct item) + ((kept - 1) & 0xffff8)) = 0; /* the padding */
		if (read_user(at + sizeof(struct item), kept & (RECORD_LIMIT | (RECORD_LIMIT - 1)),
			    (const void *)address) != 0) {
			work->failed |= WORK_FAULTED;
			return 0;
		}
	}
	work->size = size + sizeof(struct item) + ((kept + 7) & ~7u);
	return 1;
}

/* Writes an item of up to 2 GB. Data are cut at the limit that the user has set. */
INLINE void take(u64 address, u64 total, u32 is_data, u32 what)
{
	if (total > LARGEST)
		total = LARGEST;
	if (address == 0 || total == 0)
		return;
	u64 kept = is_data && total > DATA_LIMIT ? DATA_LIMIT : total;
	put(address, (u32)total, (u32)kept, what);
}

/* Writes a string without its NUL. */
APART u32 put_string(u64 address, u32 what)
{
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!ring || !work || work->failed)
		return 0;
	u32 size = work->size;
	if (size > RECORD_LIMIT - PATH_LIMIT - 64) {
		work->failed |= WORK_TOO_LONG;
		return 0;
	}
	u8 *at = place(ring, work, size);
	if (!at)
		return 0;
	i64 length = read_user_string(at + sizeof(struct item), PATH_LIMIT, (const void *)address);
	if (length <= 0 || length > PATH_LIMIT) {
		work->failed |= WORK_FAULTED;
		return 0;
	}
	u32 bytes = (u32)length - 1;
	/* A string that was cut has no NUL here. The kernel refuses such paths. */
	u32 padded = (bytes + 7) & ~7u;
	u32 i = bytes;
	for (u32 step = 0; step < 7; step++, i++)
		if (i < padded && i < PATH_LIMIT)
			at[sizeof(struct item) + i] = 0;
	describe((struct item *)at, what & 0xff, what >> 8, bytes, bytes, address);
	work->size = size + sizeof(struct item) + padded;
	return 1;
}

/* Writes the buffer of one vector in an array. */
static long one_vector(u32 index, void *context)
{
	struct {
		u64 address, bytes;
	} vector;
	struct work *work = own_work();
	if (!work || work->failed)
		return 1;
	if (read_user(&vector, sizeof vector, (const void *)(work->array + index * 16ULL)) != 0) {
		work->failed |= WORK_FAULTED;
		return 1;
	}
	u64 bytes = vector.bytes < work->limit ? vector.bytes : work->limit;
	take(vector.address, bytes, 1, work->argument | work->direction << 8);
	work->limit -= bytes;
	return 0;
}

/* Writes the buffers of an array of vectors, `limit` bytes altogether. */
APART u32 put_vectors(u64 array, u64 count, u64 limit, u32 what)
{
	struct work *work = own_work();
	if (!work)
		return 0;
	work->array = array;
	work->limit = limit;
	work->argument = what & 0xff;
	work->direction = what >> 8;
	repeat(count > MOST_VECTORS ? MOST_VECTORS : (u32)count, one_vector, 0, 0);
	return 1;
}

struct message {
	u64 name;
	u32 name_bytes, unused;
	u64 vectors, vector_count, control, control_bytes;
	u32 flags, unused2;
};

/* Writes a `struct msghdr`. If it holds data, also writes what it points to. */
APART u32 put_message(u64 address, u64 limit, u32 with_data, u32 what)
{
	struct message message;
	struct work *work = own_work();
	if (!work || work->failed)
		return 0;
	if (read_user(&message, sizeof message, (const void *)address) != 0) {
		work->failed |= WORK_FAULTED;
		return 0;
	}
	u64 count = message.vector_count > MOST_VECTORS ? MOST_VECTORS : message.vector_count;
	take(address, sizeof message, 0, what);
	if (what >> 8 == ITEM_INPUT)
		take(message.vectors, count * 16, 0, what);
	if (with_data) {
		take(message.name, message.name_bytes > 128 ? 128 : message.name_bytes, 0, what);
		put_vectors(message.vectors, count, limit, what);
		take(message.control,
			message.control_bytes > 0x10000 ? 0x10000 : message.control_bytes, 0, what);
	}
	return 1;
}

#define MOST_STRINGS 0x10000u

static long count_pointer(u32 index, void *context)
{
	struct work *work = own_work();
	if (!work || work->failed)
		return 1;
	u64 pointer = 0;
	if (read_user(&pointer, 8, (const void *)(work->array + index * 8ULL)) != 0)
		work->failed |= WORK_FAULTED;
	if (pointer == 0)
		return 1;
	work->count = index + 1;
	return 0;
}

/* Writes a string argument of a program, with its NUL as in the runtime's events. */
static long one_string(u32 index, void *context)
{
	struct work *work = own_work();
	struct ring *ring = own_ring();
	if (!work || !ring || work->failed || index >= work->count)
		return 1;
	u64 pointer = 0;
	read_user(&pointer, 8, (const void *)(work->array + index * 8ULL));
	u32 size = work->size;
	if (size > RECORD_LIMIT - PATH_LIMIT * 32 - 64) {
		work->failed |= WORK_TOO_LONG;
		return 1;
	}
	u8 *at = place(ring, work, size);
	if (!at)
		return 1;
	i64 length =
		read_user_string(at + sizeof(struct item), PATH_LIMIT * 32, (const void *)pointer);
	if (length <= 0 || length > PATH_LIMIT * 32) {
		work->failed |= WORK_FAULTED;
		return 1;
	}
	u32 bytes = (u32)length, padded = (bytes + 7) & ~7u, i = bytes;
	for (u32 step = 0; step < 7; step++, i++)
		if (i < padded && i < PATH_LIMIT * 32)
			at[sizeof(struct item) + i] = 0;
	describe((struct item *)at, work->argument, ITEM_INPUT, bytes, bytes, pointer);
	work->size = size + sizeof(struct item) + padded;
	return 0;
}

/* Writes an array of strings, and then the strings. */
APART u32 put_strings(u64 array, u32 argument)
{
	struct work *work = own_work();
	if (!work || work->failed || array == 0)
		return 0;
	work->array = array;
	work->argument = argument;
	work->count = 0;
	repeat(MOST_STRINGS, count_pointer, 0, 0);
	u32 count = work->count;
	take(array, count * 8ULL, 0, argument);
	repeat(count, one_string, 0, 0);
	return 1;
}

#endif
