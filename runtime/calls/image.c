/* Recording: images of processes, from which a replay can begin. Private stack.
 *
 * The thread that holds the baton takes an image when it comes to a call. All other threads stand
 * where they have noted how they go on, so no thread is interrupted. The process is copied and goes
 * on. The copy turns its memory into what a replay needs, and waits until the supervisor has read
 * it.
 *
 * Processes that share memory have their images together, as they share one baton. The supervisor
 * reads the others from outside while the thread keeps the baton. */
#include "calls/image.h"
#include "base/rounds.h"
#include "base/sys.h"
#include "base/unreached.h"
#include "base/user.h"
#include "calls/clone.h"
#include "calls/kept_back.h"
#include "gen/numbers.h"
#include "log/request.h"
#include "order/baton.h"
#include "order/policy.h"
#include "signals/signal.h"

#define PR_SET_PDEATHSIG 1
#define PR_SET_CHILD_SUBREAPER 36
#define WALL 0x40000000UL
#define ADOPTED_LOOKS 10000
#define ESRCH 3
/* How often an image of all processes that share memory is tried. */
#define MOST_GROUP_TRIES 1000

/* ---- whether an image is possible ---- */

/* Returns whether another process shares memory with this one, or may. Claimed slots are those of
 * children that are only beginning. */
static u32 has_partners(const struct context *context)
{
	for (u32 i = 0, used = slots_used(); i < used; i++) {
		const struct slot *slot = &HEADER->slots[i];
		u32 state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
		if (slot->pid != context->slot->pid &&
			(state == SLOT_CLAIMED || (state == SLOT_LIVE && slot->ties & TIE_MEMORY)))
			return 1;
	}
	return 0;
}

/* Returns whether this process can have no image now. */
static u32 is_refused(const struct context *context)
{
	const struct process *process = context->process;
	return !logs() || orders_by_sections() || orders_at_random() ||
	       process->seen.hides_memory || HEADER->has_subreaper ||
	       context->slot->pid_space.own || process->seen.packet_rings_shown;
}

/* Contexts of threads from before a fork, or of ended threads, do not belong to this process. */
static u32 is_alive(const struct context *context, const struct context *one)
{
	const struct slot *slot = one->slot;
	return one->self == one && slot && slot->pid == context->slot->pid &&
	       slot->tid == one->tid && slot->state == SLOT_LIVE;
}

/* Returns whether a thread lives in this memory, or is about to, and is not at rest. */
static u32 is_in_the_way(const struct context *context, const struct context *one)
{
	const struct slot *slot = one->slot;
	if (one->self != one || !slot)
		return 0;
	if (one->is_guest && slot->state == SLOT_LIVE && slot->memory_of == context->slot->pid)
		return 1;
	if (slot->state == SLOT_CLAIMED || slot->state == SLOT_DYING)
		return one->thread_alive || one->is_guest;
	return is_alive(context, one) && (!one->goes_on || one->exiting);
}

static u32 is_at_rest(const struct context *context)
{
	const struct process *process = context->process;
	if (process->seen.alone || process->seen.closing || context->exiting)
		return 0;
	if (process->domain && process->domain->merged)
		return 0; /* its turns are about to be those of all that share memory */
	for (u32 i = 0; i < process->region_count; i++)
		if (is_in_the_way(context, context_of(i)))
			return 0;
	return 1;
}

/* ---- the copy ---- */

static void note_thread(struct context *context, struct context *one)
{
	const struct slot *slot = one->slot;
	one->in_image = one == context ? IN_IMAGE_TAKER : IN_IMAGE_YES;
	one->image_stream = slot->stream;
	one->image_filter = slot->filter;
	one->log_offset = slot->producer.head - slot->consumer.base;
	one->slot->producer.stamped = -STAMP_WHOLE; /* the next stamp counts from 0 */
}

static void note_threads(struct context *context)
{
	const struct process *process = context->process;
	for (u32 i = 0; i < process->region_count; i++) {
		struct context *one = context_of(i);
		one->in_image = IN_IMAGE_NOT;
		if (is_alive(context, one))
			note_thread(context, one);
	}
	context->image_console = HEADER->console_sequence;
}

/* In the copy: sets the context's state to what it is when replay comes here. */
static void thread_as_replayed(struct context *one, u64 turn)
{
	u32 is_taker = one->in_image == IN_IMAGE_TAKER;
	one->domain = one->process->domain;
	one->turn = is_taker && one->domain ? turn : 0;
	one->in_section = is_taker && one->domain;
	one->deferred_count = one->held_count = one->mask_held = 0;
	one->temporary_active = 0;
	/* Other threads may have changed what its call reads. */
	one->inputs_verified = !is_taker && one->goes_on == GOES_ON_CALL;
	one->printed = one->caught_call = one->window_mapped = 0;
	one->pause_at = one->told_from = 0;
	memset(one->caught, 0, sizeof one->caught);
	memset(&one->force, 0, sizeof one->force);
	memset(&one->watch, 0, sizeof one->watch);
	one->log = one->log_end = NULL;
	one->passages &= (1L << 56) - 1;
	one->passages_ahead = 0;
	rounds_disarm(one);
	one->counter_traps = COUNTER_UNKNOWN;
	one->dispatched = 0;
	one->in_clock = 0;
}

static void process_as_replayed(struct process *process)
{
	u64 turn = process->private_domain.turn;
	u32 identity = process->private_domain.identity;
	process->private_domain = (struct domain){.identity = identity};
	process->private_domain.completed = turn ? turn - 1 : 0;
	unreached_restore(process);
	process->holder = NULL;
	process->printing = process->children_count = 0;
	process->clocks = 0;
	memset(process->pools, 0, sizeof process->pools);
}

void image_as_replayed(const struct context *context, u64 turn)
{
	struct process *process = context->process;
	for (u32 i = 0; i < process->region_count; i++)
		if (context_of(i)->in_image)
			thread_as_replayed(context_of(i), turn);
	process_as_replayed(process);
}

static u32 is_adopted(void) { return (i32)sys0(NR_getppid) == HEADER->supervisor_pid; }

/* The supervisor ends the copy. Once the copy is the supervisor's child, it also ends with the
 * supervisor. */
static u32 becomes_adopted(void)
{
	u64 nap[2] = {0, 50000};
	for (u32 look = 0; look < ADOPTED_LOOKS; look++) {
		if (is_adopted()) {
			sys2(NR_prctl, PR_SET_PDEATHSIG, 9);
			return is_adopted();
		}
		sys2(NR_nanosleep, nap, NULL);
	}
	return 0;
}

/* The supervisor ends the copy. Of a program that ran already, the supervisor is no ancestor, so it
 * does not adopt the copy; then the copy looks whether the supervisor still lives. */
static void await_end(void) NORETURN;
static void await_end(void)
{
	u64 nap[2] = {0, 100000000};
	while (!is_attached())
		sys0(NR_pause);
	/* Another user's supervisor is there, too: EPERM. */
	while (sys2(NR_kill, (u64)HEADER->supervisor_pid, 0) != -ESRCH)
		sys2(NR_nanosleep, nap, NULL);
	sys1(NR_exit_group, 0);
	__builtin_unreachable();
}

/* `turn`: the one in which the image is taken. */
static void be_the_copy(struct context *context, u64 turn) NORETURN;
static void be_the_copy(struct context *context, u64 turn)
{
	sys3(NR_close_range, 0, ~0U, 0);
	sys0(NR_setsid);
	if (!is_attached() && !becomes_adopted())
		sys1(NR_exit_group, 0);
	image_as_replayed(context, turn);
	context->process->break_end = (u64)sys1(NR_brk, 0);
	__atomic_store_n(&context->in_image, IN_IMAGE_READY, __ATOMIC_RELEASE);
	await_end();
}

/* ---- taking an image ---- */

void image_take(struct context *context)
{
	struct process *process = context->process;
	u32 number = 0;
	u64 turn = process->domain ? process->domain->turn : 0;
	image_keep_registers(context);
	note_threads(context);
	hold_signals(context);
	kept_back_show(process);
	i64 maker = image_copy(&number);
	if (!maker)
		be_the_copy(context, turn);
	kept_back_hide(process);
	if (maker > 0)
		sys4(NR_wait4, (u64)maker, NULL, WALL, NULL);
	if (maker > 0 && number)
		request(context, REQUEST_IMAGE, number, process->seen.program_stream,
			process->seen.program_events);
	if (!context->deferred_count)
		set_kernel_mask(context, context->sigmask);
}

/* Notes calls that make a copy of the process visible to other processes. */
static void look_at_call(struct context *context)
{
	const struct registers *regs = &context->regs;
	if (regs->rax == NR_prctl && (u32)regs->rdi == PR_SET_CHILD_SUBREAPER)
		HEADER->has_subreaper = 1;
}

enum { GROUP_TAKEN, GROUP_NOT_YET, GROUP_NEVER };

/* Asks the supervisor to read all other processes that share memory, once for each image. The
 * thread holds their baton. */
static u32 group_is_taken(struct context *context)
{
	struct header *header = HEADER;
	if (header->group_images == header->images_wanted)
		return GROUP_NEVER;
	u32 is_last = ++header->group_tries == MOST_GROUP_TRIES;
	i64 answer = request(context, REQUEST_GROUP, is_last, 0, 0);
	if (answer == GROUP_NOT_YET && !is_last)
		return GROUP_NOT_YET;
	header->group_tries = 0;
	header->group_images = header->images_wanted;
	return answer == GROUP_TAKEN ? GROUP_TAKEN : GROUP_NEVER;
}

static u32 is_in_group(const struct context *context)
{
	return shares_memory(context->process->domain) && has_partners(context);
}

void image_take_first(struct context *context)
{
	u64 nap[2] = {0, 1000000};
	u32 group = is_in_group(context) ? GROUP_NOT_YET : GROUP_TAKEN;
	/* The others are on their way to where they wait for their turn. */
	while (group == GROUP_NOT_YET && (group = group_is_taken(context)) == GROUP_NOT_YET)
		sys2(NR_nanosleep, nap, NULL);
	if (group == GROUP_TAKEN)
		image_take(context);
}

void image_at_call(struct context *context)
{
	struct process *process = context->process;
	look_at_call(context);
	image_note(context, GOES_ON_CALL);
	if (LIKELY(process->images_seen == HEADER->images_wanted) || context->is_guest)
		return;
	u32 is_possible = !is_refused(context);
	if (is_possible && !is_at_rest(context))
		return; /* try at the next call */
	if (is_possible && is_in_group(context)) {
		u32 group = group_is_taken(context);
		if (group == GROUP_NOT_YET)
			return;
		is_possible = group == GROUP_TAKEN;
	}
	process->images_seen = HEADER->images_wanted;
	if (is_possible)
		image_take(context);
}
