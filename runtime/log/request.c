/* Asks the supervisor for rare services. Private stack. A request waits for its answer. If the
 * supervisor dies, its guardian ends the thread, or announces that all processes end. */
#include "log/request.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/ring.h"

/* Some hundred microseconds: most answers come sooner, and waking a sleeping thread takes long. */
#define PATIENT_LOOKS 1000

i64 request(struct context *context, u32 kind, u64 a, u64 b, u64 c)
{
	struct slot *slot = context->slot;
	struct header *header = HEADER;
	u32 index = (u32)(slot - header->slots);
	slot->request.arguments[0] = a;
	slot->request.arguments[1] = b;
	slot->request.arguments[2] = c;
	__atomic_store_n(&slot->request.reply, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->request.kind, kind, __ATOMIC_RELEASE);
	u32 position = __atomic_fetch_add(&header->request_doorbell, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&header->request_queue[position % MAX_SLOTS], index + 1, __ATOMIC_RELEASE);
	futex_wake(&header->request_doorbell, 1);
	for (u32 i = 0;
		i < PATIENT_LOOKS && !__atomic_load_n(&slot->request.reply, __ATOMIC_ACQUIRE); i++)
		sys0(NR_sched_yield);
	while (!__atomic_load_n(&slot->request.reply, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&header->stopping, __ATOMIC_ACQUIRE))
			/* No answer will come, and the guardian may not know the process. */
			sys1(NR_exit_group, 125);
		futex_wait(&slot->request.reply, 0, 1000);
	}
	return slot->request.values[0];
}

/* Replay: claims a slot that was never used, or else one whose thread has ended. Few replays need
 * many slots, and each one costs memory. */
static struct slot *claim_unlisted(struct header *header)
{
	u32 used = __atomic_load_n(&header->slots_used, __ATOMIC_ACQUIRE);
	while (used < header->slot_limit)
		if (__atomic_compare_exchange_n(&header->slots_used, &used, used + 1, 0,
			    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			__atomic_store_n(
				&header->slots[used].state, SLOT_CLAIMED, __ATOMIC_RELEASE);
			return &header->slots[used];
		}
	for (u32 i = 0; i < header->slot_limit; i++) {
		struct slot *slot = &header->slots[i];
		u32 exited = SLOT_EXITED;
		if (!__atomic_compare_exchange_n(&slot->state, &exited, SLOT_CLAIMED, 0,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		slot->pid = slot->exec_pending = slot->baton.state = 0;
		slot->baton.never = 0;
		return slot;
	}
	return NULL;
}

/* Claims a slot that the supervisor made ready, with a ring while recording. Waits if none is
 * ready. Returns NULL if the supervisor cannot make room for more, which it knows only while
 * recording. */
struct slot *slot_claim(void)
{
	struct header *header = HEADER;
	u64 top = __atomic_load_n(&header->ready_top, __ATOMIC_ACQUIRE);
	for (;;) {
		u32 index = (u32)top;
		if (!index) {
			struct slot *unlisted = answers() ? claim_unlisted(header) : NULL;
			if (unlisted)
				return unlisted;
			u32 seen = __atomic_load_n(&header->ready_futex, __ATOMIC_ACQUIRE);
			__atomic_store_n(&header->ready_low, READY_WANTED, __ATOMIC_RELEASE);
			ring_drain();
			top = __atomic_load_n(&header->ready_top, __ATOMIC_ACQUIRE);
			if (!(u32)top)
				futex_wait(&header->ready_futex, seen, 100);
			top = __atomic_load_n(&header->ready_top, __ATOMIC_ACQUIRE);
			if (!(u32)top &&
				__atomic_load_n(&header->ready_low, __ATOMIC_ACQUIRE) == READY_NONE)
				return NULL;
			continue;
		}
		struct slot *slot = &header->slots[index - 1];
		u64 next = ((top >> 32) + 1) << 32 |
			   __atomic_load_n(&slot->next_ready, __ATOMIC_RELAXED);
		if (__atomic_compare_exchange_n(&header->ready_top, &top, next, 0, __ATOMIC_ACQ_REL,
			    __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&slot->state, SLOT_CLAIMED, __ATOMIC_RELEASE);
			return slot;
		}
	}
}
