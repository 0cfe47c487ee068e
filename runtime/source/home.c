/* Threads that take turns often do so on one core. Private stack, while the thread has its turn.
 *
 * Of a domain one thread at a time runs the program's code. Handing over to a thread on the same core is a third of the work of waking one on a core that
 * sleeps, and what the last thread touched is still in the cache. Now and then the kernel may choose another core; where turns are long, it always may.
 *
 * The recorded program sees nothing of it: it is asked in vain where its threads may run, and once it says so itself it is left alone. */
#include "../include/context.h"

#define ROUND 16384UL /* turns; the kernel chooses a core in the first LOOK of them */
#define LOOK 32UL     /* turns from one look at the clock to the next */
#define SHORT_TURN_NS 100000UL /* on the average between two looks: they begin to be on one core, */
#define LONG_TURN_NS 400000UL  /* and leave it */
#define MASK_BYTES sizeof ((struct process *)0)->cores

/* As long as nobody has asked, every thread of the process runs wherever it may. */
static u32 may_choose(struct process *process)
{
	if (!process->core_count) {
		u32 count = 0;
		if (sys3(NR_sched_getaffinity, 0, MASK_BYTES, process->cores) > 0)
			for (u32 bit = 0; bit < 8 * MASK_BYTES; bit++)
				count += process->cores[bit / 64] >> bit % 64 & 1;
		process->core_count = count ? count : 1;
	}
	return process->core_count > 1;
}

static void allow(u32 tid, const u64 *cores) { sys3(NR_sched_setaffinity, tid, MASK_BYTES, cores); }

static void move(struct context *context, u32 home)
{
	struct process *process = context->process;
	u64 mask[MASK_BYTES / 8] = { 0 };
	u32 word = (home - 1) / 64;
	if (home && may_choose(process) && word < MASK_BYTES / 8)
		mask[word] = process->cores[word] & 1UL << (home - 1) % 64;
	allow(0, home && mask[word] ? mask : process->cores);
	context->home = home;
}

static void look(struct process *process, struct domain *domain, u64 place_in_round)
{
	u64 now = now_ns(), spent = now - domain->looked_ns;
	domain->looked_ns = now;
	if (place_in_round == 0 || spent >= LOOK * (domain->home ? LONG_TURN_NS : SHORT_TURN_NS) || !may_choose(process))
		domain->home = 0;
	else if (!domain->home)
		domain->home = this_core() + 1;
}

static u32 is_placed(const struct context *context) { return context->process->is_placed | HEADER->is_on_one_core; }

void home_follow(struct context *context, struct domain *domain, u64 turn)
{
	if (UNLIKELY(is_placed(context)))
		return;
	if (turn % LOOK == 0)
		look(context->process, domain, turn % ROUND);
	if (UNLIKELY(context->home != domain->home))
		move(context, domain->home);
}

void home_leave(struct context *context)
{
	if (context->home && !is_placed(context))
		move(context, 0);
}

/* ---- record: what the program says, and asks, about where its threads run ---- */

u32 handle_sched_setaffinity(struct call *call)
{
	struct context *context = call->context;
	struct process *process = context->process;
	u32 count = (u32)minimum(HEADER->slots_used, MAX_SLOTS), was_placed = process->is_placed;
	process->is_placed = recording();
	for (u32 i = 0; recording() && !was_placed && process->core_count && i < count; i++) {
		const struct slot *slot = &HEADER->slots[i];
		if (slot->pid == context->slot->pid && __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SLOT_LIVE)
			allow(slot->pid_space ? slot->inner_tid : slot->tid, process->cores);
	}
	return handle_plainly(call);
}

/* Another thread that is asked about is bound again when its domain has moved. */
u32 handle_sched_getaffinity(struct call *call)
{
	struct context *context = call->context;
	const struct process *process = context->process;
	u32 asked = (u32)call->arguments[0];
	if (recording() && process->core_count && !process->is_placed) {
		if (!asked || asked == context->tid)
			home_leave(context);
		else if (sys3(NR_tgkill, context->pid, asked, 0) == 0)
			allow(asked, process->cores);
	}
	return handle_plainly(call);
}
