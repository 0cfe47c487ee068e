/* RDTSC, RDTSCP and CPUID, from patched sites and from traps. RDTSC is recorded; CPUID is answered
 * from the recording machine's table, the same in both modes, so it needs no event. Any stack. */
#include "place/instruction.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/passage.h"
#include "order/section.h"
#include "place/forced.h"
#include "place/watch.h"
#include "signals/signal.h"

/* Where RDTSC traps for us too, the kernel's clock stands in for the counter. */
static u64 clock_ticks(void)
{
	struct {
		i64 seconds, nanoseconds;
	} now;
	sys2(NR_clock_gettime, 4 /* CLOCK_MONOTONIC_RAW */, &now);
	u64 per_second = HEADER->ticks_per_second;
	return (u64)now.seconds * per_second + (u64)now.nanoseconds * (per_second / 1000) / 1000000;
}

static u64 processor_ticks(void)
{
	u32 low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Before the counter traps, so that what the program sees goes on from where it was. */
void counter_compare(struct process *process)
{
	process->counter_ahead = processor_ticks() - clock_ticks();
	process->counter_compared = 1;
}

static u64 read_counter(const struct context *context)
{
	return context->counter_traps ? clock_ticks() + context->process->counter_ahead
				      : processor_ticks();
}

void emulate_tsc(struct context *context, struct registers *regs, u32 with_aux)
{
	u64 value;
	u64 aux = 0;
	if (recording()) {
		section_note(context);
		value = read_counter(context);
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

void runtime_instruction(struct context *context, u64 which);
void runtime_instruction(struct context *context, u64 which)
{
	if (which == 2) {
		emulate_cpuid(&context->regs); /* without an event, so no sync point */
		return;
	}
	if (which == 5) {
		passage(context);
		return;
	}
	if (which > 2) {
		section_compare(context, which == 3);
		return;
	}
	emulate_tsc(context, &context->regs, (u32)which);
	leave(context); /* a loop may have no other sync point than these */
	section_leave(context);
}
