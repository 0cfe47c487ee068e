/* The program's own seccomp filters. The kernel never gets them, as it would apply them to the
 * runtime's calls. They are kept in the header, where they outlive exec, and run here before every
 * call, in record and replay alike. Private stack.
 *
 * A thread's filters are a chain from the latest to the first. Threads and children share the older
 * part. Filters are never removed. An equal filter after an equal chain is reused, so filters that
 * processes install again and again take room only once. */
#include "calls/seccomp.h"
#include "base/leave.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "calls/filter.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "mode/call.h"
#include "signals/signal.h"

#define EPERM 1
#define ESRCH 3
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EINVAL 22
#define ENOSYS 38
#define EOPNOTSUPP 95
#define MAX_ERRNO 4095u

enum { MODE_STRICT = 1, MODE_FILTER = 2 };
enum { SET_MODE_STRICT = 0, SET_MODE_FILTER = 1, GET_ACTION_AVAIL = 2, GET_NOTIF_SIZES = 3 };
enum { FLAG_TSYNC = 1, FLAG_LOG = 2, FLAG_SPEC_ALLOW = 4, FLAG_TSYNC_ESRCH = 16 };
#define FLAGS_KNOWN (FLAG_TSYNC | FLAG_LOG | FLAG_SPEC_ALLOW | FLAG_TSYNC_ESRCH)
#define KILL_PROCESS 0x80000000u
#define KILL_THREAD 0x00000000u
#define TRAP 0x00030000u
#define ERRNO 0x00050000u
#define USER_NOTIF 0x7fc00000u
#define TRACE 0x7ff00000u
#define LOG 0x7ffc0000u
#define ALLOW 0x7fff0000u
#define ARCHITECTURE 0xc000003eu /* AUDIT_ARCH_X86_64 */
#define PATH_STEPS 32768u	 /* the kernel's limit for a chain; each filter counts four more */
#define FILTER_OVERHEAD 4u
#define CAPABILITY_SYS_ADMIN 21
#define PR_GET_NO_NEW_PRIVS 39

/* ---- before every call ---- */

static u32 ask(const struct context *context, const struct call *call)
{
	const struct header *header = HEADER;
	struct seccomp_data data = {(i32)call->number, ARCHITECTURE, context->regs.rip, {0}};
	memcpy(data.arguments, call->arguments, sizeof data.arguments);
	u32 strictest = ALLOW;
	for (u32 at = context->slot->filter; at; at = header->filters[at - 1].before) {
		u32 answer = filter_run((const struct filter_step *)&header
						->filter_steps[header->filters[at - 1].first_step],
			&data);
		/* The order of the actions, as signed numbers. */
		if ((i32)(answer & 0xffff0000) < (i32)(strictest & 0xffff0000))
			strictest = answer;
	}
	return strictest;
}

static u32 answer_instead(struct call *call, i64 result)
{
	call_prepare(call);
	if (executes())
		call->result = result;
	else if (call->result != result)
		diverge(call->context, WHY_RESULT, (u64)call->result, (u64)result);
	call->outputs_by_hand = 1;
	call_finish(call, NULL, 0);
	call->context->regs.rax = (u64)result;
	return leave(call->context);
}

static u32 send(struct call *call, u32 number, u32 reason, u32 certain)
{
	struct deferred_signal signal = {0};
	signal.info.number = (i32)number;
	if (number == SIGSYS) {
		signal.info.error = (i32)reason;
		signal.info.code = 1; /* SYS_SECCOMP */
		signal.info.fields[0] = call->context->regs.rip;
		signal.info.fields[1] = (u32)call->number | (u64)ARCHITECTURE << 32;
	}
	raise_fault(call->context, &signal, certain);
	return LEAVE_FULL;
}

/* Ends the thread as if by this signal. The process lives on if it has other threads. */
static u32 end_thread(struct call *call, u32 number)
{
	if (call->context->process->thread_count <= 1 || number == SIGKILL)
		return send(call, number, 0, 1);
	call->number = NR_exit;
	call->arguments[0] = number;
	return handle_exit(call);
}

static u32 strict_allows(u64 number)
{
	return number == NR_read || number == NR_write || number == NR_exit ||
	       number == NR_rt_sigreturn;
}

/* Work of the vDSO is not a system call, neither for the kernel nor for the program's filter. */
static u32 of_vdso(const struct context *context)
{
	return context->regs.rip > context->process->vdso_start &&
	       context->regs.rip <= context->process->vdso_end;
}

u32 filter_call(struct call *call, u32 *how)
{
	struct context *context = call->context;
	if (of_vdso(context))
		return 0;
	if (context->slot->filter == FILTER_STRICT) {
		if (strict_allows(call->number))
			return 0;
		*how = end_thread(call, SIGKILL);
		return 1;
	}
	u32 answer = ask(context, call), data = answer & 0xffff;
	switch (answer & 0xffff0000) {
	case ALLOW:
	case LOG: return 0;
	case ERRNO: *how = answer_instead(call, -(i64)minimum(data, MAX_ERRNO)); break;
	case TRACE:
	case USER_NOTIF: *how = answer_instead(call, -ENOSYS); break; /* no tracer or listener */
	case TRAP: *how = send(call, SIGSYS, data, 0); break;
	case KILL_THREAD: *how = end_thread(call, SIGSYS); break;
	default: *how = send(call, SIGSYS, data, 1);
	}
	return 1;
}

/* ---- installing a filter ---- */

/* The chain's length in steps, including the overhead of each filter. */
static u32 path_steps(u32 at)
{
	u32 sum = 0;
	for (; at; at = HEADER->filters[at - 1].before)
		sum += HEADER->filters[at - 1].step_count + FILTER_OVERHEAD;
	return sum;
}

static u32 find_filter(const struct filter_step *steps, u32 count, u32 before)
{
	const struct header *header = HEADER;
	u32 known =
		(u32)minimum(__atomic_load_n(&header->filter_count, __ATOMIC_ACQUIRE), MAX_FILTERS);
	for (u32 i = 0; i < known; i++) {
		const struct filter *filter = &header->filters[i];
		if (__atomic_load_n(&filter->ready, __ATOMIC_ACQUIRE) && filter->before == before &&
			filter->step_count == count &&
			memcmp(&header->filter_steps[filter->first_step], steps,
				count * sizeof *steps) == 0)
			return i + 1;
	}
	return 0;
}

/* Returns 0 if there is no room. Several processes may add filters at once: each takes its own
 * entry. */
static u32 add_filter(const struct filter_step *steps, u32 count, u32 before)
{
	struct header *header = HEADER;
	u32 place = find_filter(steps, count, before);
	if (place)
		return place;
	if (__atomic_load_n(&header->filter_count, __ATOMIC_ACQUIRE) >= MAX_FILTERS ||
		__atomic_load_n(&header->filter_step_count, __ATOMIC_ACQUIRE) + count >
			MAX_FILTER_STEPS)
		return 0;
	u32 first = __atomic_fetch_add(&header->filter_step_count, count, __ATOMIC_ACQ_REL);
	u32 index = __atomic_fetch_add(&header->filter_count, 1, __ATOMIC_ACQ_REL);
	if (index >= MAX_FILTERS || first > MAX_FILTER_STEPS - count)
		return 0;
	struct filter *filter = &header->filters[index];
	memcpy(&header->filter_steps[first], steps, count * sizeof *steps);
	filter->before = before;
	filter->first_step = first;
	filter->step_count = count;
	__atomic_store_n(&filter->ready, 1, __ATOMIC_RELEASE);
	return index + 1;
}

static u32 may_install(void)
{
	u32 head[2] = {0x20080522 /* _LINUX_CAPABILITY_VERSION_3 */, 0}, sets[6] = {0};
	if (sys6(NR_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0) == 1)
		return 1;
	return sys2(NR_capget, head, sets) == 0 && sets[0] >> CAPABILITY_SYS_ADMIN & 1;
}

static u32 is_older(u32 chain, u32 wanted)
{
	while (chain && chain != wanted)
		chain = HEADER->filters[chain - 1].before;
	return chain == wanted;
}

/* Gives all threads of the process the filter. With `check`, only returns the number of a thread
 * whose filters differ from its siblings', if there is one. */
static i64 spread(struct context *context, u32 from, u32 to, u32 check)
{
	u32 used = slots_used();
	for (u32 i = 0; i < used; i++) {
		struct slot *slot = &HEADER->slots[i];
		if (!is_sibling(context, slot))
			continue;
		if (!check)
			slot->filter = to;
		else if (slot->filter == FILTER_STRICT || !is_older(from, slot->filter))
			return slot->pid_space.inner_tid;
	}
	return 0;
}

struct program {
	u16 count;
	u16 padding[3];
	u64 steps;
};

static i64 read_filter(u64 address, u64 flags, struct filter_step *steps, u32 *count)
{
	struct program program;
	if (flags & ~(u64)FLAGS_KNOWN)
		/* The unknown flags include that of a listener: another process that decides about
		 * the calls. */
		return -EINVAL;
	if (copy_user(&program, (const void *)address, sizeof program))
		return -EFAULT;
	if (program.count == 0 || program.count > FILTER_MOST_STEPS)
		return -EINVAL;
	if (executes() && !may_install())
		return -EACCES;
	if (copy_user(steps, (const void *)program.steps, program.count * sizeof *steps))
		return -EFAULT;
	*count = program.count;
	return filter_is_valid(steps, program.count) ? 0 : -EINVAL;
}

/* Installs a filter in the kernel that allows everything. The kernel alone decides what /proc
 * shows, and sets no_new_privs in threads that get a filter by TSYNC. */
static void show_filter(u64 flags)
{
	const struct filter_step allow = {.code = 0x06 /* BPF_RET | BPF_K */, .k = ALLOW};
	const struct program program = {.count = 1, .steps = (u64)&allow};
	sys3(NR_seccomp, SET_MODE_FILTER, flags, &program);
}

/* The error with which the kernel would refuse a filter of this many steps. */
static i64 refusal(struct context *context, u64 flags, u32 count)
{
	u32 before = context->slot->filter;
	i64 other = flags & FLAG_TSYNC ? spread(context, before, 0, 1) : 0;
	if (other)
		return flags & FLAG_TSYNC_ESRCH ? -ESRCH : other;
	return path_steps(before) + count + FILTER_OVERHEAD > PATH_STEPS ? -ENOMEM : 0;
}

static u32 set_filter(struct call *call, u64 flags, u64 address)
{
	struct context *context = call->context;
	struct filter_step steps[FILTER_MOST_STEPS];
	u32 count = 0, before = context->slot->filter;
	i64 result = read_filter(address, flags, steps, &count);
	if (executes() && result == 0)
		result = refusal(context, flags, count);
	call_prepare(call);
	if (answers())
		/* The log alone knows whether the program may install a filter, and which thread is
		 * named. */
		result = call->result;
	if (result == 0) {
		u32 fresh = count ? add_filter(steps, count, before) : 0;
		if (!fresh && answers())
			diverge(context, WHY_RESULT, 0, ENOMEM);
		if (fresh && executes())
			show_filter(flags);
		if (fresh && flags & FLAG_TSYNC)
			spread(context, before, fresh, 0);
		if (fresh)
			context->slot->filter = fresh;
		else
			result = -ENOMEM;
	}
	call->result = result;
	call_finish(call, NULL, 0);
	context->regs.rax = (u64)result;
	return leave(context);
}

static u32 set_strict(struct call *call)
{
	struct context *context = call->context;
	if (context->slot->filter)
		return answer_call(call, -EINVAL); /* one mode at a time */
	context->slot->filter = FILTER_STRICT;
	return answer_call(call, 0);
}

static u32 action_known(struct call *call)
{
	u32 action = 0;
	if (call->arguments[1])
		return answer_call(call, -EINVAL);
	if (copy_user(&action, (const void *)call->arguments[2], sizeof action))
		return answer_call(call, -EFAULT);
	switch (action) {
	case KILL_PROCESS:
	case KILL_THREAD:
	case TRAP:
	case ERRNO:
	case TRACE:
	case LOG:
	case ALLOW: return answer_call(call, 0);
	}
	return answer_call(call, -EOPNOTSUPP);
}

/* ---- the calls ---- */

u32 handle_seccomp(struct call *call)
{
	switch ((u32)call->arguments[0]) {
	case SET_MODE_STRICT:
		return call->arguments[1] || call->arguments[2] ? answer_call(call, -EINVAL)
								: set_strict(call);
	case SET_MODE_FILTER: return set_filter(call, (u32)call->arguments[1], call->arguments[2]);
	case GET_ACTION_AVAIL: return action_known(call);
	}
	return answer_call(call, -EINVAL);
}

u32 filter_set(struct call *call)
{
	switch (call->arguments[1]) {
	case MODE_STRICT: return set_strict(call);
	case MODE_FILTER: return set_filter(call, 0, call->arguments[2]);
	}
	return answer_call(call, -EINVAL);
}

u32 filter_mode(struct call *call)
{
	return answer_call(call, call->context->slot->filter ? MODE_FILTER : 0);
}
