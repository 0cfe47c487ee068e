/* One system call from entry to leave: the short path of nearly all calls, and the handlers of all
 * others. Private stack. */
#include "base/debugged.h"
#include "base/leave.h"
#include "base/shared.h"
#include "base/stamp.h"
#include "base/state.h"
#include "base/user.h"
#include "calls/custom.h"
#include "calls/image.h"
#include "calls/seccomp.h"
#include "calls/sharing.h"
#include "calls/turns.h"
#include "entry/entry.h"
#include "gen/table.h"
#include "log/hash.h"
#include "log/items.h"
#include "log/ring.h"
#include "log/window.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "mode/clock.h"
#include "mode/console.h"
#include "mode/descriptors.h"
#include "mode/look.h"
#include "mode/moved.h"
#include "mode/record.h"
#include "mode/reference.h"
#include "mode/shared_file.h"
#include "mode/window.h"
#include "order/after.h"
#include "order/baton.h"
#include "order/observe.h"
#include "order/policy.h"
#include "order/section.h"
#include "order/yield.h"
#include "signals/signal.h"

#define ENOSYS 38
#define EAGAIN 11
#define EFAULT 14
#define EINVAL 22

static const u8 argument_places[6] = {__builtin_offsetof(struct registers, rdi),
	__builtin_offsetof(struct registers, rsi), __builtin_offsetof(struct registers, rdx),
	__builtin_offsetof(struct registers, r10), __builtin_offsetof(struct registers, r8),
	__builtin_offsetof(struct registers, r9)};

WINDOW_HERE(plain_window)
WINDOW_HERE(other_window)

/* ---- the short path, for nearly all calls ----
 *
 * Code that runs between two pieces of the program and the kernel is cold each time, so every cache
 * line of it counts. So calls with at most one buffer have no struct call: they go from the
 * registers to the ring. */

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

/* Returns NULL if the call cannot be recorded on the short path. */
static inline __attribute__((always_inline)) const struct call_row *plain_row(
	const struct context *context)
{
	const struct registers *regs = &context->regs;
	u32 number = (u32)regs->rax;
	if (UNLIKELY(number >= CALL_ROW_COUNT || !logs() || context->slot->filter))
		return NULL;
	const struct call_row *row = &call_rows[number];
	enum call_kind kind = call_kinds[number];
	if (UNLIKELY(context->process->seen.packet_rings_shown))
		return NULL;
	if (row->plain == PLAIN_NOT || kind > OUTPUT ||
		(kind == OUTPUT && descriptor_use(context->process, regs->rdi)) ||
		!are_absent(regs, row->absent))
		return NULL;
	return row;
}

/* A signal arrived first, so the call is not made. */
static SELDOM u32 give_up(struct context *context)
{
	section_take(context);
	return deliver_deferred(context, 1);
}

/* A call that is being recorded: the beginning and current end of its event, and its buffer. All
 * functions that use it are inlined, so it stays in registers. */
struct plain_call {
	u8 *start, *position;
	/* NULL: there is no buffer. */
	const struct argument_rule *rule;
	/* The number of the argument. */
	u32 buffer;
	/* The address of the buffer, and the most elements in it. */
	u64 address, most;
};

static inline __attribute__((always_inline)) void prepare_plain(
	struct plain_call *call, struct context *context, const struct call_row *row)
{
	const struct registers *regs = &context->regs;
	call->start = ring_reserve(context, INPUT_SPACE + TURN_BYTES + STAMP_BYTES);
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
	u32 parallel = context->parallel,
	    gives_baton = may_wait && !parallel && context->process->domain,
	    lends = gives_baton && lends_baton(context),
	    gives_way = gives_baton && (u32)regs->rax == NR_sched_yield && baton_give_way(context);
	u64 turn;
	if (gives_baton && !lends)
		baton_release(context);
	i64 result = gives_way ? 0
			       : plain_window_here((u32)regs->rax, regs->rdi, regs->rsi, regs->rdx,
					 regs->r10, regs->r8, regs->r9);
	if (UNLIKELY(parallel))
		call_is_made(context);
	if (gives_baton &&
		(lends ? baton_take_back(context, &turn) : baton_acquire(context, &turn)))
		turn_before_staged(context, turn, &call->start, &call->position);
	return result;
}

/* Returns 0 if the output does not fit. */
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

/* The call needs special treatment after all. */
static SELDOM u32 finish_not_plain(struct context *context, u8 *start, u8 *position, i64 result)
{
	struct call call;
	call_begin(&call, context);
	call.start = start;
	call.position = position;
	call.result = result;
	return call_finish_emulated(&call);
}

/* Recording: makes a call that may read much of a large file. */
static SELDOM u32 record_reading(struct call *call)
{
	u32 is_vectored = call->number != NR_read && call->number != NR_pread64;
	struct reading reading = {.number = call->number,
		.arguments = call->arguments,
		.most = is_vectored ? 0 : call->arguments[2]};
	reading_begin(call->context, &reading);
	if (UNLIKELY(call_execute(call) == CALL_ABORTED))
		return give_up(call->context);
	u8 *next = call->result < (i64)REFERENCE_LEAST_BYTES
			   ? NULL
			   : reading_refer(call->context, &reading, call->result, call->position,
				     call->start + INPUT_SPACE);
	if (next) {
		call->position = next;
		call->outputs_by_hand = 1;
	}
	return call_finish_emulated(call);
}

static SELDOM u32 record_plain_reading(struct context *context, u8 *start, u8 *position)
{
	struct call call;
	call_begin(&call, context);
	call.start = start;
	call.position = position;
	return record_reading(&call);
}

static SELDOM void take_turn_for_file(struct context *context)
{
	if (changes_file(context->number) && !shares_memory(context->process->domain) &&
		shared_file_turn(context))
		shared_join(context);
}

/* Record, before a call is staged: writes to a file that others have mapped are made in turn. */
static inline void consider_files(struct context *context)
{
	if (UNLIKELY(HEADER->shared_file_count))
		take_turn_for_file(context);
}

static inline __attribute__((always_inline)) u32 record_plain(
	struct context *context, const struct call_row *row)
{
	u32 number = (u32)context->regs.rax;
	struct plain_call call;
	consider_files(context);
	prepare_plain(&call, context, row);
	if (UNLIKELY(call.rule && call.most >= REFERENCE_LEAST_BYTES && reads_files(number)))
		return record_plain_reading(context, call.start, call.position);
	i64 result = execute_plain(&call, context, row->may_wait);
	u64 when = stamp_read(context);
	if (UNLIKELY(result == CALL_ABORTED))
		return give_up(context);
	u32 concerns_file = HEADER->shared_file_count &&
			    shared_file_concerns(context->process, number, context->regs.rdi);
	if (UNLIKELY(concerns_file || result == -EFAULT || !put_output(&call, result)))
		return finish_not_plain(context, call.start, call.position, result);
	u8 flags = (u8)context->parallel | stamp_put(context, call.position, when);
	u64 size = (u64)(call.position - call.start) + stamp_bytes(flags);
	*(struct event *)call.start =
		(struct event){(u32)size, EVENT_CALL, flags, (u16)number, result};
	ring_publish(context, call.start, size);
	count_event(context);
	context->regs.rax = (u64)result;
	return leave(context);
}

/* ---- all other calls ---- */

static inline __attribute__((always_inline)) i64 other_window_with(u64 number, const u64 *a)
{
	return other_window_here(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Record: makes an ordinary call that is not plain. */
static u32 record_call(struct call *call)
{
	u32 descriptors = kind_of(call->number) == DESCRIPTOR,
	    looked = traces() && look_needed(call), closes = descriptors && closing_begin(call);
	consider_files(call->context);
	prepare_record(call);
	if (UNLIKELY(reads_files(call->number)) && logs())
		return record_reading(call);
	if (call->number == NR_sendmsg || call->number == NR_sendmmsg)
		positions_shared(call->context->process);
	if (UNLIKELY(looked))
		look_before(call);
	if (descriptors && console_hides_data(call))
		call->result = -EINVAL;
	else
		execute_in(call, other_window_with);
	if (descriptors)
		closing_end(call->context->process, closes);
	if (UNLIKELY(call->result == CALL_ABORTED))
		return give_up(call->context);
	if (descriptors && UNLIKELY(call->result == -EAGAIN))
		open_past_lease(call);
	if (descriptors && !call->context->parallel)
		descriptors_after(call);
	if (UNLIKELY(looked))
		look_after(call);
	if (moved_wanted(call))
		return call_finish_moved(call);
	return call_finish_emulated(call);
}

/* Replay: answers an ordinary call from the log. */
static u32 replay_call(struct call *call)
{
	call_answer(call);
	if (UNLIKELY(call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR)) &&
		!call->context->printed)
		console_replay(call->context, call->event);
	call->context->printed = 0;
	if (UNLIKELY(wants_whole_inputs()))
		look_replayed(call);
	call_finish_answered(call);
	const struct item *write =
		HEADER->shared_file_count ? call_find_item(call, ITEM_FILE_WRITE, 0) : NULL;
	if (UNLIKELY(write))
		shared_file_rewrite(call, write);
	return leave_with_result(call);
}

/* Sync policy, recording: returns whether the call may be made without the baton. */
static u32 may_be_parallel(const struct context *context, u32 number)
{
	const struct process *process = context->process;
	if (context->slot->filter || process->seen.packet_rings_shown || HEADER->shared_file_count)
		return 0;
	const struct call_row *row = &call_rows[number];
	if (row->policy != POLICY_EMULATE || row->selector_argument != NO_SELECTOR)
		return 0;
	switch (call_kinds[number]) {
	case PLAIN:
	case SENDER:
	case CLOCK: return 1;
	case OUTPUT: return !descriptor_use(process, context->regs.rdi);
	case DESCRIPTOR: return descriptors_stay_known(context);
	default: return 0;
	}
}

static SELDOM void enter_section(struct context *context)
{
	u32 number = (u32)context->regs.rax, is_known = number < CALL_ROW_COUNT;
	section_enter(context, !is_known || !call_rows[number].has_no_order,
		makes_order() && is_known && may_be_parallel(context, number));
}

static u32 handle_call(struct context *context)
{
	struct call call;
	context->number = context->regs.rax;
	if (UNLIKELY(context->sections))
		enter_section(context);
	if (UNLIKELY(context->deferred_count))
		return give_up(context);
	if (executes()) {
		image_come_by(context);
		if (UNLIKELY(context->seen_tick != HEADER->yield_tick) &&
			(context->process->domain || orders_at_random()))
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
		while (UNLIKELY(next && (next->kind == EVENT_TURN || next->kind == EVENT_HASH ||
						next->kind == EVENT_AFTER))) {
			if (next->kind == EVENT_TURN)
				obey_turns(context);
			else if (next->kind == EVENT_AFTER)
				after_await(context);
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
	case POLICY_EMULATE: return executes() ? record_call(&call) : replay_call(&call);
	case POLICY_CUSTOM: return handle_custom(&call);
	default: return answer_call(&call, call_refusal(&call));
	}
}

static u32 same_arguments(const struct registers *regs, const u64 *recorded, u32 count)
{
	for (u32 i = 0; i < count; i++)
		if (recorded[i] != argument_of(regs, i))
			return 0;
	return 1;
}

/* Replay: does everything for a call without buffers that is followed by another call. entry.S
 * calls this before it saves the registers that compiled code keeps. Returns 1 if the call is done,
 * as LEAVE_FAST. Returns 0 if nothing has changed: then the call takes the ordinary path, which
 * also reports differences. */
u32 replay_plain(struct context *context);
u32 replay_plain(struct context *context)
{
	const struct event *event = (const struct event *)context->log;
	u64 number = context->number = (u32)context->regs.rax;
	if (UNLIKELY(context->log == context->log_end || number >= CALL_ROW_COUNT))
		return 0;
	const struct call_row *row = &call_rows[number];
	u32 size = sizeof *event + row->argument_count * 8 + (u32)stamp_bytes(event->flags);
	const struct event *next = (const struct event *)(context->log + size);
	if (row->policy != POLICY_EMULATE || row->inputs_end | row->outputs_end ||
		row->selector_argument != NO_SELECTOR)
		return 0;
	if (event->kind != EVENT_CALL || event->flags & ~EVENT_STAMPED || event->number != number ||
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

/* entry.S calls this with the program's registers in the context. LEAVE_FAST: only rax has changed.
 *
 * While recording, that path returns straight to the program: after a return from the kernel, the
 * return to entry.S would be mispredicted. It uses a call, not a jump, for the program's own
 * return. A prediction from an empty stack of returns costs the processor more than a wrong entry
 * on it. (Measured: a recorded getppid is 60 ns faster than with a jump.) A clock does not enter
 * the kernel, so all returns are predicted, as long as each call has its own. */
u32 runtime_syscall(struct context *context)
{
	u32 how = handle_call(context);
	section_leave(context);
	if (UNLIKELY(answers() && debug_pauses(context)))
		/* The thread may have waited for others, which makes events, too. */
		how = LEAVE_FULL;
	if (LIKELY(how == LEAVE_FAST) && executes() && kind_of((u32)context->number) != CLOCK)
		leave_fast();
	return how;
}
