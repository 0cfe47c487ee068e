/* Replay: reads data that the log has by reference from the stored file. Private stack. */
#include "mode/referred.h"
#include "base/capabilities.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/log.h"

#define PIECE_BYTES 4096UL

/* Identifies the process that opened the kept descriptors. A process that came from an image, or a
 * copy of a process, lacks them or has others under these numbers. */
static u64 own_mark(const struct context *context)
{
	return (u64)(u32)HEADER->header_id << 32 | context->slot->pid;
}

/* Opens a stored file, or returns its kept descriptor: asking for one takes longer than a read. */
static i64 open_stored(struct context *context, const struct reference_body *body)
{
	struct process *process = context->process;
	u64 mark = own_mark(context), words[4];
	for (u32 i = 0; i < REFERRED_FILES; i++)
		if (process->referred[i].mark == mark &&
			!memcmp(process->referred[i].content, body->content, sizeof words))
			return process->referred[i].descriptor;
	struct referred *place = &process->referred[process->referred_next++ % REFERRED_FILES];
	if (place->mark == mark)
		sys1(NR_close, place->descriptor);
	place->mark = 0;
	memcpy(words, body->content, sizeof words);
	i64 descriptor = sys4(GRANT_STORED, words[0], words[1], words[2], words[3]);
	if (descriptor < 0)
		return descriptor;
	place->descriptor = (u32)descriptor;
	memcpy(place->content, body->content, sizeof words);
	place->mark = mark;
	return descriptor;
}

/* Copies with a store of the runtime, which a watchpoint notices. If the program cannot write
 * there, the copy goes through /proc/self/mem. */
static u32 copy_piece(u64 descriptor, u64 address, u64 bytes, u64 offset)
{
	u8 piece[PIECE_BYTES];
	if (sys4(NR_pread64, descriptor, piece, bytes, offset) != (i64)bytes)
		return 0;
	if (!copy_user((void *)address, piece, bytes))
		return 1;
	i64 memory = sys0(GRANT_MEMORY);
	i64 written = memory < 0 ? -1 : sys4(NR_pwrite64, memory, piece, bytes, address);
	if (memory >= 0)
		sys1(NR_close, memory);
	return written == (i64)bytes;
}

void referred_read(struct context *context, const struct item *item)
{
	const struct reference_body *body = (const struct reference_body *)(item + 1);
	u64 address = item->address, offset = body->offset, left = item->total_bytes;
	if (item->inline_bytes < sizeof *body ||
		(address < RUNTIME_END && address + left > RUNTIME_TEXT))
		diverge(context, WHY_CORRUPT, address, item->inline_bytes);
	i64 descriptor = open_stored(context, body);
	if (descriptor < 0)
		diverge(context, WHY_MAPPING, address, (u64)descriptor);
	while (left) {
		i64 done = is_debugged() ? 0 : sys4(NR_pread64, descriptor, address, left, offset);
		if (done <= 0) {
			done = (i64)minimum(left, PIECE_BYTES);
			if (!copy_piece((u64)descriptor, address, (u64)done, offset))
				diverge(context, WHY_MEMORY, address, left);
		}
		address += (u64)done;
		offset += (u64)done;
		left -= (u64)done;
	}
}
