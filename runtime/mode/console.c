/* The program's output to its original standard output and error: numbered while recording, and
 * printed in that order at replay. descriptors.c tracks the descriptors that lead there. Private
 * stack. */
#include "mode/console.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/stamp.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "gen/table.h"
#include "log/log.h"
#include "log/request.h"
#include "mode/call.h"
#include "mode/descriptors.h"
#include "order/baton.h"

static u32 console_of(struct process *process, u64 descriptor)
{
	u32 use = descriptor_use(process, descriptor);
	return use == DESCRIPTOR_MEMORY ? 0 : use;
}

/* Called once the thread's output is in the log, or it has printed nothing. */
void console_logged(struct process *process)
{
	__atomic_sub_fetch(&process->printing, 1, __ATOMIC_SEQ_CST);
}

/* The thread that ends the process need not wait for output that is not printed yet. */
static void wait_for_the_end(struct context *context)
{
	console_logged(context->process);
	baton_release(context);
	for (;;)
		futex_wait(&context->process->seen.closing, 1, 1000);
}

/* Called for a call that writes to its first argument. Writers go one at a time, so the numbers are
 * in the true order. The lock is held only during the write, never while a thread waits for the
 * baton. */
u32 console_lock(struct call *call)
{
	u32 which = console_of(call->context->process, call->arguments[0]),
	    *lock = &HEADER->console_lock, mine = call->context->slot->stream + 1;
	if (!which)
		return 0;
	__atomic_add_fetch(&call->context->process->printing, 1, __ATOMIC_SEQ_CST);
	if (UNLIKELY(__atomic_load_n(&call->context->process->seen.closing, __ATOMIC_SEQ_CST)))
		wait_for_the_end(call->context);
	for (;;) {
		u32 holder = 0;
		if (__atomic_compare_exchange_n(
			    lock, &holder, mine, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return which;
		futex_wait(lock, holder, 20);
	}
}

void console_unlock(struct call *call, u32 which)
{
	if (call->result > 0) {
		call->flags |= which == 1 ? CALL_CONSOLE_OUT : CALL_CONSOLE_ERR;
		call->console_sequence = HEADER->console_sequence++;
	} else {
		console_logged(call->context->process);
	}
	__atomic_store_n(&HEADER->console_lock, 0, __ATOMIC_RELEASE);
	futex_wake(&HEADER->console_lock, 1);
}

/* Data of these calls never passes through the program's memory, so replay cannot print it. They
 * get EINVAL, and copying programs then fall back to read and write. */
u32 console_hides_data(struct call *call)
{
	switch (call->number) {
	case NR_sendfile: return console_of(call->context->process, call->arguments[0]);
	case NR_splice:
	case NR_copy_file_range: return console_of(call->context->process, call->arguments[2]);
	case NR_tee: return console_of(call->context->process, call->arguments[1]);
	}
	return 0;
}

/* Precedes each piece that is printed for a debugger. The debugger may run this part of the replay
 * again, and must know which pieces it already has. */
struct piece {
	/* The number of this output among all outputs. */
	u64 ticket;
	/* The offset of the piece within this output. */
	u64 offset;
	u32 descriptor;
	u32 bytes;
};

static void print_piece(struct piece *piece, u64 address, u64 bytes)
{
	piece->bytes = (u32)bytes;
	u64 vectors[] = {(u64)piece, sizeof *piece, address, bytes};
	/* A single append to the file, because other processes append to it, too. */
	sys3(NR_writev, piece->descriptor, (u64)vectors, 2);
	piece->offset += bytes;
}

static void print_bytes(struct piece *piece, u64 address, u64 bytes)
{
	if (is_debugged()) {
		print_piece(piece, address, bytes);
		return;
	}
	while (bytes) {
		i64 written = sys3(NR_write, piece->descriptor, address, bytes);
		if (written == -4 || written == -11) /* EINTR, EAGAIN */
			continue;
		if (written <= 0)
			/* The reader has closed its end: stop, as any program would. */
			return;
		address += (u64)written;
		bytes -= (u64)written;
	}
}

static void print_vectors(struct piece *piece, u64 array, u64 count, u64 bytes)
{
	for (u64 i = 0; i < count && bytes; i++) {
		u64 vector[2];
		if (copy_user(vector, (const void *)(array + i * 16), 16))
			return;
		print_bytes(piece, vector[0], minimum(vector[1], bytes));
		bytes -= minimum(vector[1], bytes);
	}
}

static void print_output(struct context *context, struct piece *piece, const struct event *event)
{
	const u64 *arguments = (const u64 *)(event + 1);
	u64 vectors[2], bytes = (u64)event->value;
	switch (event->number) {
	case NR_write:
	case NR_pwrite64:
	case NR_sendto: print_bytes(piece, arguments[1], bytes); return;
	case NR_writev:
	case NR_pwritev:
	case NR_pwritev2:
	case NR_vmsplice: print_vectors(piece, arguments[1], arguments[2], bytes); return;
	case NR_sendmsg:
		if (!copy_user(vectors, (const void *)(arguments[1] + 16), sizeof vectors))
			print_vectors(piece, vectors[0], vectors[1], bytes);
		return;
	default: diverge(context, WHY_CORRUPT, event->number, 0);
	}
}

static void wait_for_turn(struct context *context, u64 ticket)
{
	struct slot *slot = context->slot;
	slot->console.ticket = ticket;
	for (;;) {
		u32 seen = __atomic_load_n(&HEADER->console_futex, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&HEADER->console_printed, __ATOMIC_ACQUIRE) >= ticket)
			break;
		__atomic_store_n(&slot->console.waiting, 1, __ATOMIC_RELEASE);
		futex_wait(&HEADER->console_futex, seen, 1000);
	}
	__atomic_store_n(&slot->console.waiting, 0, __ATOMIC_RELEASE);
}

static const struct item *console_item(const struct event *event)
{
	const struct call_row *row = &call_rows[event->number];
	const u8 *at = (const u8 *)(event + 1) + row->argument_count * 8, *end = body_end(event);
	while (at + sizeof(struct item) <= end) {
		const struct item *item = (const struct item *)at;
		if (item->direction == ITEM_CONSOLE && item->inline_bytes == 8)
			return item;
		at += sizeof *item + ALIGN8(item->inline_bytes);
	}
	return NULL;
}

/* Prints what the recorded call printed, once its turn on the console has come. The thread must not
 * hold the baton here, as it could wait for a thread that needs it. So a thread that lost the baton
 * during the call prints before it waits to get it back. */
void console_replay(struct context *context, const struct event *event)
{
	const struct item *item = console_item(event);
	if (!item)
		diverge(context, WHY_CORRUPT, 0, 0);
	if (!prints())
		return;
	u64 ticket = *(const u64 *)(item + 1);
	/* Under a debugger few of the other processes exist, so there is no turn to wait for. */
	if (!is_debugged()) {
		wait_for_turn(context, ticket);
		/* Output that should come before it is lost. */
		if (!prints())
			return;
	}
	struct piece piece = {
		.ticket = ticket, .descriptor = event->flags & CALL_CONSOLE_OUT ? 1 : 2};
	print_output(context, &piece, event);
	if (is_debugged())
		return;
	u64 next = ticket + 1;
	if (UNLIKELY(next == HEADER->console_gap))
		next = (u64)request(context, REQUEST_CONSOLE, next, 0, 0);
	__atomic_store_n(&HEADER->console_printed, next, __ATOMIC_RELEASE);
	__atomic_add_fetch(&HEADER->console_futex, 1, __ATOMIC_ACQ_REL);
	futex_wake(&HEADER->console_futex, 0x7fffffff);
}
