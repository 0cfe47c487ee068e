/* Namespaces of process numbers and of System V objects. Private stack.
 *
 * In another PID namespace a process has other numbers than those the supervisor knows. The slot
 * has the supervisor's numbers, the context the process's own. Another IPC namespace would hide the
 * supervisor's segments from the next exec, so none is made, but the program's call succeeds. */
#include "calls/namespace.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/request.h"
#include "mode/call.h"
#include "signals/signal.h"

#define CLONE_THREAD 0x10000UL
#define CLONE_NEWUSER 0x10000000UL
#define CAP_SYS_ADMIN 21
#define NS_GET_NSTYPE 0xb703
#define EPERM 1
#define EBADF 9

/* Namespaces have no numbers of their own. A namespace is named by the stream of the thread that
 * began it, and how it did so. */
enum { SPACE_UNSHARED = 1u << 31, SPACE_ENTERED = 1u << 30 };

void pid_space_inherit(const struct slot *parent, struct slot *child, u64 flags)
{
	u32 inherited = flags & CLONE_THREAD ? parent->pid_space.own : parent->pid_space.children;
	child->pid_space.own = flags & CLONE_NEWPID ? child->stream + 1 : inherited;
	child->pid_space.children = child->pid_space.own;
}

void identify_thread(struct context *context, u32 first)
{
	struct slot *slot = context->slot;
	slot->pid_space.inner_tid = context->tid;
	if (LIKELY(!slot->pid_space.own)) {
		slot->pid = context->pid;
		slot->tid = context->tid;
		return;
	}
	i64 token = request(context, REQUEST_TOKEN, 0, 0, 0);
	u64 place = LARGE_WINDOWS + context->region * PAGE_BYTES; /* used by no other thread */
	if (token < 0 || sys3(NR_shmat, token, place, 0) != (i64)place ||
		request(context, REQUEST_IDENTITY, context->tid, 0, 0) < 0)
		fail("the supervisor cannot find this process, which is in a PID namespace of its "
		     "own");
	sys1(NR_shmdt, place);
	if (first)
		signals_apply(context);
}

u32 may_have_ipc_namespace(u64 flags)
{
	struct {
		u32 version;
		i32 pid;
	} head = {0x20080522 /* _LINUX_CAPABILITY_VERSION_3 */, 0};
	struct {
		u32 effective, permitted, inheritable;
	} sets[2];
	if (!(flags & CLONE_NEWIPC) || flags & CLONE_NEWUSER)
		return 1;
	return sys2(NR_capget, &head, sets) == 0 && sets[0].effective >> CAP_SYS_ADMIN & 1;
}

static void note_pid_space(struct call *call, u64 flags, u32 how)
{
	struct slot *slot = call->context->slot;
	if (executes() && call->result == 0 && flags & CLONE_NEWPID)
		slot->pid_space.children = how | slot->stream;
}

static u32 enter(struct call *call, u64 types, u32 how)
{
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	note_pid_space(call, types, how);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_unshare(struct call *call)
{
	u64 flags = call->arguments[0];
	call->actual[0] = flags & ~CLONE_NEWIPC;
	if (flags & CLONE_FILES)
		call->context->process->mixed_descriptors = 1;
	if (answers()) /* the privileges of the user who replays do not matter */
		return enter(call, flags, SPACE_UNSHARED);
	return may_have_ipc_namespace(flags) ? enter(call, flags, SPACE_UNSHARED)
					     : answer_call(call, -EPERM);
}

static u32 is_process(u64 descriptor)
{
	return sys4(NR_pidfd_send_signal, descriptor, 0, NULL, 0) != -EBADF;
}

u32 handle_setns(struct call *call)
{
	u64 descriptor = call->arguments[0], type = call->arguments[1];
	if (answers()) /* replay has no such descriptor */
		return enter(call, type, SPACE_ENTERED);
	i64 kind = sys2(NR_ioctl, descriptor, NS_GET_NSTYPE);
	u64 types = kind > 0 ? (u64)kind : type;
	if (types == CLONE_NEWIPC && (kind > 0 ? !type || type == types : is_process(descriptor)))
		return answer_call(call, may_have_ipc_namespace(CLONE_NEWIPC) ? 0 : -EPERM);
	if (kind <= 0 && types != CLONE_NEWIPC) /* a process; `type` names its namespaces */
		call->actual[1] = types & ~CLONE_NEWIPC;
	return enter(call, types, SPACE_ENTERED);
}
