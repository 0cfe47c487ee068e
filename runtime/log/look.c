/* Tracing, or a replay that makes a trace: mapped files whose pages the supervisor reads before
 * they vanish (mode/look.c chooses them). Private stack. */
#include "log/look.h"
#include "base/process_lock.h"
#include "base/state.h"
#include "base/trace_clock.h"
#include "log/request.h"

i64 look_ask(struct context *context, u32 stage, i64 result)
{
	u32 processor;
	return request(context, REQUEST_LOOK, stage, (u64)result,
		traces() ? trace_clock(&processor) : context->event_count);
}

static void note_range(struct process *process, u64 start, u64 bytes)
{
	if (process->looked_count < MAX_LOOKED)
		process->looked[process->looked_count] =
			(struct address_range){.start = start, .end = start + PAGE_CEIL(bytes)};
	if (process->looked_count <= MAX_LOOKED)
		/* Once the list is full, any range may be one of interest. */
		process->looked_count++;
}

void look_note(struct context *context, u64 start, u64 bytes, u32 writes)
{
	process_lock();
	note_range(context->process, start, bytes);
	process_unlock();
	if (writes)
		look_ask(context, LOOK_MAPPED, 0);
}

u32 look_unmap(struct context *context, u64 start, u64 bytes)
{
	struct process *process = context->process;
	u32 met = process->looked_count > MAX_LOOKED;
	if (LIKELY(!process->looked_count))
		return 0;
	for (u32 i = 0; i < minimum(process->looked_count, MAX_LOOKED); i++)
		met |= process->looked[i].start < start + bytes && start < process->looked[i].end;
	if (met)
		look_ask(context, LOOK_BEFORE_UNMAP, 0);
	return met;
}

void look_unmapped(struct context *context, u64 start, u64 bytes)
{
	struct process *process = context->process;
	process_lock();
	for (u32 i = 0; process->looked_count <= MAX_LOOKED && i < process->looked_count; i++)
		if (start <= process->looked[i].start &&
			process->looked[i].end <= start + PAGE_CEIL(bytes))
			process->looked[i--] = process->looked[--process->looked_count];
	process_unlock();
}

void look_moved(struct context *context, u64 start, u64 bytes)
{
	/* A child may be killed before the supervisor looks at it. Then the parent's mapping
	 * counts. */
	look_note(context, start, bytes, 1);
}

/* The process ends, or its memory does. A guest shares its parent's memory. */
void look_end(struct context *context)
{
	if (UNLIKELY(context->process->looked_count) && !context->is_guest)
		look_ask(context, LOOK_BEFORE_UNMAP, 0);
}
