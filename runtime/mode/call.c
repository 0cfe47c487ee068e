/* One system call from entry to leave, in record and in replay. Private stack. */
#include "mode/call.h"
#include "base/debugged.h"
#include "base/futex.h"
#include "base/leave.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "calls/seccomp.h"
#include "gen/numbers.h"
#include "gen/table.h"
#include "log/hash.h"
#include "log/items.h"
#include "log/log.h"
#include "log/ring.h"
#include "mode/answer.h"
#include "mode/clock.h"
#include "mode/console.h"
#include "mode/descriptors.h"
#include "mode/look.h"
#include "mode/moved.h"
#include "mode/packet_ring.h"
#include "mode/shared_file.h"
#include "mode/trace.h"
#include "order/baton.h"
#include "order/chaos.h"
#include "order/section.h"
#include "order/turn.h"
#include "signals/signal.h"

#define TURN_BYTES sizeof(struct event)
#define INPUT_SPACE 0x10000UL /* staged inputs of one call, ring space kept free for them */
_Static_assert(INPUT_SPACE + 2 * TURN_BYTES <= RING_SLACK, "what is staged is in one piece");
#define EBADF 9
#define ENOSYS 38
#define EINVAL 22
#define EFAULT 14

static const u8 argument_places[6] = {__builtin_offsetof(struct registers, rdi),
	__builtin_offsetof(struct registers, rsi), __builtin_offsetof(struct registers, rdx),
	__builtin_offsetof(struct registers, r10), __builtin_offsetof(struct registers, r8),
	__builtin_offsetof(struct registers, r9)};

/* Everything that not every call sets itself. */
void call_begin(struct call *call, struct context *context)
{
	const struct registers *regs = &context->regs;
	call->context = context;
	call->number = (u32)regs->rax; /* the kernel looks at the low half only */
	call->arguments[0] = call->actual[0] = regs->rdi;
	call->arguments[1] = call->actual[1] = regs->rsi;
	call->arguments[2] = call->actual[2] = regs->rdx;
	call->arguments[3] = call->actual[3] = regs->r10;
	call->arguments[4] = call->actual[4] = regs->r8;
	call->arguments[5] = call->actual[5] = regs->r9;
	call->result = 0;
	call->event = NULL;
	call->start = call->position = NULL;
	call->pointee_before = call->console_sequence = 0;
	call->flags = call->outputs_by_hand = 0;
	call->row = find_row(call->number, call->arguments);
}

static inline __attribute__((always_inline)) void prepare_record(struct call *call)
{
	if (tracing()) {
		trace_prepare(call);
		return;
	}
	u32 count = call->row->argument_count;
	call->start = ring_reserve(call->context, INPUT_SPACE + TURN_BYTES);
	u64 *body = (u64 *)(call->start + sizeof(struct event));
	for (u32 i = 0; i < count; i++)
		body[i] = call->arguments[i];
	call->position = (u8 *)(body + count);
	if (!call->row->inputs_end)
		return;
	struct sink sink;
	sink.mode = SINK_INPUT;
	sink.context = call->context;
	sink.position = call->position;
	sink.limit = call->start + INPUT_SPACE;
	sink.pointee_before = 0;
	visit_inputs(&sink, call->row, call->arguments);
	call->position = sink.position;
	call->pointee_before = sink.pointee_before;
}

void call_prepare(struct call *call)
{
	if (recording())
		prepare_record(call);
	else
		call_answer(call);
}

/* The baton changed hands during the call: the TURN event goes before the call's own, whose inputs
 * are staged already. */
void turn_before_staged(struct context *context, u64 turn, u8 **start, u8 **position)
{
	memmove(*start + TURN_BYTES, *start, (u64)(*position - *start));
	*(struct event *)*start =
		(struct event){TURN_BYTES, EVENT_TURN, TURN_IN_CALL, turn_kind(context), (i64)turn};
	*start += TURN_BYTES;
	*position += TURN_BYTES;
	ring_publish(context, *start - TURN_BYTES, TURN_BYTES);
	count_event(context);
	note_turn(context, turn);
}

/* Calls that may reach the console, or change which descriptors do, and those that ask what time it
 * is. The others skip a dozen comparisons. */
enum call_kind { PLAIN, OUTPUT, DESCRIPTOR, CLOCK };
static const u8 call_kinds[CALL_ROW_COUNT] = {
	[NR_write] = OUTPUT,
	[NR_writev] = OUTPUT,
	[NR_pwrite64] = OUTPUT,
	[NR_pwritev] = OUTPUT,
	[NR_pwritev2] = OUTPUT,
	[NR_sendto] = OUTPUT,
	[NR_sendmsg] = OUTPUT,
	[NR_vmsplice] = OUTPUT,
	[NR_sendfile] = DESCRIPTOR,
	[NR_splice] = DESCRIPTOR,
	[NR_copy_file_range] = DESCRIPTOR,
	[NR_tee] = DESCRIPTOR,
	[NR_close] = DESCRIPTOR,
	[NR_fcntl] = DESCRIPTOR,
	[NR_dup] = DESCRIPTOR,
	[NR_dup2] = DESCRIPTOR,
	[NR_dup3] = DESCRIPTOR,
	[NR_close_range] = DESCRIPTOR,
	[NR_open] = DESCRIPTOR,
	[NR_openat] = DESCRIPTOR,
	[NR_openat2] = DESCRIPTOR,
	[NR_creat] = DESCRIPTOR,
	[NR_pidfd_getfd] = DESCRIPTOR,
	[NR_recvmsg] = DESCRIPTOR,
	[NR_recvmmsg] = DESCRIPTOR,
	[NR_clock_gettime] = CLOCK,
	[NR_gettimeofday] = CLOCK,
	[NR_time] = CLOCK,
};

static enum call_kind kind_of(u64 number)
{
	return number < CALL_ROW_COUNT ? call_kinds[number] : DESCRIPTOR;
}

static u32 reaches_console(const struct call *call)
{
	return kind_of(call->number) == OUTPUT &&
	       descriptor_use(call->context->process, call->arguments[0]);
}

typedef i64 window_function(u64 number, const u64 *arguments);

static inline __attribute__((always_inline)) i64 execute_in(
	struct call *call, window_function *window)
{
	u32 console = UNLIKELY(reaches_console(call)) ? console_lock(call) : 0;
	u32 gives_baton = call->row->may_wait && call->context->process->domain,
	    lends = gives_baton && baton_lend(call->context);
	u64 turn;
	if (gives_baton && !lends)
		baton_release(call->context);
	call->result = window(call->number, call->actual);
	if (UNLIKELY(console))
		console_unlock(call, console);
	if (gives_baton && (lends ? baton_take_back(call->context, &turn)
				  : baton_acquire(call->context, &turn)))
		turn_before_staged(call->context, turn, &call->start, &call->position);
	return call->result;
}

i64 call_execute(struct call *call)
{
	return recording() ? execute_in(call, call_kernel_window) : call->result;
}

static void emit_extra(struct context *context, const struct extra_item *extra)
{
	struct item item = {extra->argument, extra->direction, 0, extra->count, extra->count, 0,
		extra->address};
	ring_item(context, &item, extra->bytes);
}

static inline __attribute__((always_inline)) void finish_record(
	struct call *call, const struct extra_item *extra, u32 extra_count)
{
	if (tracing()) {
		trace_finish(call, extra, extra_count);
		return;
	}
	struct context *context = call->context;
	struct sink sink;
	sink.mode = SINK_MEASURE;
	sink.context = context;
	sink.bytes = (u64)(call->position - call->start);
	sink.position = call->position;
	sink.limit = call->start + INPUT_SPACE;
	sink.overflown = 0;
	sink.pointee_before = call->pointee_before;
	u32 visits = call->row->outputs_end && !call->outputs_by_hand;
	if (visits)
		visit_outputs(&sink, call->row, call->arguments, call->result);
	u64 size = sink.bytes, ready = (u64)(sink.position - call->start);
	if (UNLIKELY(sink.overflown))
		ready = (u64)(call->position - call->start);
	for (u32 i = 0; i < extra_count; i++)
		size += sizeof(struct item) + ALIGN8(extra[i].count);
	if (size > 0xfffffff0UL)
		fail("one call returned more than 4 GB");
	*(struct event *)call->start =
		(struct event){(u32)size, EVENT_CALL, call->flags, (u16)call->number, call->result};
	ring_publish(context, call->start, ready);
	if (UNLIKELY(sink.overflown)) {
		sink.mode = SINK_EMIT;
		visit_outputs(&sink, call->row, call->arguments, call->result);
	}
	for (u32 i = 0; i < extra_count; i++)
		emit_extra(context, &extra[i]);
	count_event(context);
	if (UNLIKELY(call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR)))
		console_logged(context->process);
}

void call_finish(struct call *call, const struct extra_item *extra, u32 extra_count)
{
	if (recording())
		finish_record(call, extra, extra_count);
	else
		call_finish_answered(call);
}

static u32 writes_memory(const struct call *call)
{
	return call->result > 0 && kind_of(call->number) == OUTPUT &&
	       descriptor_use(call->context->process, call->arguments[0]) == DESCRIPTOR_MEMORY;
}

/* What the call has written through a file that shows the program's memory. */
static struct extra_item written_memory(const struct call *call)
{
	u64 number = call->number, address = call->arguments[3];
	u32 has_offset = number == NR_pwrite64 || number == NR_pwritev || number == NR_pwritev2;
	u32 is_one_buffer = number == NR_pwrite64 || number == NR_write;
	if (!has_offset)
		address = (u64)sys3(NR_lseek, call->arguments[0], 0, 1 /* SEEK_CUR */) -
			  (u64)call->result;
	return (struct extra_item){1, ITEM_OUTPUT, address,
		(void *)(is_one_buffer ? call->arguments[1] : address), (u32)call->result};
}

/* What a recorded call adds to its event. */
static SELDOM void finish_with(
	struct call *call, const struct extra_item *moved, const struct view *view)
{
	struct extra_item extra[5 + PACKET_RING_ITEMS];
	u32 count = 0;
	struct file_write write;
	struct view changed = {0, 0};
	if (call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR))
		extra[count++] =
			(struct extra_item){0, ITEM_CONSOLE, 0, &call->console_sequence, 8};
	if (writes_memory(call))
		extra[count++] = written_memory(call);
	if (HEADER->shared_file_count && !tracing()) {
		u32 items = shared_file_write(call, &write, &changed, &extra[count]);
		count += items ? items : shared_file_read(call, &extra[count]);
	}
	if (moved)
		extra[count++] = *moved;
	if (call->context->process->packet_rings_shown && !tracing())
		count += packet_rings_exchange(call->context->process, &extra[count]);
	finish_record(call, extra, count);
	view_end(&changed);
	if (view)
		view_end(view);
}

/* Its event, and the way out. */
static u32 finish_emulated(struct call *call)
{
	if (UNLIKELY((HEADER->shared_file_count && shared_file_concerns(call->context->process,
							   call->number, call->arguments[0])) ||
		     call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR) || writes_memory(call) ||
		     call->context->process->packet_rings_shown))
		finish_with(call, NULL, NULL);
	else
		finish_record(call, NULL, 0);
	return leave_with_result(call);
}

/* With what the call moved between descriptors. */
static u32 finish_moved(struct call *call)
{
	struct view view = {0, 0};
	struct extra_item moved;
	finish_with(call, moved_look(call, &view, &moved) ? &moved : NULL, &view);
	return leave_with_result(call);
}

/* As call_kernel_window, but in place: when the kernel comes back, processors that protect its
 * return predictions mispredict every return to a caller from before, which costs as much as half a
 * call. Each must stay in one place: the labels are its own. */
#define WINDOW_HERE(name)                                                                      \
	static inline __attribute__((always_inline))                                           \
	i64 name##_here(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)                  \
	{                                                                                      \
		i64 result;                                                                    \
		register u64 r10 __asm__("r10") = d;                                           \
		register u64 r8 __asm__("r8") = e;                                             \
		register u64 r9 __asm__("r9") = f;                                             \
		__asm__ volatile(                                                              \
			".globl " #name "_start, " #name "_call, " #name "_abort\n" #name      \
			"_start:\n\tcmpl $0, %%gs:%c[deferred]\n\tjne " #name "_abort\n" #name \
			"_call:\n\tsyscall\n1:\n"                                              \
			".pushsection .text.cold, \"ax\"\n" #name                              \
			"_abort:\n\tmov %[aborted], %%rax\n\tjmp 1b\n.popsection"              \
			: "=a"(result)                                                         \
			: "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9),     \
			[deferred] "i"(__builtin_offsetof(struct context, deferred_count)),    \
			[aborted] "i"(CALL_ABORTED)                                            \
			: "rcx", "r11", "memory", "cc");                                       \
		return result;                                                                 \
	}
WINDOW_HERE(plain_window)
WINDOW_HERE(other_window)

static inline __attribute__((always_inline)) i64 other_window_with(u64 number, const u64 *a)
{
	return other_window_here(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- the short way, of nearly all calls ----
 *
 * Code that runs between two pieces of the program and the kernel is cold each time: every cache
 * line of it that is not gone through counts. So calls that follow no more than one buffer have no
 * struct call, but go from the registers to the ring. */

static u64 argument_of(const struct registers *regs, u32 i)
{
	return *(const u64 *)((const u8 *)regs + argument_places[i]);
}

static u32 are_absent(const struct registers *regs, u32 arguments)
{
	for (; arguments; arguments &= arguments - 1)
		if (argument_of(regs, (u32)__builtin_ctz(arguments)))
			return 0;
	return 1;
}

/* NULL: the call that the thread makes is not to be recorded on the short way. */
static inline __attribute__((always_inline)) const struct call_row *plain_row(
	const struct context *context)
{
	const struct registers *regs = &context->regs;
	u32 number = (u32)regs->rax;
	if (UNLIKELY(number >= CALL_ROW_COUNT || HEADER->mode != MODE_RECORD ||
		     context->slot->filter))
		return NULL;
	const struct call_row *row = &call_rows[number];
	enum call_kind kind = call_kinds[number];
	if (UNLIKELY(context->process->packet_rings_shown))
		return NULL;
	if (row->plain == PLAIN_NOT || kind > OUTPUT ||
		(kind == OUTPUT && descriptor_use(context->process, regs->rdi)) ||
		!are_absent(regs, row->absent))
		return NULL;
	return row;
}

/* One that is being recorded: where its event begins and ends so far, and its buffer. Everything
 * that works on it is inlined and it stays in registers. */
struct plain_call {
	u8 *start, *position;
	const struct argument_rule *rule; /* NULL: there is no buffer */
	u32 buffer;			  /* which argument */
	u64 address, most;		  /* elements */
};

static inline __attribute__((always_inline)) void prepare_plain(
	struct plain_call *call, struct context *context, const struct call_row *row)
{
	const struct registers *regs = &context->regs;
	call->start = ring_reserve(context, INPUT_SPACE + TURN_BYTES);
	u64 *arguments = (u64 *)(call->start + sizeof(struct event)), bytes;
	arguments[0] = regs->rdi;
	arguments[1] = regs->rsi;
	arguments[2] = regs->rdx;
	arguments[3] = regs->r10;
	arguments[4] = regs->r8;
	arguments[5] = regs->r9;
	call->position = (u8 *)(arguments + row->argument_count);
	call->rule = NULL;
	if (row->plain < PLAIN_BUFFER)
		return;
	call->buffer = row->plain - (u32)PLAIN_BUFFER;
	call->rule = &row->arguments[call->buffer];
	call->address = arguments[call->buffer];
	call->most = not_negative(arguments[call->rule->length_argument]);
	if (call->rule->direction == DIRECTION_IN && call->address &&
		(bytes = bytes_of(call->rule, call->most)) != 0)
		call->position = stage_input(call->position, call->start + INPUT_SPACE,
			call->buffer, call->address, bytes, INLINE_WHOLE);
}

static inline __attribute__((always_inline)) i64 execute_plain(
	struct plain_call *call, struct context *context, u32 may_wait)
{
	const struct registers *regs = &context->regs;
	u32 gives_baton = may_wait && context->process->domain,
	    lends = gives_baton && baton_lend(context);
	u64 turn;
	if (gives_baton && !lends)
		baton_release(context);
	i64 result = plain_window_here(
		(u32)regs->rax, regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9);
	if (gives_baton &&
		(lends ? baton_take_back(context, &turn) : baton_acquire(context, &turn)))
		turn_before_staged(context, turn, &call->start, &call->position);
	return result;
}

/* 0: it does not fit. */
static inline __attribute__((always_inline)) u32 put_output(struct plain_call *call, i64 result)
{
	if (result <= 0 || !call->rule || call->rule->direction != DIRECTION_OUT || !call->address)
		return 1;
	u64 bytes = bytes_of(call->rule, minimum((u64)result, call->most));
	u8 *next = bytes ? stage_output(call->position, call->start + INPUT_SPACE, call->buffer,
				   call->address, bytes)
			 : call->position;
	if (LIKELY(next))
		call->position = next;
	return next != NULL;
}

/* Something is special about it after all. */
static SELDOM u32 finish_not_plain(struct context *context, u8 *start, u8 *position, i64 result)
{
	struct call call;
	call_begin(&call, context);
	call.start = start;
	call.position = position;
	call.result = result;
	return finish_emulated(&call);
}

static inline __attribute__((always_inline)) u32 record_plain(
	struct context *context, const struct call_row *row)
{
	u32 number = (u32)context->regs.rax;
	struct plain_call call;
	prepare_plain(&call, context, row);
	i64 result = execute_plain(&call, context, row->may_wait);
	if (UNLIKELY(result == CALL_ABORTED))
		return deliver_deferred(context, 1);
	u32 concerns_file = HEADER->shared_file_count &&
			    shared_file_concerns(context->process, number, context->regs.rdi);
	if (UNLIKELY(concerns_file || result == -EFAULT || !put_output(&call, result)))
		return finish_not_plain(context, call.start, call.position, result);
	u64 size = (u64)(call.position - call.start);
	*(struct event *)call.start = (struct event){(u32)size, EVENT_CALL, 0, (u16)number, result};
	ring_publish(context, call.start, size);
	count_event(context);
	context->regs.rax = (u64)result;
	return leave(context);
}

/* All that are not plain. */
static u32 record_other(struct call *call)
{
	u32 descriptors = kind_of(call->number) == DESCRIPTOR,
	    looked = tracing() && look_needed(call);
	prepare_record(call);
	if (UNLIKELY(looked))
		look_before(call);
	if (descriptors && console_hides_data(call))
		call->result = -EINVAL;
	else if (UNLIKELY(execute_in(call, other_window_with) == CALL_ABORTED))
		return deliver_deferred(call->context, 1);
	if (descriptors)
		descriptors_after(call);
	if (UNLIKELY(looked))
		look_after(call);
	if (moved_wanted(call))
		return finish_moved(call);
	return finish_emulated(call);
}

/* An ordinary call: the kernel answers while recording, the log at replay. */
static u32 emulate(struct call *call)
{
	if (recording())
		return record_other(call);
	call_answer(call);
	if (UNLIKELY(call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR)) &&
		!call->context->printed)
		console_replay(call->context, call->event);
	call->context->printed = 0;
	if (UNLIKELY(looks_at_mappings()))
		look_replayed(call);
	call_finish_answered(call);
	const struct item *write =
		HEADER->shared_file_count ? call_find_item(call, ITEM_FILE_WRITE, 0) : NULL;
	if (UNLIKELY(write))
		shared_file_rewrite(call, write);
	return leave_with_result(call);
}

/* What a call gets that is not made. */
static i64 refusal(const struct call *call)
{
	i64 error = call->row->refuse_errno;
	if (recording() && call->number == NR_ioctl && status_flags(call->arguments[0]) == -EBADF)
		return -EBADF;
	return error < 0 ? error : -error;
}

u32 answer_call(struct call *call, i64 result)
{
	call_prepare(call);
	if (recording())
		call->result = result;
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

static u32 handle_call(struct context *context)
{
	struct call call;
	context->number = context->regs.rax;
	section_enter(context);
	if (UNLIKELY(context->deferred_count))
		return deliver_deferred(context, 1);
	if (recording()) {
		if (UNLIKELY(context->seen_tick != HEADER->yield_tick) &&
			(context->process->domain || chaos()))
			baton_yield(context);
		if (UNLIKELY(context->event_count >= context->next_hash_event))
			hash_at_interval(context);
		const struct call_row *row = plain_row(context);
		if (LIKELY(row != NULL))
			return record_plain(context, row);
		if (kind_of((u32)context->number) == CLOCK && clock_record(context))
			return leave(context);
	} else {
		const struct event *next = log_peek(context);
		while (UNLIKELY(next && (next->kind == EVENT_TURN || next->kind == EVENT_HASH))) {
			if (next->kind == EVENT_TURN)
				turn_obey_all(context, 1);
			else
				hash_replay(context);
			next = log_peek(context);
		}
		if (UNLIKELY(
			    next && next->kind == EVENT_SIGNAL && next->flags & SIGNAL_BEFORE_CALL))
			return replay_signals(context, 1);
		if (UNLIKELY(next && next->kind == EVENT_FATAL))
			replay_fatal(context, 1);
		if (UNLIKELY(debug_catches(context)))
			debug_call(context);
	}
	call_begin(&call, context);
	if (UNLIKELY(!call.row)) {
		static const struct call_row unknown = {.policy = POLICY_REFUSE,
			.selector_argument = NO_SELECTOR,
			.refuse_errno = ENOSYS};
		call.row = &unknown;
	}
	u32 how;
	if (UNLIKELY(context->slot->filter) && filter_call(&call, &how))
		return how;
	switch (call.row->policy) {
	case POLICY_EMULATE: return emulate(&call);
	case POLICY_CUSTOM: return handle_custom(&call);
	default: return answer_call(&call, refusal(&call));
	}
}

static u32 same_arguments(const struct registers *regs, const u64 *recorded, u32 count)
{
	for (u32 i = 0; i < count; i++)
		if (recorded[i] != argument_of(regs, i))
			return 0;
	return 1;
}

/* Replay: all that a call without buffers needs if what comes next is a call again. From entry.S,
 * before the registers are saved that compiled code keeps. 1: done, as LEAVE_FAST. 0: nothing is
 * changed, and the call goes the way of all others, which also says what differs. */
u32 replay_plain(struct context *context)
{
	const struct event *event = (const struct event *)context->log;
	u64 number = context->number = (u32)context->regs.rax;
	if (UNLIKELY(context->log == context->log_end || number >= CALL_ROW_COUNT))
		return 0;
	const struct call_row *row = &call_rows[number];
	u32 size = sizeof *event + row->argument_count * 8;
	const struct event *next = (const struct event *)(context->log + size);
	if (row->policy != POLICY_EMULATE || row->inputs_end | row->outputs_end ||
		row->selector_argument != NO_SELECTOR)
		return 0;
	if (event->kind != EVENT_CALL || event->flags || event->number != number ||
		event->size != size)
		return 0;
	if (UNLIKELY(
		    (const u8 *)next == context->log_end || next->kind != EVENT_CALL ||
		    !same_arguments(&context->regs, (const u64 *)(event + 1), row->argument_count)))
		return 0;
	if (UNLIKELY(context->deferred_count || context->slot->filter || context->sections ||
		     debug_catches(context) || context->event_count + 1 >= context->pause_at - 1))
		return 0;
	context->log = (const u8 *)next;
	context->log_offset += size;
	count_event(context);
	context->temporary_active = 0;
	context->regs.rax = (u64)event->value;
	return 1;
}

_Noreturn void leave_fast(void);

/* Comes from entry.S with the program's registers in the context. LEAVE_FAST: only rax changed.
 * While recording that way leads straight back to the program: behind the kernel a return to
 * entry.S would be one of those mispredicted. It is a call and not a jump for the sake of the
 * program's own return: what processors predict from an empty stack of returns costs them more than
 * a wrong entry on it. (Measured: a recorded getppid is 60 ns faster than with a jump.) For a clock
 * nobody was in the kernel: all returns are predicted, as long as each call has its own. */
u32 runtime_syscall(struct context *context)
{
	u32 how = handle_call(context);
	section_leave(context);
	if (LIKELY(how == LEAVE_FAST) && recording() && kind_of((u32)context->number) != CLOCK)
		leave_fast();
	return how;
}
