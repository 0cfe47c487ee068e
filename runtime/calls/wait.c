/* Replay: a process that waited for a child waits for it again. Private stack.
 *
 * Replay would be correct without this, as the log has what wait returns. But a script that starts
 * a thousand programs one after the other would start them all at once and leave a thousand
 * zombies. A child's last event came before its parent's wait ended, so the wait also ends at
 * replay. A debugger, which may stop a process for any time, is not waited for. */
#include "calls/wait.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "calls/plain.h"
#include "gen/numbers.h"
#include "mode/call.h"

#define CLONE_THREAD 0x10000UL
#define CLONE_PARENT 0x8000UL
#define WNOWAIT 0x01000000UL
#define EINTR 4

enum { CLD_EXITED = 1 };

void child_note(struct process *process, u64 flags, u32 recorded, u32 real)
{
	if (executes() || is_debugged() || flags & (CLONE_THREAD | CLONE_PARENT))
		return;
	if (process->children_count == MAX_CHILDREN) /* no wait took the oldest */
		memmove(&process->children[0], &process->children[1],
			--process->children_count * sizeof process->children[0]);
	process->children[process->children_count++] = (struct child){recorded, real};
}

static void await(struct context *context, u32 recorded)
{
	struct process *process = context->process;
	for (u32 i = 0; i < process->children_count; i++) {
		if (process->children[i].recorded != recorded)
			continue;
		u32 real = process->children[i].real;
		process->children[i] = process->children[--process->children_count];
		/* Excludes this thread when the supervisor checks whether any thread can still
		 * print. */
		context->slot->console.ticket = ~0UL;
		context->slot->console.process = real;
		__atomic_store_n(&context->slot->console.waiting, 1, __ATOMIC_RELEASE);
		while (sys4(NR_wait4, real, NULL, 0, NULL) == -EINTR)
			;
		__atomic_store_n(&context->slot->console.waiting, 0, __ATOMIC_RELEASE);
		context->slot->console.process = 0;
		return;
	}
}

/* Waits only for children that ended by themselves. A thread of a killed process may compute on at
 * replay, as nothing stops it where it was killed. */
u32 handle_wait4(struct call *call)
{
	u32 status = 1;
	u32 how = handle_plainly(call);
	if (answers() && call->result > 0 && call->arguments[1] &&
		!copy_user(&status, (const void *)call->arguments[1], sizeof status) &&
		!(status & 0x7f))
		await(call->context, (u32)call->result);
	return how;
}

u32 handle_waitid(struct call *call)
{
	struct {
		i32 number, error, code, padding;
		u32 pid;
	} info;
	u32 how = handle_plainly(call);
	if (answers() && call->result == 0 && call->arguments[2] &&
		!(call->arguments[3] & WNOWAIT) &&
		!copy_user(&info, (const void *)call->arguments[2], sizeof info) &&
		info.code == CLD_EXITED)
		await(call->context, info.pid);
	return how;
}
