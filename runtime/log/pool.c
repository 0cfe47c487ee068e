/* Segments that each hold the rings of many threads: record only. Private stack. A segment is
 * attached as a whole, once in an address space, and stays there; a child of fork has it, too. So a
 * thread costs neither a segment nor a mapping. */
#include "log/pool.h"
#include "base/addresses.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/request.h"

#define SHM_REMAP 040000
#define EACCES 13
/* Processes of several users may ask for the same pool at once. */
#define ATTEMPTS 100

i64 pool_attach(struct context *context, const struct slot *slot)
{
	u32 index = slot->pool;
	u8 *known = &PROCESS_INITIAL->pools[index / 8], bit = (u8)(1u << index % 8);
	if (LIKELY(__atomic_load_n(known, __ATOMIC_ACQUIRE) & bit))
		return 0;
	const struct pool *pool = &HEADER->pools[index];
	u64 address = POOLS + pool->offset;
	i64 result;
	addresses_grow(context->process, (i64)pool->bytes);
	/* If another thread has just attached the pool, this attaches it again in the same place.
	 */
	for (u32 i = 0;
		(result = sys3(NR_shmat, pool->id, address, SHM_REMAP)) == -EACCES && i < ATTEMPTS;
		i++)
		/* The program has changed its user. */
		request(context, REQUEST_OWN_POOL, index, (u64)sys0(NR_geteuid), 0);
	if (result != (i64)address) {
		addresses_grow(context->process, -(i64)pool->bytes);
		return result < 0 ? result : -EACCES;
	}
	__atomic_or_fetch(known, bit, __ATOMIC_ACQ_REL);
	return 0;
}
