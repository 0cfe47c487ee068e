/* Calls that make processes and threads: fork, vfork, clone. Private stack. */
#include "base/debugged.h"
#include "base/futex.h"
#include "base/image.h"
#include "base/interception.h"
#include "base/leave.h"
#include "base/process_lock.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/unreached.h"
#include "base/user.h"
#include "calls/clone.h"
#include "calls/kept_back.h"
#include "calls/mmap.h"
#include "calls/namespace.h"
#include "calls/start.h"
#include "calls/thread_memory.h"
#include "calls/wait.h"
#include "gen/numbers.h"
#include "log/end.h"
#include "log/log.h"
#include "log/pool.h"
#include "log/request.h"
#include "log/settle.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "mode/debug.h"
#include "mode/reference.h"
#include "order/domain.h"
#include "order/home.h"
#include "order/policy.h"
#include "order/section.h"
#include "signals/signal.h"

#define CLONE_VM 0x100UL
#define CLONE_PIDFD 0x1000UL
#define CLONE_VFORK 0x4000UL
#define CLONE_THREAD 0x10000UL
#define CLONE_SIGHAND 0x800UL
#define CLONE_FS 0x200UL
#define CLONE_SYSVSEM 0x40000UL
#define CLONE_SETTLS 0x80000UL
#define CLONE_PARENT_SETTID 0x100000UL
#define CLONE_CHILD_CLEARTID 0x200000UL
#define CLONE_CHILD_SETTID 0x1000000UL
#define CLONE_PTRACE 0x2000UL
#define CLONE_PARENT 0x8000UL
#define CLONE_CLEAR_SIGHAND 0x100000000UL
#define CLONE_INTO_CGROUP 0x200000000UL
#define CLONE_DETACHED 0x400000UL
#define CLONE_NEWTIME 0x80UL
#define CLONE3_FIRST_BYTES 64UL /* the structure's first version */
#define CLONE3_BYTES 88UL
#define MOST_NUMBERS 32UL /* one for each PID namespace */
#define MOST_SIGNAL 64UL
#define E2BIG 7
#define EAGAIN 11
#define EFAULT 14
#define EINVAL 22
#define EPERM 1

struct clone_request {
	u64 flags, parent_tid, child_tid, pidfd, exit_signal, stack, tls;
	u64 set_tid, set_tid_count, cgroup;
	u32 extended; /* needs clone3 */
};

static void child_registers(struct context *context, const struct clone_request *request)
{
	context->regs.rax = 0;
	if (request->stack)
		context->regs.rsp = request->stack;
	if (request->flags & CLONE_CHILD_SETTID && answers())
		copy_user((void *)request->child_tid, &context->tid, 4);
}

static void give_back(struct slot *slot)
{
	__atomic_store_n(&slot->state, SLOT_EXITED, __ATOMIC_RELEASE);
}

/* Claims a slot whose ring is attached in this address space, or in the copy that the child will
 * have. */
static struct slot *slot_with_ring(struct context *context)
{
	if (executes() && orders_by_sections() && HEADER->next_stream >= MAX_ORDERED_STREAMS)
		return NULL; /* replay has no room for more */
	struct slot *slot = slot_claim();
	if (!slot || answers() || pool_attach(context, slot) == 0)
		return slot;
	give_back(slot);
	return NULL;
}

static struct slot *new_child(struct call *call, u64 flags)
{
	struct slot *slot = slot_with_ring(call->context);
	if (!slot)
		return NULL;
	slot->parent_stream = call->context->slot->stream;
	slot->event_count = slot->slow_calls = 0;
	slot->baton.operations = 0;
	slot->filter = call->context->slot->filter;
	slot->memory_of = flags & CLONE_VM ? call->context->slot->memory_of : 0;
	if ((flags & (CLONE_VM | CLONE_THREAD)) == CLONE_VM && !slot->memory_of)
		slot->memory_of = call->context->slot->pid;
	slot->started_ns = slot->ended_ns = slot->baton.waits = slot->baton.wait_ns = 0;
	if (executes())
		slot->stream = __atomic_fetch_add(&HEADER->next_stream, 1, __ATOMIC_ACQ_REL);
	else {
		const struct item *item = call_find_item(call, ITEM_CHILD, 0);
		if (!item || item->inline_bytes != 4)
			diverge(call->context, WHY_CORRUPT, 0, 0);
		slot->stream = *(const u32 *)(item + 1);
		/* The process may end, or exec, before the thread sets this itself. */
		slot->pid = flags & CLONE_THREAD ? call->context->slot->pid : 0;
	}
	pid_space_inherit(call->context->slot, slot, flags);
	home_inherit(call->context->slot, slot);
	return slot;
}

/* The request for the kernel: everything while recording, only what shapes memory at replay. */
static void kernel_request(const struct clone_request *request, struct clone_request *real)
{
	*real = *request;
	if (executes()) {
		/* The runtime's handlers and segments stay. */
		real->flags &=
			~(CLONE_PTRACE | CLONE_CHILD_CLEARTID | CLONE_CLEAR_SIGHAND | CLONE_NEWIPC);
		return;
	}
	real->flags &= CLONE_SETTLS | CLONE_VM | CLONE_VFORK | CLONE_THREAD | CLONE_SIGHAND |
		       CLONE_FS | CLONE_FILES | CLONE_SYSVSEM;
	real->exit_signal = request->flags & CLONE_THREAD ? 0 : SIGCHLD;
	real->parent_tid = real->pidfd = 0;
	real->set_tid_count = 0;
}

static void clone3_fields(const struct clone_request *request, u64 fields[11])
{
	u64 values[11] = {request->flags, request->pidfd, request->child_tid, request->parent_tid,
		request->exit_signal, 0, 0, request->tls, request->set_tid, request->set_tid_count,
		request->cgroup};
	memcpy(fields, values, sizeof values);
}

static i64 clone_copying(
	struct context *context, struct slot *slot, const struct clone_request *request)
{
	struct clone_request real;
	u64 fields[11];
	i64 pid;
	kernel_request(request, &real);
	clone3_fields(&real, fields);
	process_lock(); /* the child must get consistent data */
	if (request->extended && executes())
		pid = sys2(NR_clone3, fields, sizeof fields);
	else
		pid = sys6(NR_clone, real.flags | real.exit_signal, 0,
			real.flags & CLONE_PIDFD ? real.pidfd : real.parent_tid, real.child_tid,
			real.tls, 0);
	process_unlock();
	if (pid != 0)
		return pid;
	context->slot = slot;
	if (executes())
		populate_text();
	if (request->flags & CLONE_CLEAR_SIGHAND)
		signals_clear(context);
	if (runs_in_parallel(context) && context->process->thread_count > 1)
		context->process->memory_may_differ = 1;
	context->process->thread_count = 1;
	context->process->seen.alone = 0;
	baton_inherit(context);
	section_inherit(context);
	if (request->flags & CLONE_VFORK)
		/* The parent stands still and holds the baton for it. */
		context->domain = context->process->domain = NULL;
	context->process->children_count = context->process->printing = 0;
	context->clear_tid = request->flags & CLONE_CHILD_CLEARTID ? request->child_tid : 0;
	context->dispatched = 0; /* the kernel does not inherit it */
	arm_interception(context);
	begin_stream(context, START_FORK);
	image_program(context);
	kept_back_inherit(context->process);
	set_kernel_mask(context, context->sigmask);
	child_registers(context, request);
	leave(context);
	section_leave(context);
	restore_full(context);
}

/* The child starts on its own stack in the runtime. */
static i64 clone_to(struct context *child, const struct clone_request *real)
{
	u64 fields[11];
	if (!real->extended || answers())
		return clone_on_stack(real->flags | real->exit_signal, child->stack_top,
			real->flags & CLONE_PIDFD ? real->pidfd : real->parent_tid, real->child_tid,
			real->tls, child);
	clone3_fields(real, fields);
	fields[5] = child->stack_top - PAGE_BYTES;
	fields[6] = PAGE_BYTES;
	return clone3_on_stack(fields, sizeof fields, child);
}

static i64 clone_sharing(
	struct context *context, struct slot *slot, const struct clone_request *request)
{
	struct context *child = region_create();
	struct clone_request real;
	if (!child)
		return -EAGAIN;
	u32 thread = (request->flags & CLONE_THREAD) != 0;
	child->process = context->process;
	child->domain = context->domain;
	child->sections = context->sections & ~(u32)SECTIONS_SIGNALLED;
	if (settles(context))
		settle_thread(child);
	if (!thread && !(request->flags & CLONE_VFORK) && executes())
		unreached_show(context); /* neither process would notice what the other does */
	child->counter_traps = context->counter_traps; /* the kernel inherits it */
	if (!thread) {
		child->process = (struct process *)(region_address(child->region) + REGION_PROCESS);
		memcpy(child->process, context->process, sizeof *child->process);
		child->is_guest = 1;
		child->process->thread_count = 1;
		child->process->seen.alone = 0;
		child->process->children_count = child->process->printing = 0;
		if (request->flags & CLONE_VFORK)
			/* The parent stands still and holds the baton for it. */
			child->domain = child->process->domain = NULL;
	}
	child->is_thread = thread;
	child->slot = slot;
	child->regs = context->regs;
	child->sigmask = context->sigmask;
	child->altstack_flags = 2;
	if (!request->stack) { /* vfork: the child shares the stack and the alternate stack */
		child->altstack_pointer = context->altstack_pointer;
		child->altstack_bytes = context->altstack_bytes;
		child->altstack_flags = context->altstack_flags;
		child->handler_depth = context->handler_depth;
	}
	kernel_request(request, &real);
	child->regs.rax = 0;
	if (request->stack)
		child->regs.rsp = request->stack;
	child->clear_tid = request->flags & CLONE_CHILD_CLEARTID ? request->child_tid : 0;
	/* The child writes its number once it has a turn. */
	child->child_tid_address = request->flags & CLONE_CHILD_SETTID ? request->child_tid : 0;
	real.flags &= ~CLONE_CHILD_SETTID;
	if (thread) {
		context->process->had_threads = 1;
		child->thread_alive = 1;
		__atomic_add_fetch(&context->process->thread_count, 1, __ATOMIC_ACQ_REL);
		real.flags |= CLONE_CHILD_CLEARTID;
		real.child_tid = (u64)&child->thread_alive;
	} else if (executes() && child->clear_tid && !(request->flags & CLONE_VFORK)) {
		/* Clears the word if the child is killed. */
		real.flags |= CLONE_CHILD_CLEARTID;
		real.child_tid = child->clear_tid;
	}
	i64 pid = clone_to(child, &real);
	if (pid < 0)
		child->settled = SETTLED_NOT;
	else if (real.flags & CLONE_VFORK)
		end_after_guest(context, child->process);
	if (thread && pid < 0) {
		child->thread_alive = 0;
		__atomic_sub_fetch(&context->process->thread_count, 1, __ATOMIC_ACQ_REL);
	}
	if ((!thread && request->flags & CLONE_VFORK) || pid < 0)
		region_return(child->region);
	arm_interception(context);
	return pid;
}

static u32 leave_spawn(struct call *call, const struct clone_request *request)
{
	call->context->regs.rax = (u64)call->result;
	if (answers() && call->result > 0 && !(request->flags & CLONE_THREAD))
		debug_event(
			request->flags & CLONE_VFORK ? DEBUG_VFORK : DEBUG_FORK, (u64)call->result);
	return leave(call->context);
}

/* Prepares the order for a child that shares this memory. A child in a process of its own may
 * outlive the parent or be killed alone, so the supervisor must be able to find the baton. */
static void order_for_child(struct context *context, u64 flags)
{
	struct domain *domain = context->process->domain;
	if (!(flags & CLONE_VM) || flags & CLONE_VFORK)
		return;
	if (!(flags & CLONE_THREAD) && domain != &HEADER->shared_domain)
		baton_join(context);
	else if (!domain)
		baton_create(context);
}

static u32 spawn(struct call *call, const struct clone_request *request)
{
	struct context *context = call->context;
	call->outputs_by_hand = 1;
	if (makes_order())
		order_for_child(context, request->flags);
	call_prepare(call);
	if (answers() && (call->result < 0 || debug_skips_child(call, request->flags))) {
		call_finish(call, NULL, 0);
		return leave_spawn(call, request);
	}
	if (!(request->flags & CLONE_FILES) != !(request->flags & CLONE_THREAD))
		context->process->mixed_descriptors = 1;
	struct slot *slot = new_child(call, request->flags);
	if (!slot) {
		call->result = -EAGAIN;
		call_finish(call, NULL, 0);
		return leave_spawn(call, request);
	}
	/* When the clone returns, the child may have ended, and another thread may have its slot.
	 */
	u32 stream = slot->stream;
	positions_shared(context->process);
	/* Holds all signals. A signal that reached the child before it has its own stream would be
	 * lost; before it has its own context, it would reach this thread's context. */
	hold_all_signals(context);
	i64 pid = request->flags & CLONE_VM ? clone_sharing(context, slot, request)
					    : clone_copying(context, slot, request);
	if (context->deferred_count)
		hold_signals(context);
	else
		set_kernel_mask(context, context->sigmask);
	if (pid < 0) {
		give_back(slot);
		if (answers())
			fail("cannot create the process that the recording has here");
	}
	child_note(context->process, request->flags, (u32)call->result, (u32)pid);
	u32 extra_count = 0;
	u8 place = request->extended ? 0 : 2; /* the argument that names the outputs */
	struct extra_item extra[3];
	if (executes()) {
		call->result = pid;
		if (pid > 0)
			extra[extra_count++] = (struct extra_item){0, ITEM_CHILD, 0, &stream, 4};
		if (pid > 0 && request->flags & CLONE_PARENT_SETTID)
			extra[extra_count++] = (struct extra_item){place, ITEM_OUTPUT,
				request->parent_tid, (void *)request->parent_tid, 4};
		if (pid > 0 && request->flags & CLONE_PIDFD)
			extra[extra_count++] = (struct extra_item){
				place, ITEM_OUTPUT, request->pidfd, (void *)request->pidfd, 4};
	}
	call_finish(call, extra, extra_count);
	return leave_spawn(call, request);
}

static u32 refuse_clone(struct call *call, i64 result)
{
	call->outputs_by_hand = 1;
	return answer_call(call, result);
}

u32 handle_fork(struct call *call)
{
	struct clone_request request = {.exit_signal = SIGCHLD};
	return spawn(call, &request);
}

u32 handle_vfork(struct call *call)
{
	struct clone_request request = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
	return spawn(call, &request);
}

static u32 clone_checked(struct call *call, const struct clone_request *request)
{
	if (executes() && !may_have_ipc_namespace(request->flags))
		return refuse_clone(call, -EPERM);
	return spawn(call, request);
}

u32 handle_clone(struct call *call)
{
	const u64 *a = call->arguments;
	struct clone_request request = {
		a[0] & ~0xffUL, a[2], a[3], a[2], a[0] & 0xff, a[1], a[4], 0, 0, 0, 0};
	return clone_checked(call, &request);
}

/* Returns the errors of the kernel for fields that struct clone_request does not keep, in the
 * kernel's order. */
static i64 clone3_refusal(const u64 fields[11], u64 bytes)
{
	const u64 flags = fields[0], exit_signal = fields[4];
	if (fields[9] > MOST_NUMBERS || !fields[8] != !fields[9])
		return -EINVAL;
	if (exit_signal > MOST_SIGNAL)
		return -EINVAL;
	if (flags & CLONE_INTO_CGROUP && (fields[10] > 0x7fffffff || bytes < CLONE3_BYTES))
		return -EINVAL;
	if (flags & ~(0xffffffffUL | CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP) ||
		flags & (CLONE_DETACHED | (0xff & ~CLONE_NEWTIME)))
		return -EINVAL;
	if (flags & CLONE_SIGHAND && flags & CLONE_CLEAR_SIGHAND)
		return -EINVAL;
	if (flags & (CLONE_THREAD | CLONE_PARENT) && exit_signal)
		return -EINVAL;
	if (!fields[5] != !fields[6] || fields[5] > ADDRESS_END ||
		fields[6] > ADDRESS_END - fields[5])
		return -EINVAL;
	return 0;
}

/* Reads the structure. A program that was built for a newer kernel passes more fields than are
 * known here, and all of these must be 0. */
static i64 clone3_read(const struct call *call, u64 fields[11])
{
	u64 address = call->arguments[0], bytes = call->arguments[1], word;
	if (bytes > PAGE_BYTES)
		return -E2BIG;
	if (bytes < CLONE3_FIRST_BYTES)
		return -EINVAL;
	for (u64 at = CLONE3_BYTES; at < bytes; at += sizeof word) {
		word = 0;
		if (copy_user(
			    &word, (const void *)(address + at), minimum(bytes - at, sizeof word)))
			return -EFAULT;
		if (word)
			return -E2BIG;
	}
	if (copy_user(fields, (const void *)address, minimum(bytes, CLONE3_BYTES)))
		return -EFAULT;
	return clone3_refusal(fields, bytes);
}

u32 handle_clone3(struct call *call)
{
	/* The fields are flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
	 * set_tid, set_tid_size, cgroup. */
	u64 fields[11] = {0};
	i64 refusal = clone3_read(call, fields);
	if (refusal)
		return refuse_clone(call, refusal);
	struct clone_request request = {fields[0], fields[3], fields[2], fields[1], fields[4],
		fields[5] + fields[6], fields[7], fields[8], fields[9], fields[10], 1};
	return clone_checked(call, &request);
}
