/* Keeps threads that take turns often on one core. Private stack, while the thread has its turn.
 *
 * One thread of a domain at a time runs the program's code. Handing over to a thread on the same
 * core is a third of the work of waking one on a sleeping core, and the data of the last thread is
 * still in the cache. From time to time the kernel may choose another core; while turns are very
 * long, it always may. If other processes compute on the core, the supervisor chooses another one
 * (crates/record/src/homes.rs).
 *
 * The recorded program does not see this: queries get its own affinity, and once it sets one
 * itself, its threads are left alone. */
#include "order/home.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "order/policy.h"

/* After this time the kernel chooses a core, for LOOK turns. */
#define ROUND_NS 1000000000UL
/* Turns from one look at the clock to the next. */
#define LOOK 32UL
/* Threads move to one core if their turns between two looks are this short on average. */
#define SHORT_TURN_NS 10000000UL
/* The same where the supervisor does not move them away from other work. */
#define SHORT_UNWATCHED_NS 100000UL
/* They leave the core when turns are this many times as long. */
#define LONGER 4
#define MASK_BYTES sizeof((struct slot *)0)->affinity.cores

/* Returns whether the thread may run on several cores. Until this is asked, the thread runs on any
 * of its cores. */
static u32 may_choose(struct slot *slot)
{
	if (!slot->affinity.core_count) {
		u32 count = 0;
		if (sys3(NR_sched_getaffinity, 0, MASK_BYTES, slot->affinity.cores) > 0)
			for (u32 bit = 0; bit < 8 * MASK_BYTES; bit++)
				count += slot->affinity.cores[bit / 64] >> bit % 64 & 1;
		slot->affinity.core_count = count ? count : 1;
	}
	return slot->affinity.core_count > 1;
}

static void allow(u32 tid, const u64 *cores) { sys3(NR_sched_setaffinity, tid, MASK_BYTES, cores); }

static void move(struct slot *slot, u32 home)
{
	u64 mask[MASK_BYTES / 8] = {0};
	u32 word = (home - 1) / 64;
	if (home && may_choose(slot) && word < MASK_BYTES / 8)
		mask[word] = slot->affinity.cores[word] & 1UL << (home - 1) % 64;
	allow(0, home && mask[word] ? mask : slot->affinity.cores);
	slot->affinity.home = home;
}

static u64 short_turn_ns(void)
{
	return makes_order() && !HEADER->homes_watched ? SHORT_UNWATCHED_NS : SHORT_TURN_NS;
}

static void look(struct slot *slot, struct domain *domain)
{
	u64 now = now_ns(), spent = now - domain->looked_ns, longest = LOOK * short_turn_ns();
	u32 is_over = now - domain->round_ns >= ROUND_NS;
	domain->looked_ns = now;
	if (is_over)
		domain->round_ns = now;
	if (is_over || spent >= (domain->home ? LONGER * longest : longest) || !may_choose(slot))
		domain->home = 0;
	else if (!domain->home)
		domain->home = this_core() + 1;
}

static u32 is_crowded(const struct domain *domain)
{
	return domain->home &&
	       domain->home == __atomic_load_n(&HEADER->crowded_home, __ATOMIC_ACQUIRE) &&
	       domain->identity == HEADER->crowded_domain;
}

static u32 is_placed(const struct context *context)
{
	return context->process->is_placed | HEADER->is_on_one_core;
}

void home_follow(struct context *context, struct domain *domain, u64 turn)
{
	if (UNLIKELY(is_placed(context)))
		return;
	if (turn % LOOK == 0)
		look(context->slot, domain);
	if (UNLIKELY(is_crowded(domain)))
		domain->home = HEADER->roomy_home;
	if (UNLIKELY(context->slot->affinity.home != domain->home)) {
		context->slot->baton.domain = domain->identity;
		move(context->slot, domain->home);
	}
}

void home_leave(struct context *context)
{
	struct slot *slot = context->slot;
	if (slot->affinity.home && !is_placed(context))
		move(slot, 0);
	slot->affinity.home = slot->affinity.core_count = 0;
}

void home_inherit(const struct slot *parent, struct slot *child)
{
	child->affinity.home = parent->affinity.home;
	child->baton.domain = parent->baton.domain;
	child->affinity.core_count = parent->affinity.core_count;
	memcpy(child->affinity.cores, parent->affinity.cores, MASK_BYTES);
}

/* ---- record: what the program says, and asks, about where its threads run ---- */

/* Frees one thread of the process, or all. Threads that still take turns are bound again later. */
void home_set_free(const struct context *context, u32 only)
{
	u32 count = makes_order() ? slots_used() : 0;
	for (u32 i = 0; i < count; i++) {
		struct slot *slot = &HEADER->slots[i];
		if (!slot->affinity.home || (only && slot->pid_space.inner_tid != only) ||
			!is_of_process(context, slot))
			continue;
		allow(slot->pid_space.inner_tid, slot->affinity.cores);
		slot->affinity.home = 0;
	}
}
