/* Rings of packets, which the kernel fills while the program reads them (PACKET_RX_RING). The
 * program gets private memory in their place. At the end of each call, new packets are copied
 * there, and are an output of the call. So a packet becomes visible only with a call; a program
 * that waits for one polls. Private stack.
 *
 * A ring consists of blocks (TPACKET_V3) or frames. The status of each says who owns it: the kernel
 * hands it over by setting TP_STATUS_USER, and gets it back as 0. */
#include "mode/packet_ring.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "mode/call.h"

/* The kernel's rings, each in this much room. The last quarter of it is the runtime's. */
#define RINGS (RUNTIME_TEXT + 0x4000000000UL)
#define RING_ROOM 0x40000000UL
#define MOST_BYTES (RING_ROOM / 4 * 3)
#define ENOMEM 12
#define SOL_PACKET 263
#define PACKET_VERSION 10
#define STATUS_USER 1u
enum { VERSION_1, VERSION_2, VERSION_3 };
/* The limit of one call. The next call brings the rest. */
#define MOST_COPIED 0x40000u

/* The head of struct tpacket_req3; older versions have these fields alone. */
struct ring_request {
	u32 block_bytes, blocks, frame_bytes, frames;
};

/* A block, or a frame, of a ring. */
struct part {
	u32 *status;
	/* The address where the program has it. */
	u64 shown;
	u32 most, used;
};

static u64 place_of(const struct process *process, const struct packet_ring *ring)
{
	return RINGS + (u64)(ring - process->packet_rings) * RING_ROOM;
}

/* One byte a part: whether the program owns it. */
static u8 *handed(u64 place) { return (u8 *)(place + MOST_BYTES); }

void packet_ring_made(struct process *process, u32 descriptor, u64 request)
{
	struct ring_request wanted;
	u32 version = VERSION_1, length = sizeof version;
	if (copy_user(&wanted, (const void *)request, sizeof wanted))
		return;
	sys5(NR_getsockopt, descriptor, SOL_PACKET, PACKET_VERSION, &version, &length);
	struct packet_ring *free = NULL;
	for (u32 i = 0; i < MAX_PACKET_RINGS; i++) {
		struct packet_ring *ring = &process->packet_rings[i];
		if (ring->is_used && !ring->shown && ring->descriptor == descriptor)
			/* The socket had an earlier ring. */
			ring->is_used = 0;
		if (!ring->is_used && !free)
			free = ring;
	}
	if (!free || !wanted.blocks)
		return;
	*free = (struct packet_ring){.is_used = 1,
		.descriptor = descriptor,
		.version = version,
		.block_bytes = wanted.block_bytes,
		.blocks = wanted.blocks,
		.frame_bytes = wanted.frame_bytes,
		.frames_per_block = version == VERSION_3 || !wanted.frame_bytes
					    ? 1
					    : wanted.block_bytes / wanted.frame_bytes};
}

i64 packet_ring_map(struct process *process, const u64 *a)
{
	for (u32 i = 0; i < MAX_PACKET_RINGS; i++) {
		struct packet_ring *ring = &process->packet_rings[i];
		u64 place = place_of(process, ring), bytes = (u64)ring->block_bytes * ring->blocks,
		    parts = (u64)ring->blocks * ring->frames_per_block;
		if (!ring->is_used || ring->shown || ring->descriptor != (u32)a[4])
			continue;
		if (bytes != a[1] || a[5] || bytes > MOST_BYTES || parts > RING_ROOM - MOST_BYTES)
			return -ENOMEM;
		i64 at = sys6(NR_mmap, place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			a[4], 0);
		if (at < 0)
			return at;
		sys6(NR_mmap, (u64)handed(place), PAGE_CEIL(parts), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, ~0UL, 0);
		i64 shown = sys6(NR_mmap, a[0], a[1], a[2],
			MAP_PRIVATE | MAP_ANONYMOUS | (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)),
			~0UL, 0);
		if (shown < 0 && shown > -4096)
			return shown;
		ring->shown = (u64)shown;
		process->seen.packet_rings_shown++;
		return shown;
	}
	return 0;
}

void packet_ring_unmapped(struct process *process, u64 start, u64 bytes)
{
	for (u32 i = 0; i < MAX_PACKET_RINGS; i++) {
		struct packet_ring *ring = &process->packet_rings[i];
		u64 size = (u64)ring->block_bytes * ring->blocks;
		if (!ring->shown || start >= ring->shown + size || start + bytes <= ring->shown)
			continue;
		sys2(NR_munmap, place_of(process, ring), RING_ROOM);
		ring->shown = ring->is_used = 0;
		process->seen.packet_rings_shown--;
	}
}

/* Finds a part of the ring. A block's descriptor holds the number of bytes used. A frame's header
 * has the packet's offset, of 16 bits, and its size before that. */
static struct part part_of(const struct packet_ring *ring, u64 place, u32 index)
{
	u64 offset = (u64)(index / ring->frames_per_block) * ring->block_bytes +
		     (u64)(index % ring->frames_per_block) * ring->frame_bytes;
	u8 *at = (u8 *)(place + offset);
	struct part part = {(u32 *)at, ring->shown + offset, ring->frame_bytes, 0};
	switch (ring->version) {
	case VERSION_1: part.used = *(u16 *)(at + 16) + *(u32 *)(at + 12); break;
	case VERSION_2: part.used = *(u16 *)(at + 12) + *(u32 *)(at + 8); break;
	default:
		part.status = (u32 *)(at + 8);
		part.most = ring->block_bytes;
		part.used = *(u32 *)(at + 20);
	}
	if (part.used < 64 || part.used > part.most)
		part.used = part.most;
	return part;
}

/* Returns the number of bytes copied; 0: there is nothing to copy. */
static u32 exchange(
	const struct packet_ring *ring, u64 place, u32 index, u32 room, struct extra_item *item)
{
	struct part part = part_of(ring, place, index);
	u64 status_at = part.shown + (u64)part.status - (place + (part.shown - ring->shown));
	u32 status = 0;
	if (handed(place)[index]) {
		if (copy_user(&status, (const void *)status_at, sizeof status) ||
			status & STATUS_USER)
			return 0;
		handed(place)[index] = 0;
		__atomic_store_n(part.status, 0, __ATOMIC_RELEASE);
	}
	if (!(__atomic_load_n(part.status, __ATOMIC_ACQUIRE) & STATUS_USER))
		return 0;
	part = part_of(ring, place, index);
	if (part.used > room ||
		copy_user((void *)part.shown, (const void *)(place + part.shown - ring->shown),
			part.used))
		return 0;
	handed(place)[index] = 1;
	*item = (struct extra_item){
		0, ITEM_OUTPUT, part.shown, (const void *)part.shown, part.used};
	return part.used;
}

u32 packet_rings_exchange(struct process *process, struct extra_item *extra)
{
	u32 count = 0, room = MOST_COPIED;
	for (u32 i = 0; i < MAX_PACKET_RINGS; i++) {
		struct packet_ring *ring = &process->packet_rings[i];
		u64 place = place_of(process, ring);
		u32 parts = ring->shown ? ring->blocks * ring->frames_per_block : 0;
		/* The kernel fills the parts in order. The next call begins with those left over.
		 */
		for (u32 done = 0; done < parts && count < PACKET_RING_ITEMS; done++) {
			u32 index = (ring->next + done) % parts,
			    copied = exchange(ring, place, index, room, &extra[count]);
			room -= copied;
			count += copied != 0;
			if (count == PACKET_RING_ITEMS)
				ring->next = (index + 1) % parts;
		}
	}
	return count;
}
