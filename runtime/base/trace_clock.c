/* The clock of traces: the time-stamp counter where it is usable, else the kernel's clock. Any
 * stack. */
#include "base/trace_clock.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/sys.h"
#include "gen/numbers.h"

u64 trace_clock(u32 *processor)
{
	const struct header *header = HEADER;
	u32 low, high, aux;
	if (UNLIKELY(!header->clock_counter)) {
		sys3(NR_getcpu, processor, NULL, NULL);
		return clock_ns(0 /* CLOCK_REALTIME */);
	}
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
	*processor = aux & 0xfff; /* Linux keeps the processor's number here in IA32_TSC_AUX */
	u64 ticks = ((u64)high << 32 | low) - header->clock_counter;
	return header->clock_ns + (u64)((unsigned __int128)ticks * header->clock_scale >> 32);
}
