/* Replay: threads that take turns often do so on one core. Private stack, while the thread has its turn.
 *
 * Nothing of a domain runs in parallel at replay, as no thread waits in a system call. Handing over to a thread on the same core is a third of the work
 * of waking one on a core that sleeps, and what the last thread touched is still in the cache. Now and then the kernel may choose another core; where turns are
 * long, it always may. */
#include "../include/context.h"

#define ROUND 1024UL /* turns; the kernel chooses a core in the first LOOK of them */
#define LOOK 32UL    /* turns from one look at the clock to the next */
#define SHORT_TURN_NS 100000UL
#define MASK_BYTES sizeof HEADER->cores

/* Until then every thread may run wherever the replay may. */
static u32 may_choose(void)
{
	if (!__atomic_load_n(&HEADER->core_count, __ATOMIC_ACQUIRE)) {
		u64 mask[MASK_BYTES / 8] = { 0 };
		u32 count = 0;
		if (sys3(NR_sched_getaffinity, 0, sizeof mask, mask) > 0)
			for (u32 bit = 0; bit < 64 * MASK_BYTES / 8; bit++)
				count += mask[bit / 64] >> bit % 64 & 1;
		memcpy(HEADER->cores, mask, sizeof mask);
		__atomic_store_n(&HEADER->core_count, count ? count : 1, __ATOMIC_RELEASE);
	}
	return HEADER->core_count > 1;
}

static void move(struct context *context, u32 home)
{
	u64 mask[MASK_BYTES / 8] = { 0 };
	if (home && home <= 8 * MASK_BYTES)
		mask[(home - 1) / 64] = 1UL << (home - 1) % 64;
	sys3(NR_sched_setaffinity, 0, sizeof mask, home ? mask : HEADER->cores);
	context->home = home;
}

static void look(struct domain *domain, u64 place_in_round)
{
	u64 now = now_ns(), spent = now - domain->looked_ns;
	domain->looked_ns = now;
	if (place_in_round == 0 || spent >= LOOK * SHORT_TURN_NS || !may_choose())
		domain->home = 0;
	else if (!domain->home)
		domain->home = this_core() + 1;
}

void home_follow(struct context *context)
{
	struct domain *domain = context->domain;
	if (context->turn % LOOK == 0)
		look(domain, context->turn % ROUND);
	if (UNLIKELY(context->home != domain->home))
		move(context, domain->home);
}

void home_leave(struct context *context)
{
	if (context->home)
		move(context, 0);
}
