/* Socket options whose value is more than the bytes that the caller names. Private stack. */
#include "base/state.h"
#include "base/user.h"
#include "calls/plain.h"
#include "mode/call.h"
#include "mode/packet_ring.h"
#include "signals/signal.h"

#define SOL_IP 0
#define SOL_SOCKET 1
#define SOL_IPV6 41
#define SO_GET_FILTER 26
/* IPT_SO_SET_REPLACE, ARPT_SO_SET_REPLACE, IP6T_SO_SET_REPLACE. */
#define SET_REPLACE 64
#define ARP_SET_REPLACE 96
#define SOL_PACKET 263
#define PACKET_RX_RING 5
#define PACKET_TX_RING 13
#define ENOPROTOOPT 92
#define FILTER_STEP_BYTES 8
#define COUNTER_BYTES 16

/* The head of struct ipt_replace. The structures of IPv6 and ARP have the same fields. */
struct replacement {
	u8 name[32];
	u32 valid_hooks, entries, bytes;
	u32 hooks[5], underflows[5];
	u32 counters;
	/* The address where the kernel writes. */
	u64 old_counters;
};
_Static_assert(sizeof(struct replacement) == 96, "struct ipt_replace");

/* The length of SO_GET_FILTER is a number of steps. */
u32 handle_getsockopt(struct call *call)
{
	const u64 *a = call->arguments;
	u32 steps = 0;
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

static u32 replaces_table(const u64 *a)
{
	u32 level = (u32)a[1], option = (u32)a[2];
	return (option == SET_REPLACE && (level == SOL_IP || level == SOL_IPV6)) ||
	       (option == ARP_SET_REPLACE && level == SOL_IP);
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

/* Replacing a table of packet filters writes the old table's counters to the address in the new
 * one. */
u32 handle_setsockopt(struct call *call)
{
	struct replacement head;
	u32 option = (u32)call->arguments[2];
	if ((u32)call->arguments[1] == SOL_PACKET && repeatable() &&
		(option == PACKET_RX_RING || option == PACKET_TX_RING))
		return make_ring(call);
	if (!replaces_table(call->arguments) || call->arguments[4] < sizeof head ||
		copy_user(&head, (const void *)call->arguments[3], sizeof head))
		return handle_plainly(call);
	u64 bytes = logs() ? (u64)head.counters * COUNTER_BYTES : 0;
	return handle_with_output(call, 3, head.old_counters, bytes);
}
