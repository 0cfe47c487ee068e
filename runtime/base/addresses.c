/* The limit of the program's address space (RLIMIT_AS). Record only. What the runtime maps does not
 * count against the limit, so the program can map as much as it could without the runtime: the
 * kernel's soft limit grows with what the runtime maps, and the kernel's hard limit leaves room for
 * all of it. If the hard limit was set earlier and cannot be raised, the program has less.
 *
 * Private stack. */
#include "base/addresses.h"
#include "base/shared.h"
#include "base/sys.h"
#include "gen/numbers.h"

#define RLIMIT_AS 9
/* Limits from here on have no effect. */
#define NO_LIMIT (1UL << 62)
/* More than the runtime ever maps while it records. */
#define MOST_OWN_BYTES (WINDOWS - RUNTIME_TEXT)

u64 addresses_forgotten(void) { return (MAX_SLOTS - HEADER->slot_limit) * sizeof(struct slot); }

static u64 own_bytes(void)
{
	return sizeof(struct header) - addresses_forgotten() + ADDRESS_RESERVE +
	       __atomic_load_n(&PROCESS_INITIAL->own_bytes, __ATOMIC_ACQUIRE);
}

static u64 more(u64 limit, u64 bytes) { return limit < NO_LIMIT ? limit + bytes : limit; }

void addresses_allowed(struct process *process, const struct limits *limits, struct limits *real)
{
	const struct address_limits *before = &process->address_limits;
	struct limits now = {~0UL, ~0UL};
	*real = *limits;
	if (limits->soft > limits->hard)
		/* The kernel refuses this. */
		return;
	sys4(NR_prlimit64, 0, RLIMIT_AS, NULL, &now);
	real->hard = more(limits->hard, MOST_OWN_BYTES);
	/* Keeping or lowering the hard limit needs no privilege. */
	if (limits->hard <= (before->known ? before->hard : now.hard) && real->hard > now.hard)
		real->hard = now.hard;
	real->soft = more(limits->soft, own_bytes());
	if (real->soft > real->hard)
		real->soft = real->hard;
}

void addresses_grow(struct process *process, i64 bytes)
{
	const struct address_limits *known = &process->address_limits;
	struct limits real;
	__atomic_add_fetch(&PROCESS_INITIAL->own_bytes, (u64)bytes, __ATOMIC_ACQ_REL);
	if (LIKELY(!known->known) || known->soft >= NO_LIMIT)
		return;
	addresses_allowed(process, &(struct limits){known->soft, known->hard}, &real);
	sys4(NR_prlimit64, 0, RLIMIT_AS, &real, NULL);
}

void addresses_begin(struct process *process, const struct carried *carried)
{
	process->address_limits = carried->address_limits;
	addresses_grow(process, 0);
}
