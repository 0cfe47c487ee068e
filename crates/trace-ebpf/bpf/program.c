/* The programs in the kernel that follow system calls. Arguments are kept at entry. Data are copied
 * at return, when their pages are in memory.
 *
 * Some data cannot be copied here: a page that is not in memory after all, a shape too rare to be
 * worth the code, or more than fits. User space reads these while the thread is held: the program
 * sends it SIGSTOP, which its tracer catches before the thread runs any code. */
#include "mapped.h"
#include "walk.h"

const char LICENSE[] SECTION("license") = "Dual MIT/GPL";

#define FICLONE 0x40049409
#define FICLONERANGE 0x4020940d
#define SIGKILL 9
#define USER_32_CS 0x23 /* code segment of 32-bit programs */

enum { EVENT_CALL = 1, EVENT_SIGNAL = 2, EVENT_EXIT = 4 };

struct event {
	u32 size;
	u8 kind, flags;
	u16 number;
	i64 value;
};

struct times_item {
	struct item item;
	u64 entered_ns, returned_ns, processor;
};

/* Follows the event of a RECORD_HELD. */
struct held_tail {
	u64 before[6];
};

INLINE struct thread *own_thread(void) { return task_storage(&threads, current_task(), 0, 0); }

INLINE void copy_words(u64 *to, const u64 *from)
{
	for (u32 i = 0; i < 6; i++)
		to[i] = from[i];
}

/* Begins a CALL event, up to its data. Returns the offset after that part. */
INLINE u32 begin_call(struct ring *ring, struct work *work, struct thread *thread, u32 count,
	i64 result, u64 returned_ns)
{
	u8 *at = place(ring, work, sizeof(struct record));
	if (!at)
		return 0;
	struct event *event = (struct event *)at;
	event->kind = EVENT_CALL;
	event->flags = 0;
	event->number = (u16)thread->number;
	event->value = result;
	u64 *arguments = (u64 *)(event + 1);
	for (u32 i = 0; i < 6; i++)
		if (i < count)
			arguments[i] = thread->arguments[i];
	struct times_item *times =
		(struct times_item *)(at + sizeof *event + (count > 6 ? 6 : count) * 8);
	describe(&times->item, 0, ITEM_TIMES, 24, 24, 0);
	times->entered_ns = thread->entered_ns;
	times->returned_ns = returned_ns;
	times->processor = processor();
	return sizeof(struct record) + sizeof *event + (count > 6 ? 6 : count) * 8 + sizeof *times;
}

INLINE void finish_event(struct ring *ring, struct work *work)
{
	struct event *event = (struct event *)place(ring, work, sizeof(struct record));
	if (event)
		event->size = work->size - sizeof(struct record);
}

INLINE void end_call(
	struct ring *ring, struct work *work, struct thread *thread, u32 behind, u32 held)
{
	u32 kind = RECORD_CALL, flags = 0;
	if (held) {
		work->size = behind;
		finish_event(ring, work);
		struct held_tail *tail = (struct held_tail *)place(ring, work, behind);
		if (!tail)
			return;
		copy_words(tail->before, thread->before);
		work->size = behind + sizeof *tail;
		kind = RECORD_HELD;
		flags = FLAG_STOPPED | (thread->faulted ? FLAG_FAULTED : 0);
	} else {
		finish_event(ring, work);
	}
	publish(ring, work, thread, kind, flags);
}

/* Whether a row has anything to do at entry. Most rows have nothing. */
INLINE u32 matters_at_entry(const struct call_row *row)
{
	u32 matters = 0;
	for (u32 i = 0; i < 6 && i < row->argument_count; i++) {
		const struct argument_rule *rule = &row->arguments[i];
		matters |= rule->direction == DIRECTION_INOUT || rule->shape == SHAPE_STRINGS ||
			   (rule->shape == SHAPE_MSGHDR && rule->direction == DIRECTION_OUT) ||
			   rule->length_rule == LENGTH_COUNTED ||
			   rule->length_rule == LENGTH_POINTEE32 ||
			   rule->length_rule == LENGTH_POINTEE64;
	}
	return matters;
}

/* Copies inputs that the call may change before it returns. */
INLINE void inputs_at_entry(
	struct thread *thread, u32 number, u32 index, const struct call_row *row)
{
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!ring || !work)
		return;
	if (!begin(ring, work, DATA_WATER)) {
		thread->faulted = 1;
		return;
	}
	copy_words(work->arguments, thread->arguments);
	work->result = 0;
	for (u32 i = 0; i < 6 && i < row->argument_count; i++)
		if (row->arguments[i].direction != DIRECTION_VALUE)
			visit(index, i, AT_ENTRY, 0);
	if (number == NR_execve)
		put_string(thread->arguments[0], 0);
	if (number == NR_execveat)
		put_string(thread->arguments[1], 1);
	undescribed(work, number, index, ITEM_INPUT);
	copy_words(thread->before, work->before);
	thread->faulted = work->failed != 0;
	if (!work->failed && work->size > sizeof(struct record))
		publish(ring, work, thread, RECORD_INPUTS, 0);
}

/* Writes the event of exit and exit_group, which do not return. */
INLINE void exits(struct thread *thread, u32 number)
{
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!ring || !work || !begin(ring, work, RING_BYTES - SMALL_RECORD)) {
		lose();
		return;
	}
	struct event *event = (struct event *)place(ring, work, sizeof(struct record));
	if (!event)
		return;
	u64 *body = (u64 *)(event + 1);
	event->kind = EVENT_EXIT;
	event->flags = 0;
	event->number = (u16)number;
	event->value = (i32)thread->arguments[0];
	body[0] = thread->entered_ns;
	body[1] = processor();
	work->size = sizeof(struct record) + sizeof *event + 16;
	finish_event(ring, work);
	publish(ring, work, thread, RECORD_EVENT, 0);
}

SECTION("tp_btf/sys_enter")
int call_entered(u64 *context)
{
	struct thread *thread = own_thread();
	if (!thread || thread->flags & THREAD_AWAITS_EXEC)
		return 0;
	struct pt_regs *registers = (struct pt_regs *)context[0];
	u32 number = (u32)context[1];
	if (registers->cs == USER_32_CS) {
		struct counters *counters_ = counters();
		if (counters_)
			__sync_fetch_and_add(&counters_->foreign, 1);
		return 0;
	}
	thread->number = number;
	thread->faulted = 0;
	thread->arguments[0] = registers->di;
	thread->arguments[1] = registers->si;
	thread->arguments[2] = registers->dx;
	thread->arguments[3] = registers->r10;
	thread->arguments[4] = registers->r8;
	thread->arguments[5] = registers->r9;
	thread->entered_ns = real_time();
	if (number == NR_exit || number == NR_exit_group) {
		exits(thread, number);
		return 0;
	}
	thread->flags |= THREAD_IN_CALL;
	u32 index = row_index(number, thread->arguments);
	const struct call_row *row = row_at(index);
	if (row && (number == NR_ioctl || matters_at_entry(row)))
		inputs_at_entry(thread, number, index, row);
	return 0;
}

/* Whether the call moved data between descriptors. Such data are in no process's memory, so user
 * space reads them where they are now. */
INLINE u32 moved_data(struct thread *thread, i64 result)
{
	u32 number = thread->number, command = (u32)thread->arguments[1];
	if (number == NR_ioctl)
		return result == 0 && (command == FICLONE || command == FICLONERANGE);
	return result > 0 && (number == NR_sendfile || number == NR_splice || number == NR_tee ||
				     number == NR_copy_file_range);
}

INLINE u32 data_of_call(
	struct work *work, struct thread *thread, u32 index, const struct call_row *row, u32 failed)
{
	u32 held = thread->faulted;
	for (u32 i = 0; i < 6 && i < row->argument_count; i++)
		if (row->arguments[i].direction != DIRECTION_VALUE)
			held |= visit(index, i, AT_RETURN, failed) != VISITED;
	if (!failed)
		undescribed(work, thread->number, index, ITEM_OUTPUT);
	return held | work->failed;
}

/* Whether SIGKILL ended a call that waited. The call seems to return in order to be restarted,
 * but its thread never runs again. */
INLINE u32 was_killed_in_call(i64 result)
{
	return result >= -516 && result <= -512 &&
	       current_task()->pending.signal.sig[0] & 1ULL << (SIGKILL - 1);
}

SECTION("tp_btf/sys_exit")
int call_returned(u64 *context)
{
	struct thread *thread = own_thread();
	if (!thread || !(thread->flags & THREAD_IN_CALL))
		return 0;
	i64 result = (i64)context[1];
	if (was_killed_in_call(result))
		return 0; /* written at the thread's end, as a call that never returned */
	thread->flags &= ~THREAD_IN_CALL;
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!ring || !work)
		return 0;
	u32 has_room = begin(ring, work, DATA_WATER);
	if (!has_room && !begin(ring, work, RING_BYTES - SMALL_RECORD)) {
		lose();
		return 0;
	}
	u32 index = row_index(thread->number, thread->arguments);
	const struct call_row *row = row_at(index);
	u32 failed = result < 0 && result >= -4095;
	u32 behind =
		begin_call(ring, work, thread, row ? row->argument_count : 0, result, real_time());
	if (!behind)
		return 0;
	work->size = behind;
	copy_words(work->arguments, thread->arguments);
	copy_words(work->before, thread->before);
	work->result = result < 0 ? 0 : result;
	u32 is_looked_at = LOOKS && !failed &&
			   (moved_data(thread, result) || concerns_mapped_file(thread, result));
	u32 held = !has_room || is_looked_at ||
		   (row && data_of_call(work, thread, index, row, failed));
	end_call(ring, work, thread, behind, held);
	return 0;
}

struct start_body {
	u64 parent; /* number of the parent thread */
	u32 process, tid, is_thread, unused;
	u64 time_ns;
};

SECTION("tp_btf/sched_process_fork")
int thread_made(u64 *context)
{
	struct task_struct *child = (struct task_struct *)context[1];
	struct thread *parent = own_thread();
	struct counters *counters_ = counters();
	if (!parent || !counters_ || parent->flags & THREAD_AWAITS_EXEC)
		return 0;
	struct thread *thread = task_storage(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!thread || !ring || !work || !begin(ring, work, RING_BYTES - SMALL_RECORD)) {
		lose();
		return 0;
	}
	thread->id = __sync_fetch_and_add(&counters_->next_thread, 1);
	inherit_mappings(current_task()->tgid, child->tgid);
	struct start_body *body = (struct start_body *)place(ring, work, sizeof(struct record));
	if (!body)
		return 0;
	body->parent = parent->id;
	body->process = child->tgid;
	body->tid = child->pid;
	body->is_thread = child->tgid != child->pid;
	body->unused = 0;
	body->time_ns = real_time();
	work->size = sizeof(struct record) + sizeof *body;
	publish(ring, work, thread, RECORD_START, 0);
	return 0;
}

/* Comes before the path. */
struct exec_body {
	u32 path_bytes, unused;
	u64 number, entered_ns, arguments[6];
};

SECTION("tp_btf/sched_process_exec")
int program_begins(u64 *context)
{
	struct thread *thread = own_thread();
	struct linux_binprm *program = (struct linux_binprm *)context[2];
	if (!thread)
		return 0;
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!ring || !work || !begin(ring, work, RING_BYTES - 2 * PATH_LIMIT)) {
		lose();
		return 0;
	}
	u8 *at = place(ring, work, sizeof(struct record));
	if (!at)
		return 0;
	struct exec_body *body = (struct exec_body *)at;
	body->unused = 0;
	body->number = thread->flags & THREAD_IN_CALL ? thread->number : ~0ULL;
	body->entered_ns = thread->entered_ns;
	copy_words(body->arguments, thread->arguments);
	i64 length = read_kernel_string(at + sizeof *body, PATH_LIMIT, program->filename);
	u32 bytes = length > 0 && length <= PATH_LIMIT ? (u32)length - 1 : 0;
	body->path_bytes = bytes;
	work->size = sizeof(struct record) + sizeof *body + ((bytes + 7) & ~7u);
	u32 flags = thread->flags & THREAD_IN_CALL && thread->faulted ? FLAG_FAULTED : 0;
	thread->flags = 0;
	publish(ring, work, thread, RECORD_EXEC, flags);
	return 0;
}

SECTION("tp_btf/signal_deliver")
int signal_delivered(u64 *context)
{
	struct thread *thread = own_thread();
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!thread || thread->flags & THREAD_AWAITS_EXEC || !ring || !work ||
		context[0] == SIGKILL)
		return 0; /* SIGKILL is reported at the thread's end */
	if (!begin(ring, work, RING_BYTES - SMALL_RECORD)) {
		lose();
		return 0;
	}
	u8 *at = place(ring, work, sizeof(struct record));
	if (!at)
		return 0;
	struct event *event = (struct event *)at;
	event->kind = EVENT_SIGNAL;
	event->flags = 0;
	event->number = (u16)context[0];
	event->value = 0;
	for (u32 i = 0; i < 16; i++)
		((u64 *)(event + 1))[i] = 0;
	read_kernel(at + sizeof *event, 48, (const void *)context[1]);
	work->size = sizeof(struct record) + sizeof *event + 128;
	finish_event(ring, work);
	publish(ring, work, thread, RECORD_EVENT, 0);
	return 0;
}

SECTION("tp_btf/sched_process_exit")
int thread_ended(u64 *context)
{
	struct thread *thread = own_thread();
	struct ring *ring = own_ring();
	struct work *work = own_work();
	if (!thread || !ring || !work)
		return 0;
	if (thread->flags & THREAD_IN_CALL && begin(ring, work, RING_BYTES - SMALL_RECORD)) {
		const struct call_row *row = row_at(row_index(thread->number, thread->arguments));
		u32 behind = begin_call(ring, work, thread, row ? row->argument_count : 0, 0, 0);
		if (behind) {
			work->size = behind;
			finish_event(ring, work);
			publish(ring, work, thread, RECORD_CALL, 0);
		}
	}
	if (!begin(ring, work, RING_BYTES - SMALL_RECORD)) {
		lose();
		return 0;
	}
	u64 *body = (u64 *)place(ring, work, sizeof(struct record));
	if (!body)
		return 0;
	body[0] = (u32)((struct task_struct *)context[0])->exit_code;
	work->size = sizeof(struct record) + 8;
	publish(ring, work, thread, RECORD_END, 0);
	return 0;
}
