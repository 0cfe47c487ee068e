/* One system call from entry to leave, in record and in replay. Private stack. */
#include "../include/context.h"

#define TURN_BYTES sizeof(struct event)
#define INPUT_SPACE 0x10000UL /* staged inputs of one call, ring space kept free for them */
#define ENOSYS 38
#define EINVAL 22

/* Everything that not every call sets itself. */
static void begin_call(struct call *call, struct context *context)
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

/* Compares what the call reads with its event. The position after the inputs. */
static const u8 *verify_inputs(struct call *call)
{
	struct context *context = call->context;
	u32 count = call->row->argument_count;
	const u64 *body = (const u64 *)(call->event + 1);
	if (UNLIKELY(call->event->size < sizeof(struct event) + count * 8))
		diverge(context, WHY_CORRUPT, call->event->size, count);
	for (u32 i = 0; i < count; i++)
		if (UNLIKELY(body[i] != call->arguments[i]))
			diverge(context, WHY_ARGUMENT, body[i], call->arguments[i]);
	if (!call->row->inputs_end)
		return (const u8 *)(body + count);
	struct sink sink;
	sink.mode = SINK_VERIFY;
	sink.context = context;
	sink.item = (const u8 *)(body + count);
	sink.item_end = (const u8 *)call->event + call->event->size;
	sink.pointee_before = 0;
	visit_inputs(&sink, call->row, call->arguments);
	return sink.item;
}

/* The inputs that were compared already: another thread may have changed them since. */
static const u8 *skip_inputs(const struct call *call)
{
	const u8 *at = (const u8 *)(call->event + 1) + call->row->argument_count * 8, *end = (const u8 *)call->event + call->event->size;
	while (at + sizeof(struct item) <= end && ((const struct item *)at)->direction == ITEM_INPUT)
		at += sizeof(struct item) + ALIGN8(((const struct item *)at)->inline_bytes);
	return at;
}

static void prepare_replay(struct call *call)
{
	call->event = log_take(call->context, EVENT_CALL, (u16)call->number);
	call->position = (u8 *)(call->context->inputs_verified ? skip_inputs(call) : verify_inputs(call));
	call->context->inputs_verified = 0;
	call->result = call->event->value;
	call->flags = call->event->flags;
}

/* The thread is about to wait for a turn that it lost inside the call whose event comes next. */
void call_verify_early(struct context *context)
{
	const struct event *event = log_peek(context);
	struct call call;
	begin_call(&call, context);
	futex_waits(&call);
	call.event = event;
	if (!event || event->kind != EVENT_CALL || event->number != call.number || !call.row)
		return;
	verify_inputs(&call);
	context->inputs_verified = 1;
}

void call_prepare(struct call *call)
{
	if (recording())
		prepare_record(call);
	else
		prepare_replay(call);
}

/* The baton changed hands during the call: the TURN event goes before the call's own, whose inputs are staged already. */
void turn_before_staged(struct call *call, u64 turn)
{
	memmove(call->start + TURN_BYTES, call->start, (u64)(call->position - call->start));
	*(struct event *)call->start = (struct event){ TURN_BYTES, EVENT_TURN, TURN_IN_CALL, turn_kind(call->context), (i64)turn };
	call->start += TURN_BYTES;
	call->position += TURN_BYTES;
	ring_publish(call->context, TURN_BYTES);
	count_event(call->context);
	note_turn(call->context, turn);
}

/* Calls that may reach the console, or change which descriptors do, and those that ask what time it is. The others skip a dozen comparisons. */
enum call_kind { PLAIN, OUTPUT, DESCRIPTOR, CLOCK };
static const u8 call_kinds[CALL_ROW_COUNT] = {
	[NR_write] = OUTPUT, [NR_writev] = OUTPUT, [NR_pwrite64] = OUTPUT, [NR_pwritev] = OUTPUT, [NR_pwritev2] = OUTPUT,
	[NR_sendto] = OUTPUT, [NR_sendmsg] = OUTPUT, [NR_vmsplice] = OUTPUT,
	[NR_sendfile] = DESCRIPTOR, [NR_splice] = DESCRIPTOR, [NR_copy_file_range] = DESCRIPTOR, [NR_tee] = DESCRIPTOR,
	[NR_close] = DESCRIPTOR, [NR_fcntl] = DESCRIPTOR, [NR_dup] = DESCRIPTOR, [NR_dup2] = DESCRIPTOR, [NR_dup3] = DESCRIPTOR,
	[NR_close_range] = DESCRIPTOR, [NR_open] = DESCRIPTOR, [NR_openat] = DESCRIPTOR, [NR_openat2] = DESCRIPTOR, [NR_creat] = DESCRIPTOR,
	[NR_pidfd_getfd] = DESCRIPTOR, [NR_recvmsg] = DESCRIPTOR, [NR_recvmmsg] = DESCRIPTOR,
	[NR_clock_gettime] = CLOCK, [NR_gettimeofday] = CLOCK, [NR_time] = CLOCK,
};

static enum call_kind kind_of(const struct call *call) { return call->number < CALL_ROW_COUNT ? call_kinds[call->number] : DESCRIPTOR; }

static u32 reaches_console(const struct call *call)
{
	return kind_of(call) == OUTPUT && descriptor_use(call->context->process, call->arguments[0]);
}

typedef i64 window_function(u64 number, const u64 *arguments);

static inline __attribute__((always_inline)) i64 execute_in(struct call *call, window_function *window)
{
	u32 console = UNLIKELY(reaches_console(call)) ? console_lock(call) : 0;
	u32 gives_baton = call->row->may_wait && call->context->process->domain;
	u64 turn;
	if (gives_baton)
		baton_release(call->context);
	call->result = window(call->number, call->actual);
	if (UNLIKELY(console))
		console_unlock(call, console);
	if (gives_baton && baton_acquire(call->context, &turn))
		turn_before_staged(call, turn);
	return call->result;
}

i64 call_execute(struct call *call) { return recording() ? execute_in(call, call_kernel_window) : call->result; }

static void emit_extra(struct context *context, const struct extra_item *extra)
{
	struct item item = { extra->argument, extra->direction, 0, extra->count, extra->count, 0, extra->address };
	ring_item(context, &item, extra->bytes);
}

static inline __attribute__((always_inline)) void finish_record(struct call *call, const struct extra_item *extra, u32 extra_count)
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
	*(struct event *)call->start = (struct event){ (u32)size, EVENT_CALL, call->flags, (u16)call->number, call->result };
	ring_publish(context, ready);
	if (UNLIKELY(sink.overflown)) {
		sink.mode = SINK_EMIT;
		visit_outputs(&sink, call->row, call->arguments, call->result);
	}
	for (u32 i = 0; i < extra_count; i++)
		emit_extra(context, &extra[i]);
	count_event(context);
}

/* Some calls (vmsplice) may write or only read, and say so nowhere: then the recorded bytes are there already. */
static u32 same_bytes(u64 address, const u8 *data, u64 count)
{
	u8 copy[256];
	for (u64 done = 0; done < count; done += sizeof copy) {
		u64 piece = minimum(sizeof copy, count - done);
		if (copy_user(copy, (const void *)(address + done), piece) || memcmp(copy, data + done, piece))
			return 0;
	}
	return 1;
}

/* What went through /proc/self/mem may lie on pages the program cannot write to. */
static u32 write_forced(u64 address, const u8 *data, u64 count)
{
	i64 memory = sys4(NR_openat, -100L, "/proc/self/mem", 02000002 /* O_RDWR | O_CLOEXEC */, 0);
	i64 written = memory < 0 ? -1 : sys4(NR_pwrite64, memory, data, count, address);
	if (memory >= 0)
		sys1(NR_close, memory);
	return written == (i64)count;
}

/* Copies the recorded outputs where the kernel had put them. The addresses were verified with the inputs. */
static void finish_replay(struct call *call)
{
	const u8 *at = call->position, *end = (const u8 *)call->event + call->event->size;
	while (at < end) {
		const struct item *item = (const struct item *)at;
		const u8 *data = at + sizeof *item;
		if (UNLIKELY(data > end || data + ALIGN8(item->inline_bytes) > end))
			diverge(call->context, WHY_CORRUPT, item->inline_bytes, (u64)(end - at));
		if (item->direction == ITEM_OUTPUT) {
			if (UNLIKELY(item->address < RUNTIME_END && item->address + item->inline_bytes > RUNTIME_TEXT))
				diverge(call->context, WHY_CORRUPT, item->address, 0);
			if (UNLIKELY(copy_user((void *)item->address, data, item->inline_bytes)) && !same_bytes(item->address, data, item->inline_bytes) && !write_forced(item->address, data, item->inline_bytes))
				diverge(call->context, WHY_MEMORY, item->address, item->inline_bytes);
		}
		at = data + ALIGN8(item->inline_bytes);
	}
}

void call_finish(struct call *call, const struct extra_item *extra, u32 extra_count)
{
	if (recording())
		finish_record(call, extra, extra_count);
	else
		finish_replay(call);
}

const struct item *call_find_item(struct call *call, u8 direction, u8 argument)
{
	const u8 *at = call->position, *end = (const u8 *)call->event + call->event->size;
	while (at + sizeof(struct item) <= end) {
		const struct item *item = (const struct item *)at;
		if (item->direction == direction && item->argument == argument)
			return item;
		at += sizeof *item + ALIGN8(item->inline_bytes);
	}
	return NULL;
}

static u32 writes_memory(const struct call *call)
{
	return call->number == NR_pwrite64 && call->result > 0 && descriptor_use(call->context->process, call->arguments[0]) == DESCRIPTOR_MEMORY;
}

/* What a recorded call adds to its event. */
static SELDOM void finish_with(struct call *call, const struct extra_item *moved, const struct view *view)
{
	struct extra_item extra[5];
	u32 count = 0;
	struct file_write write;
	struct view changed = { 0, 0 };
	if (call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR))
		extra[count++] = (struct extra_item){ 0, ITEM_CONSOLE, 0, &call->console_sequence, 8 };
	if (writes_memory(call))
		extra[count++] = (struct extra_item){ 1, ITEM_OUTPUT, call->arguments[3], (void *)call->arguments[1], (u32)call->result };
	if (HEADER->shared_file_count && !tracing()) {
		u32 items = shared_file_write(call, &write, &changed, &extra[count]);
		count += items ? items : shared_file_read(call, &extra[count]);
	}
	if (moved)
		extra[count++] = *moved;
	finish_record(call, extra, count);
	view_end(&changed);
	if (view)
		view_end(view);
}

/* Its event, and the way out. */
static u32 finish_emulated(struct call *call)
{
	if (UNLIKELY(HEADER->shared_file_count || call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR) || writes_memory(call)))
		finish_with(call, NULL, NULL);
	else
		finish_record(call, NULL, 0);
	return leave_with_result(call);
}

/* With what the call moved between descriptors. */
static u32 finish_moved(struct call *call)
{
	struct view view = { 0, 0 };
	struct extra_item moved;
	finish_with(call, moved_look(call, &view, &moved) ? &moved : NULL, &view);
	return leave_with_result(call);
}

/* As call_kernel_window, but in place: when the kernel comes back, processors that protect its return predictions mispredict every return to a
 * caller from before, which costs as much as half a call. Each must stay in one place: the labels are its own. */
#define WINDOW_HERE(name)                                                                                                                                     \
	static inline __attribute__((always_inline)) i64 name##_here(u64 number, const u64 *a)                                                                \
	{                                                                                                                                                     \
		i64 result;                                                                                                                                   \
		register u64 r10 __asm__("r10") = a[3];                                                                                                       \
		register u64 r8 __asm__("r8") = a[4];                                                                                                         \
		register u64 r9 __asm__("r9") = a[5];                                                                                                         \
		__asm__ volatile(".globl " #name "_start, " #name "_call, " #name "_abort\n"                                                                  \
				 #name "_start:\n\tcmpl $0, %%gs:%c[deferred]\n\tjne " #name "_abort\n"                                                     \
				 #name "_call:\n\tsyscall\n1:\n"                                                                                             \
				 ".pushsection .text.cold, \"ax\"\n" #name "_abort:\n\tmov %[aborted], %%rax\n\tjmp 1b\n.popsection"                         \
				 : "=a"(result)                                                                                                               \
				 : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9),                                                  \
				   [deferred] "i"(__builtin_offsetof(struct context, deferred_count)), [aborted] "i"(CALL_ABORTED)                            \
				 : "rcx", "r11", "memory", "cc");                                                                                             \
		return result;                                                                                                                                \
	}
WINDOW_HERE(plain_window)
WINDOW_HERE(other_window)

/* The way that nearly all recorded calls go. */
static u32 record_plain(struct call *call)
{
	prepare_record(call);
	call->result = plain_window_here(call->number, call->actual);
	if (UNLIKELY(call->result == CALL_ABORTED))
		return deliver_deferred(call->context, 1);
	return finish_emulated(call);
}

/* Calls that concern the console or descriptors, and those of threads that take turns. */
static u32 record_other(struct call *call)
{
	u32 descriptors = kind_of(call) == DESCRIPTOR, looked = tracing() && look_needed(call);
	prepare_record(call);
	if (UNLIKELY(looked))
		look_before(call);
	if (descriptors && console_hides_data(call))
		call->result = -EINVAL;
	else if (UNLIKELY(execute_in(call, other_window_here) == CALL_ABORTED))
		return deliver_deferred(call->context, 1);
	if (descriptors)
		descriptors_after(call);
	if (UNLIKELY(looked))
		look_after(call);
	if (moved_wanted(call))
		return finish_moved(call);
	return finish_emulated(call);
}

static u32 record_clock(struct call *call)
{
	prepare_record(call);
	call->result = clock_read(call);
	finish_record(call, NULL, 0);
	return leave_with_result(call);
}

/* An ordinary call: the kernel answers while recording, the log at replay. */
static u32 emulate(struct call *call)
{
	if (recording()) {
		enum call_kind kind = kind_of(call);
		if (UNLIKELY(kind == CLOCK) && clock_answers(call))
			return record_clock(call);
		u32 looked = (tracing() && look_needed(call)) || moved_wanted(call);
		return LIKELY(kind != DESCRIPTOR && !call->context->process->domain && !looked && !reaches_console(call)) ? record_plain(call) : record_other(call);
	}
	prepare_replay(call);
	if (UNLIKELY(call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR)) && !call->context->printed)
		console_replay(call->context, call->event);
	call->context->printed = 0;
	if (UNLIKELY(looks_at_mappings()))
		look_replayed(call);
	finish_replay(call);
	const struct item *write = HEADER->shared_file_count ? call_find_item(call, ITEM_FILE_WRITE, 0) : NULL;
	if (UNLIKELY(write))
		shared_file_rewrite(call, write);
	return leave_with_result(call);
}

#define HANDLER_CASE(name) \
	case HANDLER_##name: \
		return handle_##name(call);

static u32 custom(struct call *call)
{
	switch (call->row->handler) {
		CUSTOM_HANDLERS(HANDLER_CASE)
	}
	fail("the table names a handler that is not there");
}

static u32 handle_call(struct context *context)
{
	struct call call;
	context->number = context->regs.rax;
	section_enter(context);
	if (UNLIKELY(context->deferred_count))
		return deliver_deferred(context, 1);
	if (recording()) {
		if (UNLIKELY(context->seen_tick != HEADER->yield_tick) && (context->process->domain || chaos()))
			baton_yield(context);
		if (UNLIKELY(context->event_count >= context->next_hash_event))
			hash_at_interval(context);
	} else {
		const struct event *next = log_peek(context);
		while (UNLIKELY(next && (next->kind == EVENT_TURN || next->kind == EVENT_HASH))) {
			if (next->kind == EVENT_TURN)
				baton_replay(context, 1);
			else
				hash_replay(context);
			next = log_peek(context);
		}
		if (UNLIKELY(next && next->kind == EVENT_SIGNAL && next->flags & SIGNAL_BEFORE_CALL))
			return replay_signals(context, 1);
		if (UNLIKELY(next && next->kind == EVENT_FATAL))
			replay_fatal(context, 1);
		if (UNLIKELY(debug_catches(context)))
			debug_call(context);
	}
	begin_call(&call, context);
	if (UNLIKELY(!call.row)) {
		static const struct call_row unknown = { .policy = POLICY_REFUSE, .selector_argument = NO_SELECTOR, .refuse_errno = ENOSYS };
		call.row = &unknown;
	}
	u32 how;
	if (UNLIKELY(context->slot->filter) && filter_call(&call, &how))
		return how;
	switch (call.row->policy) {
	case POLICY_EMULATE: return emulate(&call);
	case POLICY_CUSTOM: return custom(&call);
	default: return answer_call(&call, -(i64)(call.row->refuse_errno < 0 ? -call.row->refuse_errno : call.row->refuse_errno));
	}
}

static u32 same_arguments(const struct registers *regs, const u64 *recorded, u32 count)
{
	static const u8 places[6] = { __builtin_offsetof(struct registers, rdi), __builtin_offsetof(struct registers, rsi), __builtin_offsetof(struct registers, rdx),
		__builtin_offsetof(struct registers, r10), __builtin_offsetof(struct registers, r8), __builtin_offsetof(struct registers, r9) };
	for (u32 i = 0; i < count; i++)
		if (recorded[i] != *(const u64 *)((const u8 *)regs + places[i]))
			return 0;
	return 1;
}

/* Replay: all that a call without buffers needs if what comes next is a call again. From entry.S, before the registers are saved that compiled code
 * keeps. 1: done, as LEAVE_FAST. 0: nothing is changed, and the call goes the way of all others, which also says what differs. */
u32 replay_plain(struct context *context)
{
	const struct event *event = (const struct event *)context->log;
	u64 number = context->number = (u32)context->regs.rax;
	if (UNLIKELY(context->log == context->log_end || number >= CALL_ROW_COUNT))
		return 0;
	const struct call_row *row = &call_rows[number];
	u32 size = sizeof *event + row->argument_count * 8;
	const struct event *next = (const struct event *)(context->log + size);
	if (row->policy != POLICY_EMULATE || row->inputs_end | row->outputs_end || row->selector_argument != NO_SELECTOR)
		return 0;
	if (event->kind != EVENT_CALL || event->flags || event->number != number || event->size != size)
		return 0;
	if (UNLIKELY((const u8 *)next == context->log_end || next->kind != EVENT_CALL || !same_arguments(&context->regs, (const u64 *)(event + 1), row->argument_count)))
		return 0;
	if (UNLIKELY(context->deferred_count || context->slot->filter || context->sections || debug_catches(context) || context->event_count + 1 >= context->pause_at - 1))
		return 0;
	context->log = (const u8 *)next;
	context->log_offset += size;
	count_event(context);
	context->temporary_active = 0;
	context->regs.rax = (u64)event->value;
	return 1;
}

_Noreturn void leave_fast(void);

/* Comes from entry.S with the program's registers in the context. LEAVE_FAST: only rax changed. While recording that way leads straight back to the
 * program: a return to entry.S would be one of those mispredicted. It is a call and not a jump for the sake of the program's own return: what processors
 * predict from an empty stack of returns costs them more than a wrong entry on it. (Measured: a recorded getppid is 60 ns faster than with a jump.) */
u32 runtime_syscall(struct context *context)
{
	u32 how = handle_call(context);
	section_leave(context);
	if (LIKELY(how == LEAVE_FAST) && recording())
		leave_fast();
	return how;
}
