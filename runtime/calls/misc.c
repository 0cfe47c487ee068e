/* Calls that must be checked first because they would reach the supervisor or disable interception.
 * Private stack. */
#include "base/interception.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/unreached.h"
#include "base/user.h"
#include "calls/plain.h"
#include "calls/seccomp.h"
#include "gen/numbers.h"
#include "mode/call.h"
#include "signals/signal.h"

#define EINVAL 22
#define EPERM 1
#define ENOSYS 38
#define EFAULT 14
#define ENODEV 19
#define EOPNOTSUPP 95
#define ESRCH 3

#define READ_IMPLIES_EXEC 0x400000u
#define CAPABILITY_VERSION_1 0x19980330u
#define CAPABILITY_SET_BYTES 12

u32 handle_personality(struct call *call)
{
	call_prepare(call);
	if (executes()) {
		u32 persona = (u32)call->arguments[0];
		if (persona != ~0u && persona & READ_IMPLIES_EXEC)
			expect_unknown_calls(call->context);
		call->result = sys1(NR_personality, persona);
	}
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

/* Refused: the kernel rewrites the area at every preemption. A program that ran before it was
 * recorded has seen its threads succeed, and its C library expects that of all later ones. Their
 * area then stays as it is, which says that the thread has none. */
u32 handle_rseq(struct call *call) { return answer_call(call, is_attached() ? 0 : -ENOSYS); }

/* In the oldest version, which programs still use, the kernel writes one set in place of two. */
u32 handle_capget(struct call *call)
{
	const u64 *a = call->arguments;
	u32 version = 0;
	copy_user(&version, (const void *)a[0], sizeof version);
	if (version != CAPABILITY_VERSION_1)
		return handle_plainly(call);
	call->outputs_by_hand = 1;
	return handle_with_output(call, 1, a[1], a[1] ? CAPABILITY_SET_BYTES : 0);
}

/* ---- signals to groups: the supervisor and its guardian are in the group, but are not part of the
 * program ---- */

#define NEWBORN_NS 100000L
#define MOST_NEWBORN_WAITS 1000u

/* Waits for a process that is being made. It belongs to its maker's group, but its slot has no
 * number yet. `waits`: how many waits are left in all. */
static void await_number(const struct slot *slot, u32 *waits)
{
	const i64 pause[2] = {0, NEWBORN_NS};
	while (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SLOT_CLAIMED && *waits) {
		sys2(NR_nanosleep, pause, NULL);
		--*waits;
	}
}

/* Sends the signal to the other processes of the group. `self`: whether the caller is in the group,
 * too. */
static i64 kill_others(struct context *context, i64 group, u64 number, u32 *self)
{
	i64 result = -ESRCH;
	u32 count = slots_used(), waits = MOST_NEWBORN_WAITS;
	i64 wanted = group == 0 ? sys1(NR_getpgid, 0) : -group;
	u32 space = context->slot->pid_space.own;
	*self = 0;
	for (u32 i = 0; i < count; i++) {
		struct slot *slot = &HEADER->slots[i];
		await_number(slot, &waits);
		if (slot->state != SLOT_LIVE || slot->pid != slot->tid ||
			(space && slot->pid_space.own != space))
			continue;
		u32 number_here = space ? slot->pid_space.inner_tid : slot->pid;
		if (group != -1 && sys1(NR_getpgid, number_here) != wanted)
			continue;
		if (slot->pid == context->slot->pid) {
			*self = group != -1;
			result = 0;
			continue;
		}
		if (sys2(NR_kill, number_here, number) == 0)
			result = 0;
	}
	return result;
}

static u32 kill_group(struct call *call)
{
	struct context *context = call->context;
	i64 group = (i32)call->arguments[0];
	u64 number = call->arguments[1];
	u32 self;
	call_prepare(call);
	call->result = kill_others(context, group, number, &self);
	/* Another process may have made a child meanwhile, in a slot that this loop had passed. */
	if (number == SIGKILL || number == SIGSTOP)
		kill_others(context, group, number, &self);
	call->actual[0] = context->pid;
	if (self && call_execute(call) == CALL_ABORTED)
		return deliver_deferred(context, 1);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

/* Returns whether the kernel may send the signal itself, because the supervisor is not in the
 * group. */
static u32 is_apart(const struct context *context, i64 target)
{
	i64 group = target == 0 ? sys1(NR_getpgid, 0) : -target;
	if (context->slot->pid_space.own)
		return group != 0; /* a group with a number here is not the supervisor's */
	i64 supervisors = sys1(NR_getpgid, HEADER->supervisor_pid);
	return supervisors > 0 && group != supervisors;
}

/* SIGKILL and SIGSTOP to the supervisor's group, and any signal to all processes, are sent to the
 * recorded processes one by one. */
u32 handle_kill(struct call *call)
{
	struct context *context = call->context;
	i64 target = (i32)call->arguments[0];
	u64 number = call->arguments[1];
	if (target == -1 && context->slot->pid_space.own)
		return handle_plainly(call); /* the supervisor is not in that namespace */
	if (answers() ||
		(target != -1 && !(target <= 0 && (number == SIGKILL || number == SIGSTOP))) ||
		(target != -1 && is_apart(context, target)))
		return handle_plainly(call);
	return kill_group(call);
}

/* ---- prctl and arch_prctl ---- */

enum {
	PR_GET_SECCOMP = 21,
	PR_SET_SECCOMP = 22,
	PR_GET_TSC = 25,
	PR_SET_TSC = 26,
	PR_TSC_ENABLE = 1,
	PR_SET_MM = 35,
	PR_SET_MM_MAP_SIZE = 15,
	PR_GET_TID_ADDRESS = 40,
	PR_SET_SYSCALL_USER_DISPATCH = 59,
	PR_SET_MDWE = 65
};

/* The kernel has the address of a word of the runtime, so the program gets the one it set. */
static u32 thread_id_address(struct call *call)
{
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	if (executes() && call->result == 0)
		copy_user((void *)call->arguments[1], &call->context->clear_tid, 8);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

/* Most operations change what /proc shows. One of them returns the size of its structure. */
static u32 change_layout(struct call *call)
{
	u32 tells_size = call->arguments[1] == PR_SET_MM_MAP_SIZE;
	return handle_with_output(call, 2, call->arguments[2], tells_size ? sizeof(u32) : 0);
}

u32 handle_prctl(struct call *call)
{
	switch ((u32)call->arguments[0]) {
	case PR_GET_SECCOMP: return filter_mode(call);
	case PR_SET_SECCOMP: return filter_set(call);
	case PR_SET_SYSCALL_USER_DISPATCH: return answer_call(call, -EINVAL);
	case PR_SET_TSC:
		return answer_call(call, call->arguments[1] == PR_TSC_ENABLE ? 0 : -EINVAL);
	case PR_SET_MDWE:
		/* Afterwards hidden pages could not be made executable again. */
		if (executes())
			unreached_show(call->context);
		break;
	case PR_GET_TID_ADDRESS: return thread_id_address(call);
	case PR_SET_MM: return change_layout(call);
	}
	return handle_plainly(call);
}

enum {
	ARCH_SET_GS = 0x1001,
	ARCH_SET_FS = 0x1002,
	ARCH_GET_GS = 0x1004,
	ARCH_GET_CPUID = 0x1011,
	ARCH_SET_CPUID = 0x1012,
	ARCH_REQ_XCOMP_PERM = 0x1023,
};

/* The runtime uses %gs: for the program its base is always 0. */
static u32 own_gs(struct call *call)
{
	const u64 base = 0;
	call_prepare(call);
	if (executes())
		call->result = 0;
	if (copy_user((void *)call->arguments[1], &base, sizeof base))
		call->result = -EFAULT;
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_arch_prctl(struct call *call)
{
	switch ((u32)call->arguments[0]) {
	case ARCH_SET_FS:
		call_prepare(call);
		if (executes())
			call->result = sys2(NR_arch_prctl, call->arguments[0], call->arguments[1]);
		else if (call->result == 0)
			sys2(NR_arch_prctl, call->arguments[0], call->arguments[1]);
		call_finish(call, NULL, 0);
		return leave_with_result(call);
	case ARCH_SET_GS: return answer_call(call, call->arguments[1] ? -EPERM : 0);
	case ARCH_GET_GS: return own_gs(call);
	case ARCH_GET_CPUID: return answer_call(call, 1);
	case ARCH_SET_CPUID: return answer_call(call, -ENODEV);
	case ARCH_REQ_XCOMP_PERM:
		return answer_call(call, -EOPNOTSUPP); /* signal frames have no room for tiles */
	}
	if ((u32)call->arguments[0] >= 0x5001 && (u32)call->arguments[0] <= 0x5005)
		return answer_call(call, -EINVAL); /* shadow stacks */
	return handle_plainly(call);
}

/* Returns whether a process exists. For kill, numbers that are not positive mean groups. */
static u32 exists(i32 pid) { return pid > 0 && sys2(NR_kill, pid, 0) != -ESRCH; }

/* Copies within the process's own memory are repeated at replay. Writing to another process's
 * memory is refused: that process's recording would lack it. */
static u32 own_memory(struct call *call)
{
	struct context *context = call->context;
	if (!repeatable())
		return handle_plainly(call);
	call_prepare(call);
	if (executes()) {
		if ((u32)call->arguments[0] != context->pid)
			call->result = exists((i32)call->arguments[0]) ? -EPERM : -ESRCH;
		else
			call->result = sys6(call->number, call->arguments[0], call->arguments[1],
				call->arguments[2], call->arguments[3], call->arguments[4],
				call->arguments[5]);
	} else if (call->result > 0)
		sys6(call->number, sys0(NR_getpid), call->arguments[1], call->arguments[2],
			call->arguments[3], call->arguments[4], call->arguments[5]);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_process_vm_writev(struct call *call) { return own_memory(call); }
