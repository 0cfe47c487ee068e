/* Stopping a thread wherever it is in the program's code, while recording. docs/FORCED.md explains
 * the protocol.
 *
 * Context: everything named *_handler and what it calls runs in the master handler, on the
 * alternate stack, with the thread standing in user code; forced_stand and force_* run on the
 * private stack. */
#include "place/forced.h"
#include "base/futex.h"
#include "base/leave.h"
#include "base/shared.h"
#include "base/shared_ranges.h"
#include "base/signals.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/hash.h"
#include "log/items.h"
#include "log/log.h"
#include "log/request.h"
#include "log/ring.h"
#include "order/baton.h"
#include "order/chaos.h"
#include "order/forcing.h"
#include "place/neighbourhood.h"
#include "place/stepping.h"

/* Within the region's part of FORCE_PLACES, behind the scratch page. */
#define TRACE_OFFSET PAGE_BYTES
#define LIST_OFFSET 0x10000UL /* page hashes, then copies of pages that change */
#define COPIES_OFFSET 0x60000UL
#define LIST_END (COPIES_OFFSET + PAGE_LIST_CHANGED * PAGE_BYTES)
#define STACK_WORDS_BELOW 16
#define STACK_WORDS 400
#define AREAS_IN_WORDS 48 /* of the areas the rest is compared by hash, which no stub can */
#define AREA_WORDS 8
#define CHANGED_WORDS 92
#define CHEAP_SCAN_NS 4000000UL
#define FRAME_WORDS_BELOW 16
#define FRAME_WORDS 20
/* Then a thread is stopped without a trace: its loop enters the runtime too often, or faults. */
#define MOST_CANCELLED 3
#define ROUNDS_THAT_TELL 3
/* A return says nothing about what comes next: a step later the supervisor may know good places. */
#define MOST_ASKED 8
#define LIBRARIES 0x7f0000000000UL
#define MOST_STEPS 4096 /* then a thread has left its own code for long */
/* Chaos: so that a thread that runs long gets on, it is stopped ever more seldom. */
#define STOPS_UNTIL_RARER 64
#define ARCH_GET_FS 0x1003
#define MXCSR_OFFSET 24
#define EXCEPTION_FLAGS 0x3fU

static struct registers *trace_of(struct context *context)
{
	return (struct registers *)(scratch_page(context) + TRACE_OFFSET);
}
#define TRACE_BYTES PAGE_CEIL(FORCE_TRACE_STEPS * sizeof(struct registers))
_Static_assert(TRACE_OFFSET + TRACE_BYTES <= LIST_OFFSET, "the trace has room");

/* ---- which memory changes ----
 *
 * The memory hash tells visits of a place apart that nothing else does, but at replay it is far too
 * slow to be compared at each of them. So the words are found that change from round to round,
 * whatever the loop is: page hashes at one moment, copies of the pages that have changed at a
 * second, and at the third, the stop itself, the words that differ from the copies. */

_Static_assert(LIST_OFFSET + sizeof(struct page_list) <= COPIES_OFFSET && LIST_END <= FORCE_STRIDE,
	"the lists have room");

static struct page_list *list_of(struct context *context)
{
	return (struct page_list *)(scratch_page(context) + LIST_OFFSET);
}
static u8 *copies_of(struct context *context)
{
	return (u8 *)(scratch_page(context) + COPIES_OFFSET);
}

static void forget_changes(struct context *context)
{
	if (context->force.phase != PHASE_FIRST)
		sys2(NR_munmap, list_of(context), LIST_END - LIST_OFFSET);
	context->force.phase = PHASE_FIRST;
}

/* Where other threads are, the kernel may be writing for them at this moment. In large processes at
 * most a ninth of the time goes into it. */
static u32 may_scan(struct context *context)
{
	const struct force *force = &context->force;
	if (context->process->domain || context->process->thread_count > 1)
		return 0;
	return force->scan_ns < CHEAP_SCAN_NS || now_ns() >= force->scan_allowed_ns;
}

static void scanned(struct context *context, u64 start)
{
	u64 end = now_ns();
	context->force.scan_ns = end - start;
	context->force.scan_allowed_ns = end + 8 * (end - start);
}

/* Whether the copies are of all that changes: then no trace is needed to find it. */
static u32 has_copies(struct context *context)
{
	const struct page_list *list = list_of(context);
	return context->force.phase == PHASE_COPIED && list->changed_count &&
	       list->changed_count < PAGE_LIST_CHANGED;
}

/* Stops in passing; 0: there is nothing more to learn. */
static u32 observe(struct context *context, const struct registers *regs)
{
	struct force *force = &context->force;
	struct page_list *list = list_of(context);
	u64 start = now_ns();
	context->regs = *regs;
	if (force->phase == PHASE_FIRST && may_scan(context) && force->scan_ns < CHEAP_SCAN_NS) {
		if (sys6(NR_mmap, (u64)list, LIST_END - LIST_OFFSET, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0UL, 0) != (i64)list)
			return 0;
		force->phase = PHASE_LISTED;
		memory_list(context, list);
		scanned(context, start);
		return list->count <= PAGE_LIST_CAPACITY;
	}
	if (force->phase != PHASE_LISTED)
		return 0;
	force->phase = PHASE_COPIED;
	if (list->count > PAGE_LIST_CAPACITY)
		return 0;
	memory_list(context, list);
	scanned(context, start);
	for (u64 i = 0; i < list->changed_count; i++)
		copy_user(copies_of(context) + i * PAGE_BYTES, (const void *)list->changed[i],
			PAGE_BYTES);
	return 1;
}

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

/* In the runtime and on the way to it a sync point is near. */
static u32 may_stop_at(const struct context *context, u64 rip)
{
	return (rip < RUNTIME_TEXT || rip >= RUNTIME_END) && !context->in_clock &&
	       !in_stubs(context->process, rip);
}

/* Places that other threads pass at the same time are not looked for: replay plants things there.
 * Signals are delivered all the same, after a while: replay delivers them behind the event before.
 */
static u32 is_parallel(const struct context *context)
{
	return sync_policy() && domain_of(context);
}

/* Whether stopping it would do anything: the baton is wanted, or signals wait. */
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

/* Something came in between: later perhaps. */
static void cancel(struct context *context, struct registers *regs)
{
	stop_stepping(context, regs);
	context->force.cancelled++;
	forcing_change(context, FORCE_ACTIVE, context->deferred_count ? FORCE_WANTED : FORCE_IDLE);
}

enum step {
	STEP_TRAP, /* the next one ends in a trap */
	STEP_DONE, /* the thread is before the next instruction already */
	STEP_STOP  /* it is to be stopped here */
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

/* The supervisor decodes what was traced. Without an answer any place will do. */
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

/* Chaos: what the thread did last is traced; words that a longer loop writes are the supervisor's
 * to find at other stops. */
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

/* Chaos: so many instructions of the program's own code, which lies below the libraries, are
 * executed before the thread is stopped. */
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

/* On the way from the runtime to the program. 1: still there. */
static u32 still_leaving(struct context *context, struct registers *regs)
{
	context->regs.eflags &= ~FLAG_TRAP;
	context->force.leaving = regs->rip >= RUNTIME_TEXT && regs->rip < RUNTIME_END;
	if (context->force.leaving)
		regs->eflags |= FLAG_TRAP;
	return context->force.leaving;
}

/* Whether the trace has enough rounds of a short loop to tell whether the thread only waits: then
 * it is not worth the rest of the trace. */
static u32 goes_round(struct context *context)
{
	const struct force *force = &context->force;
	const struct registers *trace = trace_of(context), *last = &trace[force->steps - 1];
	u32 rounds = 0;
	/* The first step may have begun within what is else one. */
	if (has_copies(context) || force->steps < 3 || last->rip != trace[1].rip)
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

static enum step stepped_once(struct context *context, struct registers *regs, u64 extended)
{
	struct force *force = &context->force;
	if (force->leaving && still_leaving(context, regs))
		return STEP_TRAP;
	if (!context->in_clock && in_stubs(context->process, regs->rip))
		/* That of a passage leads back to the program soon, others into the runtime. */
		return next_step(context, regs);
	if (!may_stop_at(context, regs->rip)) {
		cancel(context, regs);
		return STEP_TRAP;
	}
	if (force->stop_after)
		return stepped_after(context, regs, extended);
	if (force->stage == FORCE_TRACE) {
		trace_of(context)[force->steps++] = *regs;
		if (goes_round(context) && spins(context)) {
			force->stage = FORCE_SEEK;
			force->steps = 0;
		} else if (force->steps >= (has_copies(context) ? 1 : FORCE_TRACE_STEPS)) {
			ask_supervisor(context, 0);
			if (force->answer.good_count || force->steps >= FORCE_TRACE_STEPS ||
				++force->asked >= MOST_ASKED) {
				force->stage = FORCE_SEEK;
				force->steps = 0;
			}
		}
	}
	if (force->stage != FORCE_SEEK || repeated_string(regs->rip) ||
		(!good_place(&force->answer, regs->rip) && force->steps++ < FORCE_SEEK_STEPS))
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
	force->steps = force->asked = force->finishing = force->after_pushf = force->leaving =
		force->stop_after = force->total = force->counted = 0;
	force->answer.good_count = force->answer.written_count = 0;
	return 1;
}

static enum handled begin(struct context *context, struct registers *regs, u64 extended)
{
	return prepare(context) ? stepped(context, regs, extended) : HANDLED;
}

/* Critical sections are short, and most are near a system call: the supervisor's signals would
 * seldom meet them. So the thread is stopped so many instructions after it is back in its code. */
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

/* What an instruction does that runs apart, it does where it stands. */
static void correct_address(struct context *context, struct siginfo *info)
{
	if (info->code > 0)
		info->fields[0] = place_in_program(context, info->fields[0]);
}

/* The supervisor's, by its value; without it when the kernel had no memory to keep it. */
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
	if (tracing() || is_parallel(context)) {
		__atomic_store_n(&context->slot->forcing.state, FORCE_WANTED, __ATOMIC_RELEASE);
		enum handled how =
			context->deferred_count ? forced_deliver(context, regs) : HANDLED;
		if (how == NOT_HANDLED)
			return HANDLED; /* at the next sync point */
		__atomic_store_n(&context->slot->forcing.state, FORCE_IDLE, __ATOMIC_RELEASE);
		return how;
	}
	u32 wanted = context->deferred_count || offers_baton(context);
	/* A thread that steps itself is in the runtime after each instruction. */
	wanted = wanted && !(regs->eflags & FLAG_TRAP);
	u32 active = wanted && may_stop_at(context, regs->rip) && !observe(context, regs);
	u32 next = active ? FORCE_ACTIVE : context->deferred_count ? FORCE_WANTED : FORCE_IDLE;
	__atomic_store_n(&context->slot->forcing.state, next, __ATOMIC_RELEASE);
	return active ? begin(context, regs, extended) : HANDLED;
}

/* ---- the signature ---- */

/* Without what the processor may or may not keep: the last x87 instruction's addresses, the header,
 * and components beyond AVX. */
u64 forced_vector_hash(u64 extended)
{
	u64 area[832 / 8];
	u32 faulted = 0;
	u64 bytes = minimum(HEADER->extended_bytes, sizeof area);
	if (!extended || copy_user(area, (const void *)extended, bytes))
		return 0;
	memset((u8 *)area + 6, 0, 18);
	/* Without its mask, which fills the other half. */
	area[MXCSR_OFFSET / 8] &= (u32)~EXCEPTION_FLAGS;
	memset((u8 *)area + 416, 0, 160);
	return hash_user(area, bytes, &faulted);
}

static u32 mxcsr(u64 extended)
{
	u32 value = 0;
	if (extended)
		copy_user(&value, (const void *)(extended + MXCSR_OFFSET), sizeof value);
	return value;
}

u64 forced_exceptions(u64 extended) { return mxcsr(extended) & EXCEPTION_FLAGS; }

void forced_put_exceptions(u64 extended, u64 exceptions)
{
	u32 value = (mxcsr(extended) & ~EXCEPTION_FLAGS) | (u32)(exceptions & EXCEPTION_FLAGS);
	if (extended)
		copy_user((void *)(extended + MXCSR_OFFSET), &value, sizeof value);
}

u64 forced_vector(u64 extended, u32 index)
{
	u64 value = 0;
	if (extended)
		copy_user(&value, (const void *)(extended + 160 + 16 * index), 8);
	return value;
}

/* Where one word cannot be read, the rest of its page cannot either. */
static u64 add_cells(struct forced_cell *cells, u64 count, u64 from, u64 words)
{
	u64 readable_from = 0;
	for (u64 i = 0; i < words && count < FORCE_CELLS; i++) {
		struct forced_cell cell = {from + 8 * i, 0};
		if (cell.address < readable_from ||
			(cell.address >= RUNTIME_TEXT - 8 && cell.address < RUNTIME_END))
			continue;
		if (copy_user(&cell.value, (const void *)cell.address, 8))
			readable_from = PAGE_FLOOR(cell.address) + PAGE_BYTES;
		else
			cells[count++] = cell;
	}
	return count;
}

static void hash_memory(struct context *context, u64 *hash, u64 *pages)
{
	*hash = *pages = 0;
	if (!may_scan(context))
		return;
	u64 start = now_ns();
	memory_scan(context, hash, pages);
	scanned(context, start);
}

static u64 add_changed(struct context *context, struct forced_cell *cells, u64 count)
{
	const struct page_list *list = list_of(context);
	u64 page[PAGE_BYTES / 8], limit = minimum(FORCE_CELLS, count + CHANGED_WORDS);
	for (u64 i = 0; i < list->changed_count; i++) {
		const u64 *before = (const u64 *)(copies_of(context) + i * PAGE_BYTES);
		if (copy_user(page, (const void *)list->changed[i], PAGE_BYTES))
			continue;
		for (u64 word = 0; word < PAGE_BYTES / 8 && count < limit; word++)
			if (page[word] != before[word])
				cells[count++] = (struct forced_cell){
					list->changed[i] + 8 * word, page[word]};
	}
	return count;
}

static void log_forced(struct context *context, u16 number, u8 flags)
{
	struct {
		struct forced_body body;
		u64 places[FORCE_AREAS + 2 * FORCE_CELLS];
	} event;
	struct forced_body *body = &event.body;
	struct forced_cell cells[FORCE_CELLS];
	struct busy busy;
	const struct force *force = &context->force;
	const struct registers *regs = &context->regs;
	u64 hash, count = 0;
	body->regs = *regs;
	find_busy(context, &busy);
	body->stack_bytes = stack_window(context, &busy);
	body->stack_hash = stack_hash(regs->rsp, body->stack_bytes);
	body->area_count = find_areas(context, &busy, body->stack_bytes, event.places);
	body->area_hash = areas_hash(event.places, body->area_count);
	body->vector_hash = force->vector_hash;
	body->exceptions = force->exceptions;
	memcpy(body->vectors, force->vectors, sizeof body->vectors);
	hash_memory(context, &hash, &body->memory_pages);
	for (u64 i = 0; i < force->answer.written_count; i++)
		if (!shared_overlaps(force->answer.written[i], force->answer.written[i] + 8))
			count = add_cells(cells, count, force->answer.written[i], 1);
	count = add_cells(cells, count, (regs->rsp & ~7UL) - 8 * STACK_WORDS_BELOW,
		minimum(STACK_WORDS, body->stack_bytes / 8));
	u64 frame = (regs->rbp & ~7UL) - 8 * FRAME_WORDS_BELOW;
	count = add_cells(
		cells, count, frame, (own_end(frame, frame + 8 * FRAME_WORDS) - frame) / 8);
	for (u64 i = 0; i < minimum(body->area_count, AREAS_IN_WORDS); i++)
		count = add_cells(cells, count, area_start(event.places[i]), AREA_WORDS);
	if (force->phase == PHASE_COPIED && list_of(context)->count <= PAGE_LIST_CAPACITY)
		count = add_changed(context, cells, count);
	body->cell_count = count;
	memcpy(event.places + body->area_count, cells, count * sizeof cells[0]);
	ring_event(context, EVENT_FORCED, flags, number, (i64)hash, &event,
		sizeof *body + body->area_count * 8 + count * sizeof cells[0]);
}

void forced_stand(struct context *context)
{
	u8 flags = 0;
	if (tracing() || is_parallel(context))
		return;
	if (recording()) {
		flags = offers_baton(context) || (chaos() && context->process->domain) ? FORCED_TURN
										       : 0;
		log_forced(context,
			context->deferred_count ? (u16)context->deferred[0].info.number : 0, flags);
		context->slot->baton.stop_us = (u32)((now_ns() - context->force.began_ns) / 1000);
	} else {
		const struct event *event = log_peek(context);
		flags = event->flags;
		log_take(context, EVENT_FORCED, event->number);
	}
	context->force.stopped = recording();
	if (flags & FORCED_TURN)
		baton_offer(context);
	context->force.stopped = 0;
	if (recording())
		forget_changes(context);
}
