/* RDTSC, RDTSCP and CPUID, from patched sites and from traps. The results of RDTSC are recorded.
 * CPUID is answered from the recording machine's table in both modes, so it needs no event. Any
 * stack. */
#include "place/instruction.h"
#include "base/counter.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/section.h"
#include "place/watch.h"

void emulate_tsc(struct context *context, struct registers *regs, u32 with_aux)
{
	u64 value;
	u64 aux = 0;
	if (executes()) {
		section_note(context);
		value = counter_read(context);
		if (with_aux)
			sys3(NR_getcpu, &aux, NULL, NULL);
		ring_event(
			context, EVENT_TSC, 0, (u16)with_aux, (i64)value, &aux, with_aux ? 8 : 0);
	} else {
		const struct event *event = log_take(context, EVENT_TSC, (u16)with_aux);
		value = (u64)event->value;
		if (with_aux && event->size >= sizeof *event + 8)
			aux = *(const u64 *)(event + 1);
		watch_next(context);
	}
	regs->rax = (u32)value;
	regs->rdx = value >> 32;
	if (with_aux)
		regs->rcx = aux;
}

void emulate_cpuid(struct registers *regs)
{
	const struct header *header = HEADER;
	const struct cpuid_entry *found = NULL;
	u32 leaf = (u32)regs->rax, subleaf = (u32)regs->rcx;
	for (u32 i = 0; i < header->cpuid_count && i < MAX_CPUID; i++) {
		const struct cpuid_entry *entry = &header->cpuid[i];
		if (entry->leaf == leaf &&
			(entry->subleaf == subleaf || (entry->subleaf == ~0u && !found)))
			found = entry;
	}
	regs->rax = found ? found->eax : 0;
	regs->rbx = found ? found->ebx : 0;
	regs->rcx = found ? found->ecx : 0;
	regs->rdx = found ? found->edx : 0;
}
