/* Stops a thread anywhere in the program's code, while recording. docs/FORCED.md explains the
 * protocol.
 *
 * Context: everything named *_handler and what it calls runs in the master handler, on the
 * alternate stack, with the thread standing in user code; forced_stand and force_* run on the
 * private stack. */
#include "place/forced.h"
#include "base/futex.h"
#include "base/image.h"
#include "base/leave.h"
#include "base/shared.h"
#include "base/signals.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/request.h"
#include "order/chaos.h"
#include "order/forcing.h"
#include "order/policy.h"
#include "order/yield.h"
#include "place/signature.h"
#include "place/stepping.h"

/* The offset within the region's part of FORCE_PLACES, behind the scratch page. */
#define TRACE_OFFSET PAGE_BYTES
/* After this many failed attempts a thread is stopped without a trace: its loop enters the runtime
 * too often, or faults. */
#define MOST_CANCELLED 3
#define ROUNDS_THAT_TELL 3
/* Limits the questions to the supervisor. After a return no place is known to be good, but a step
 * later the supervisor may know some. */
#define MOST_ASKED 8
#define LIBRARIES 0x7f0000000000UL
/* A thread that takes more steps has left its own code for long. */
#define MOST_STEPS 4096
/* Chaos: after this many stops a thread is stopped less and less often, so that long computations
 * make progress. */
#define STOPS_UNTIL_RARER 64
#define ARCH_GET_FS 0x1003

static struct registers *trace_of(struct context *context)
{
	return (struct registers *)(scratch_page(context) + TRACE_OFFSET);
}
#define TRACE_BYTES PAGE_CEIL(FORCE_TRACE_STEPS * sizeof(struct registers))
_Static_assert(TRACE_OFFSET + TRACE_BYTES <= CHANGES_OFFSET, "the trace has room");

void force_settle(struct context *context)
{
	force_idle(context);
	forget_changes(context);
}

/* ---- where a thread may be stopped ---- */

void note_stubs(u64 start, u64 bytes)
{
	struct process *process = PROCESS_INITIAL;
	if (process->first_stub_count < 2)
		process->first_stubs[process->first_stub_count++] =
			(struct address_range){.start = start, .end = start + bytes};
}

u32 in_stubs(const struct process *process, u64 rip)
{
	for (u32 i = 0; i < process->first_stub_count; i++)
		if (rip >= process->first_stubs[i].start && rip < process->first_stubs[i].end)
			return 1;
	for (u32 i = 0; i < process->reservation_count; i++) {
		const struct image_part *stubs =
			&HEADER->files[process->reservations[i].file].stubs;
		u64 start = process->reservations[i].base + stubs->address;
		if (rip >= start && rip < start + stubs->bytes)
			return 1;
	}
	return 0;
}

/* In the runtime and on the way to it a sync point is near. In a section the thread may hold a
 * clock or the baton, which a handler of the program may need. */
static u32 may_stop_at(const struct context *context, u64 rip)
{
	return (rip < RUNTIME_TEXT || rip >= RUNTIME_END) && !context->in_clock &&
	       !(context->sections && context->section_depth) && !in_stubs(context->process, rip);
}

/* Returns whether the thread may stop anywhere, because replay does not look for the place. A trace
 * is not replayed. Code that several threads run in parallel cannot be searched, since replay
 * plants a trap there. Signals are still delivered there, after a while; replay delivers them after
 * the preceding event. */
static u32 stops_anywhere(const struct context *context)
{
	return traces() || runs_in_parallel(context);
}

/* Returns whether a thread waits for the baton. */
static u32 offers_baton(const struct context *context)
{
	const struct domain *domain = context->process->domain;
	return domain && __atomic_load_n(&domain->waiters, __ATOMIC_RELAXED);
}

/* ---- stepping ---- */

static void stop_stepping(struct context *context, struct registers *regs)
{
	struct force *force = &context->force;
	regs->eflags &= ~FLAG_TRAP;
	regs->rip = place_in_program(context, regs->rip);
	context->regs.eflags &= ~FLAG_TRAP;
	force->stage = FORCE_NONE;
	force->finishing = 0;
	sys2(NR_munmap, scratch_page(context), PAGE_BYTES + TRACE_BYTES);
}

/* Something interrupted the steps. Tries again later, if it is still wanted. */
static void cancel(struct context *context, struct registers *regs)
{
	stop_stepping(context, regs);
	context->force.cancelled++;
	forcing_change(context, FORCE_ACTIVE, context->deferred_count ? FORCE_WANTED : FORCE_IDLE);
}

enum step {
	/* The next instruction ends in a trap. */
	STEP_TRAP,
	/* The thread is already before the next instruction. */
	STEP_DONE,
	/* The thread stops here. */
	STEP_STOP
};

static enum step next_step(struct context *context, struct registers *regs)
{
	return bring_over(context, regs) ? STEP_DONE : STEP_TRAP;
}

static enum step stop_here(struct context *context, struct registers *regs, u64 extended)
{
	struct force *force = &context->force;
	stop_stepping(context, regs);
	force->cancelled = 0;
	forcing_change(context, FORCE_ACTIVE, FORCE_IDLE);
	force->vector_hash = forced_vector_hash(extended);
	force->exceptions = forced_exceptions(extended);
	for (u32 i = 0; i < FORCE_VECTORS; i++)
		force->vectors[i] = forced_vector(extended, i);
	return STEP_STOP;
}

enum handled forced_deliver(const struct context *context, const struct registers *regs)
{
	return may_stop_at(context, regs->rip) ? HANDLED_STOP : NOT_HANDLED;
}

/* Asks the supervisor, which decodes the trace. Without an answer any place is good. */
static void ask_supervisor(struct context *context, u32 only_if_spinning)
{
	struct force_answer *answer = &context->force.answer;
	u64 thread_base = 0;
	sys2(NR_arch_prctl, ARCH_GET_FS, &thread_base);
	context->slot->request.arguments[3] = thread_base;
	context->slot->request.arguments[4] = only_if_spinning;
	if (request(context, REQUEST_FORCE, (u64)trace_of(context), context->force.steps,
		    (u64)answer) != 0)
		answer->good_count = answer->written_count = 0;
	answer->good_count = minimum(answer->good_count, FORCE_GOOD);
	answer->written_count = minimum(answer->written_count, FORCE_WRITTEN);
}

static u32 good_place(const struct force_answer *answer, u64 rip)
{
	for (u64 i = 0; i < answer->good_count; i++)
		if (answer->good[i] == rip)
			return 1;
	return !answer->good_count;
}

/* Traces the thread's latest steps. */
static void trace_latest(struct context *context, const struct registers *regs)
{
	struct force *force = &context->force;
	struct registers *trace = trace_of(context);
	if (force->steps == FORCE_TRACE_STEPS) {
		force->steps = FORCE_TRACE_STEPS / 2;
		memmove(trace, trace + FORCE_TRACE_STEPS - force->steps,
			force->steps * sizeof *trace);
	}
	trace[force->steps++] = *regs;
}

/* Chaos: stops the thread after it has executed this many instructions of the program's own code,
 * which lies below the libraries. */
static enum step stepped_after(struct context *context, struct registers *regs, u64 extended)
{
	struct force *force = &context->force;
	trace_latest(context, regs);
	force->total++;
	force->counted += force->anywhere || regs->rip < LIBRARIES;
	if (force->counted < force->stop_after) {
		if (force->total < MOST_STEPS)
			return next_step(context, regs);
		cancel(context, regs);
		return STEP_TRAP;
	}
	if (!force->asked) {
		ask_supervisor(context, 0);
		force->asked = force->total;
	}
	u32 last = force->total >= force->asked + FORCE_SEEK_STEPS;
	if (!last && (!good_place(&force->answer, regs->rip) || repeated_string(regs->rip)))
		return next_step(context, regs);
	if (force->total > force->asked)
		ask_supervisor(context, 0);
	force->stops++;
	return stop_here(context, regs, extended);
}

/* On the way from the runtime to the program: returns 1 while the thread is in the runtime. */
static u32 still_leaving(struct context *context, struct registers *regs)
{
	context->regs.eflags &= ~FLAG_TRAP;
	context->force.leaving = regs->rip >= RUNTIME_TEXT && regs->rip < RUNTIME_END;
	if (context->force.leaving)
		regs->eflags |= FLAG_TRAP;
	return context->force.leaving;
}

/* Returns whether the trace has enough rounds of a short loop to tell whether the thread only
 * waits. If it does, the rest of the trace is not needed. */
static u32 goes_round(struct context *context)
{
	const struct force *force = &context->force;
	const struct registers *trace = trace_of(context), *last = &trace[force->steps - 1];
	u32 rounds = 0;
	/* The first step may have begun in the middle of a run of instructions. */
	if (knows_changes(context) || force->steps < 3 || last->rip != trace[1].rip)
		return 0;
	for (u32 i = 1; i < force->steps; i++)
		rounds += trace[i].rip == last->rip;
	return rounds == ROUNDS_THAT_TELL;
}

static u32 spins(struct context *context)
{
	ask_supervisor(context, 1);
	return context->force.answer.good_count != 0;
}

/* Returns whether the thread goes on to a good place. Those that follow a single step may be on a
 * way that it seldom takes; then the supervisor knows better ones after more steps. */
static u32 seeks_on(struct context *context)
{
	struct force *force = &context->force;
	if (force->sought == FORCE_SEEK_STEPS)
		ask_supervisor(context, 0);
	return force->sought++ < 2 * FORCE_SEEK_STEPS;
}

static enum step stepped_once(struct context *context, struct registers *regs, u64 extended)
{
	struct force *force = &context->force;
	if (force->leaving && still_leaving(context, regs))
		return STEP_TRAP;
	if (!context->in_clock && in_stubs(context->process, regs->rip))
		/* The stub of a passage soon leads back to the program, others into the runtime. */
		return next_step(context, regs);
	if (!may_stop_at(context, regs->rip)) {
		cancel(context, regs);
		return STEP_TRAP;
	}
	if (force->stop_after)
		return stepped_after(context, regs, extended);
	if (force->stage == FORCE_TRACE) {
		trace_of(context)[force->steps++] = *regs;
		if (goes_round(context) && spins(context))
			force->stage = FORCE_SEEK;
		else if (force->steps >= (knows_changes(context) ? 1 : FORCE_TRACE_STEPS)) {
			ask_supervisor(context, 0);
			if (force->answer.good_count || force->steps >= FORCE_TRACE_STEPS ||
				++force->asked >= MOST_ASKED)
				force->stage = FORCE_SEEK;
		}
	} else
		trace_latest(context, regs);
	if (force->stage != FORCE_SEEK || repeated_string(regs->rip) ||
		(!good_place(&force->answer, regs->rip) && seeks_on(context)))
		return next_step(context, regs);
	return stop_here(context, regs, extended);
}

static enum handled stepped(struct context *context, struct registers *regs, u64 extended)
{
	enum step step;
	do
		step = stepped_once(context, regs, extended);
	while (step == STEP_DONE);
	return step == STEP_STOP ? HANDLED_STOP : HANDLED;
}

static u32 prepare(struct context *context)
{
	struct force *force = &context->force;
	u64 at = scratch_page(context);
	if (sys6(NR_mmap, at, PAGE_BYTES + TRACE_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0UL, 0) != (i64)at) {
		forcing_change(context, FORCE_ACTIVE, FORCE_WANTED);
		return 0;
	}
	force->apart = !sys3(NR_mprotect, at, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
	force->began_ns = now_ns();
	force->stage = force->cancelled < MOST_CANCELLED ? FORCE_TRACE : FORCE_SEEK;
	force->steps = force->asked = force->sought = force->finishing = force->after_pushf =
		force->leaving = force->stop_after = force->total = force->counted = 0;
	force->answer.good_count = force->answer.written_count = 0;
	return 1;
}

static enum handled begin(struct context *context, struct registers *regs, u64 extended)
{
	return prepare(context) ? stepped(context, regs, extended) : HANDLED;
}

/* Stops the thread a few instructions after it has returned to its code. Critical sections are
 * short, and most are near a system call, so the supervisor's signals would seldom hit them. */
u32 force_after(struct context *context)
{
	struct force *force = &context->force;
	u32 one_in = HEADER->chaos.step_one_in * (1 + force->stops / STOPS_UNTIL_RARER);
	if (!context->process->domain || context->regs.eflags & FLAG_TRAP ||
		!chaos_one_in(context, one_in) ||
		!forcing_change(context, FORCE_IDLE, FORCE_ACTIVE))
		return LEAVE_FAST;
	if (!prepare(context))
		return LEAVE_FAST;
	force->leaving = 1;
	force->after_pushf = pushes_flags(context->regs.rip);
	force->anywhere = chaos_one_in(context, 4);
	force->stop_after = 1 + (u32)chaos_below(context, 4UL << chaos_below(context, 6));
	context->regs.eflags |= FLAG_TRAP;
	return LEAVE_FULL;
}

/* Translates the address of a fault in a copied instruction to that of the original. */
static void correct_address(struct context *context, struct siginfo *info)
{
	if (info->code > 0)
		info->fields[0] = place_in_program(context, info->fields[0]);
}

/* Returns whether the signal is the supervisor's, by its value. The value is missing if the kernel
 * had no memory for it. */
static u32 is_force(struct context *context, const struct siginfo *info)
{
	u32 state = __atomic_load_n(&context->slot->forcing.state, __ATOMIC_ACQUIRE);
	if (info->number != FORCE_SIGNAL || (state != FORCE_SENDING && state != FORCE_SENT))
		return 0;
	return (info->code == -1 /* SI_QUEUE */ && info->fields[1] == FORCE_VALUE) ||
	       (info->code == 0 && info->fields[0] == 0);
}

enum handled forced_handler(
	struct context *context, struct siginfo *info, struct registers *regs, u64 extended)
{
	struct force *force = &context->force;
	if (force->stage) {
		u32 trace = info->number == SIGTRAP && info->code == TRAP_TRACE;
		u32 finished = info->number == SIGTRAP && force->finishing &&
			       regs->rip == force->finish_trap;
		if (finished) {
			regs->rip = force->finish_next;
			force->finishing = 0;
		} else if (trace) {
			clear_pushed_trap_flag(regs->rsp, force->after_pushf);
			regs->eflags &= ~FLAG_TRAP;
		}
		if (trace || finished)
			return stepped(context, regs, extended);
		correct_address(context, info);
		cancel(context, regs);
	}
	if (!is_force(context, info))
		return NOT_HANDLED;
	if (stops_anywhere(context)) {
		__atomic_store_n(&context->slot->forcing.state, FORCE_WANTED, __ATOMIC_RELEASE);
		enum handled how =
			context->deferred_count ? forced_deliver(context, regs) : HANDLED;
		if (how == NOT_HANDLED)
			return HANDLED; /* at the next sync point */
		__atomic_store_n(&context->slot->forcing.state, FORCE_IDLE, __ATOMIC_RELEASE);
		return how;
	}
	u32 wanted = context->deferred_count || offers_baton(context);
	/* A thread that single-steps itself enters the runtime after each instruction. */
	wanted = wanted && !(regs->eflags & FLAG_TRAP);
	u32 active = wanted && may_stop_at(context, regs->rip) && !observe_changes(context, regs);
	u32 next = active ? FORCE_ACTIVE : context->deferred_count ? FORCE_WANTED : FORCE_IDLE;
	__atomic_store_n(&context->slot->forcing.state, next, __ATOMIC_RELEASE);
	return active ? begin(context, regs, extended) : HANDLED;
}

static void stand_recorded(struct context *context)
{
	u32 gives_baton = offers_baton(context) || (orders_at_random() && context->process->domain);
	log_forced(context, context->deferred_count ? (u16)context->deferred[0].info.number : 0,
		gives_baton ? FORCED_TURN : 0);
	context->slot->baton.stop_us = (u32)((now_ns() - context->force.began_ns) / 1000);
	context->force.stopped = 1;
	image_note(context, GOES_ON_TURN);
	if (gives_baton)
		baton_offer(context);
	context->force.stopped = 0;
	forget_changes(context);
}

static void stand_replayed(struct context *context)
{
	const struct event *event = log_peek(context);
	u8 flags = event->flags;
	log_take(context, EVENT_FORCED, event->number);
	if (flags & FORCED_TURN)
		baton_offer(context);
}

/* Counts a signal at a place that replay does not find. */
static void stand_anywhere(const struct context *context)
{
	u32 number = context->deferred_count ? (u32)context->deferred[0].info.number : 0;
	if (logs() && context->process->actions[number].handler > 1 /* SIG_IGN */)
		__atomic_add_fetch(&HEADER->signals_between, 1, __ATOMIC_RELAXED);
}

void forced_stand(struct context *context)
{
	if (stops_anywhere(context)) {
		stand_anywhere(context);
		return;
	}
	if (logs())
		stand_recorded(context);
	else
		stand_replayed(context);
}
