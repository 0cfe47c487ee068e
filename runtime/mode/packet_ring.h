/* What packet_ring.c offers. */
#ifndef RETAKE_MODE_PACKET_RING_H
#define RETAKE_MODE_PACKET_RING_H
#include "base/state.h"

struct call;
struct extra_item;

/* The kernel is to fill a ring for this socket. `request`: struct tpacket_req, or tpacket_req3. */
void packet_ring_made(struct process *process, u32 descriptor, u64 request);
/* The program maps a socket's ring. Returns 0 if the socket has none. */
i64 packet_ring_map(struct process *process, const u64 *arguments);
void packet_ring_unmapped(struct process *process, u64 start, u64 bytes);
/* Called after a call that may have waited for packets. Returns finished parts to the kernel, and
 * new ones to the program. Returns the number of items added, at most PACKET_RING_ITEMS. */
#define PACKET_RING_ITEMS 16u
u32 packet_rings_exchange(struct process *process, struct extra_item *extra);

#endif
