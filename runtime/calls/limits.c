/* Resource limits. Private stack. */
#include "base/addresses.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "mode/call.h"
#include "signals/signal.h"

enum { RLIMIT_STACK = 3, RLIMIT_AS = 9 };

/* The arguments that point to the new limits and to the old ones; 0: none. */
struct pointers {
	u32 fresh, old;
};

static u32 read_limits(const struct call *call, u32 argument, struct limits *limits)
{
	return argument && call->arguments[argument] &&
	       !copy_user(limits, (const void *)call->arguments[argument], sizeof *limits);
}

/* Record: handles the limit of the address space. */
static u32 address_limit(struct call *call, struct pointers pointers)
{
	struct process *process = call->context->process;
	const struct address_limits *known = &process->address_limits;
	struct limits fresh, real, before = {known->soft, known->hard};
	u32 sets = read_limits(call, pointers.fresh, &fresh);
	call_prepare(call);
	if (sets) {
		addresses_allowed(process, &fresh, &real);
		call->actual[pointers.fresh] = (u64)&real;
	}
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	if (call->result == 0 && known->known && pointers.old && call->arguments[pointers.old])
		copy_user((void *)call->arguments[pointers.old], &before, sizeof before);
	if (call->result == 0 && sets)
		process->address_limits =
			(struct address_limits){.soft = fresh.soft, .hard = fresh.hard, .known = 1};
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

/* Repeats the limit of the stack at replay: it decides where the program's stack faults. */
static u32 limit(struct call *call, u64 resource, struct pointers pointers, u32 own)
{
	struct limits fresh;
	if (executes() && own && (u32)resource == RLIMIT_AS)
		return address_limit(call, pointers);
	u32 growth = own && resource == RLIMIT_STACK && read_limits(call, pointers.fresh, &fresh);
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	if (answers() && growth && call->result == 0) {
		struct limits now;
		sys4(NR_prlimit64, 0, RLIMIT_STACK, NULL, &now);
		now.soft = fresh.soft;
		sys4(NR_prlimit64, 0, RLIMIT_STACK, &now, NULL);
	}
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_getrlimit(struct call *call)
{
	return limit(call, call->arguments[0], (struct pointers){.old = 1}, 1);
}

u32 handle_setrlimit(struct call *call)
{
	return limit(call, call->arguments[0], (struct pointers){.fresh = 1}, 1);
}

u32 handle_prlimit64(struct call *call)
{
	u32 own = call->arguments[0] == 0 || (u32)call->arguments[0] == call->context->pid;
	return limit(call, call->arguments[1], (struct pointers){.fresh = 2, .old = 3}, own);
}
