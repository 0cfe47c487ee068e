/* Socket options whose value is more than the bytes that the caller names. Private stack. */
#include "base/state.h"
#include "base/user.h"
#include "calls/plain.h"
#include "mode/call.h"
#include "mode/packet_ring.h"
#include "signals/signal.h"

#define SOL_IP 0
#define SOL_SOCKET 1
#define SOL_TCP 6
#define SOL_IPV6 41
#define SO_GET_FILTER 26
/* IPT_SO_SET_REPLACE, IP6T_SO_SET_REPLACE, ARPT_SO_SET_REPLACE, EBT_SO_SET_ENTRIES. */
#define SET_REPLACE 64
#define ARP_SET_REPLACE 96
#define BRIDGE_SET_ENTRIES 128
#define SOL_PACKET 263
#define PACKET_RX_RING 5
#define PACKET_TX_RING 13
#define TCP_ZEROCOPY_RECEIVE 35
#define ENOPROTOOPT 92
#define FILTER_STEP_BYTES 8
#define COUNTER_BYTES 16

/* An option that replaces a table of packet filters: where in its value the number of the old
 * table's counters is, and the address to which the kernel writes them. */
struct replacement {
	u32 level, option;
	u8 count_at, address_at;
};
static const struct replacement replacements[] = {
	{SOL_IP, SET_REPLACE, 84, 88},	       /* struct ipt_replace */
	{SOL_IPV6, SET_REPLACE, 84, 88},       /* struct ip6t_replace */
	{SOL_IP, ARP_SET_REPLACE, 68, 72},     /* struct arpt_replace */
	{SOL_IP, BRIDGE_SET_ENTRIES, 96, 104}, /* struct ebt_replace */
};

/* The length of SO_GET_FILTER is a number of steps. */
u32 handle_getsockopt(struct call *call)
{
	const u64 *a = call->arguments;
	u32 steps = 0;
	if ((u32)a[1] == SOL_TCP && (u32)a[2] == TCP_ZEROCOPY_RECEIVE && repeatable())
		/* The kernel writes to addresses in the value. Programs fall back to `read`. */
		return answer_call(call, -ENOPROTOOPT);
	if ((u32)a[1] != SOL_SOCKET || (u32)a[2] != SO_GET_FILTER)
		return handle_plainly(call);
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	if (copy_user(&steps, (const void *)a[4], sizeof steps) || !a[3])
		steps = 0;
	struct extra_item filter = {
		3, ITEM_OUTPUT, a[3], (const void *)a[3], steps * FILTER_STEP_BYTES};
	call_finish(call, &filter, logs() && call->result == 0 && steps);
	return leave_with_result(call);
}

static const struct replacement *replacement_of(const u64 *a)
{
	for (u32 i = 0; i < sizeof replacements / sizeof *replacements; i++)
		if (replacements[i].level == (u32)a[1] && replacements[i].option == (u32)a[2])
			return &replacements[i];
	return NULL;
}

/* Refuses a ring that the kernel reads from, as the runtime would have to watch it. Programs fall
 * back to `sendto`. */
static u32 make_ring(struct call *call)
{
	const u64 *a = call->arguments;
	if ((u32)a[2] == PACKET_TX_RING)
		return answer_call(call, -ENOPROTOOPT);
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	if (logs() && call->result == 0)
		packet_ring_made(call->context->process, (u32)a[0], a[3]);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_setsockopt(struct call *call)
{
	const u64 *a = call->arguments;
	u32 option = (u32)a[2], counters;
	u64 old_counters;
	if ((u32)a[1] == SOL_PACKET && repeatable() &&
		(option == PACKET_RX_RING || option == PACKET_TX_RING))
		return make_ring(call);
	const struct replacement *new = replacement_of(a);
	if (!new || a[4] < new->address_at + sizeof old_counters ||
		copy_user(&counters, (const void *)(a[3] + new->count_at), sizeof counters) ||
		copy_user(
			&old_counters, (const void *)(a[3] + new->address_at), sizeof old_counters))
		return handle_plainly(call);
	return handle_with_output(
		call, 3, old_counters, logs() ? (u64)counters * COUNTER_BYTES : 0);
}
