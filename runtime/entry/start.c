/* The start of a program: after an exec while recording, and as a replayed process, which is this
 * runtime run as a static executable. Starts on the region's private stack (record) or on the
 * kernel's (replay). */
#include "entry/start.h"
#include "base/addresses.h"
#include "base/futex.h"
#include "base/image.h"
#include "base/interception.h"
#include "base/leave.h"
#include "base/shared.h"
#include "base/stamp.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/unreached.h"
#include "base/user.h"
#include "calls/start.h"
#include "entry/auxiliary.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/pool.h"
#include "log/request.h"
#include "log/ring.h"
#include "mode/debug.h"
#include "mode/descriptors.h"
#include "order/policy.h"
#include "place/forced.h"
#include "place/watch.h"
#include "signals/signal.h"

#define DATA_BYTES 0x10000UL

#define ARCH_SET_GS 0x1001
#define ARCH_SET_CPUID 0x1012
#define ADDRESS_END 0x7ffffffff000UL

_Static_assert(sizeof(struct process) <= DATA_BYTES, "fits in what entry.S maps");
_Static_assert(sizeof(struct process) <= REGION_STRIDE - REGION_PROCESS, "fits in a region");
_Static_assert(sizeof(struct context) <= REGION_STACK_LOW - REGION_CONTEXT, "fits in its place");

void map_content(struct context *context, u64 address, u64 bytes, u64 protection, u64 flags,
	const u8 *content, u64 offset);

struct context *first_context(struct slot *slot)
{
	struct context *context = context_of(0);
	context->self = context;
	context->stack_top = REGIONS + REGION_STACK_TOP;
	context->region = 0;
	context->slot = slot;
	context->counter_traps = COUNTER_UNKNOWN;
	context->process = PROCESS_INITIAL;
	context->process->region_count = 1;
	context->process->thread_count = 1;
	if (orders_by_sections())
		context->sections = settled() ? SECTIONS_WHOLE : SECTIONS_SHORT;
	context->altstack_flags = 2; /* SS_DISABLE */
	sys2(NR_arch_prctl, ARCH_SET_GS, context);
	return context;
}

void trap_instructions(void)
{
	if (traps_cpuid())
		sys2(NR_arch_prctl, ARCH_SET_CPUID, 0);
}

/* Finds the vDSO, whose functions are no system calls for the program's filters. `bytes`: 0 if the
 * event's mappings have its size. */
static void note_vdso(struct process *process, u64 stack_pointer, u64 bytes,
	const struct exec_mapping *mappings, u64 mapping_count)
{
	struct auxiliary header;
	u64 at;
	if (!auxiliary_find(stack_pointer, AT_SYSINFO_EHDR, &header, &at))
		return;
	process->vdso_start = header.value;
	process->vdso_end = header.value + bytes;
	for (u64 i = 0; i < mapping_count; i++)
		if (mappings[i].start == header.value)
			process->vdso_end = mappings[i].end;
}

/* Unmaps slots that do not exist, to save the program's address space. */
void forget_slots(void)
{
	const struct header *header = HEADER;
	u64 start = PAGE_CEIL((u64)(header->slots + header->slot_limit)),
	    end = (u64)(header->slots + MAX_SLOTS) & ~(PAGE_BYTES - 1);
	if (start < end)
		sys2(NR_munmap, start, end - start);
}

/* ---- record ---- */

/* Most pages of a text this small, such as the dynamic linker's, are used. */
#define USED_WHOLE_BYTES 0x40000UL

/* Maps the patched text of the program or its interpreter, which the kernel mapped before the
 * runtime. */
static void overlay_first(struct process *process, u64 file_and_one, u64 bias)
{
	if (!file_and_one)
		return;
	const struct file_entry *file = &HEADER->files[file_and_one - 1];
	if (!file->part_count)
		return;
	if (sys3(NR_shmat, file->stubs.segment_id, bias + file->stubs.address,
		    0110000 /* SHM_RDONLY | SHM_EXEC */) < 0) {
		process->unknown_calls = 1;
		return;
	}
	note_stubs(bias + file->stubs.address, file->stubs.bytes);
	for (u32 i = 0; i < file->part_count; i++) {
		const struct image_part *part = &file->parts[i];
		if (sys3(NR_shmat, part->segment_id, bias + part->address, 0150000) < 0)
			process->unknown_calls = 1;
		else if (part->text_bytes <= USED_WHOLE_BYTES)
			populate(bias + part->address, part->bytes);
	}
	if (!unreached_hide(process, file, bias, bias + file->low, bias + file->high))
		process->unknown_calls = 1;
}

/* Patches the vDSO. If text may not be written (PR_SET_MDWE is inherited), the supervisor writes
 * it. */
void patch_vdso(struct context *context, u64 base)
{
	const struct header *header = HEADER;
	if (!base || !header->vdso_patch_count || !logs())
		return;
	u64 bytes = header->vdso_bytes;
	u32 writable = !sys3(NR_mprotect, base, bytes, PROT_READ | PROT_WRITE | PROT_EXEC);
	for (u32 i = 0; i < header->vdso_patch_count; i++) {
		const struct vdso_patch *patch = &header->vdso_patches[i];
		if (writable)
			memcpy((void *)(base + patch->offset), patch->code, patch->bytes);
		else if (request(context, REQUEST_WRITE_TEXT, base + patch->offset,
				 (u64)patch->code, patch->bytes))
			fail("cannot write to the vDSO: prctl PR_SET_MDWE forbids it");
	}
	if (writable)
		sys3(NR_mprotect, base, bytes, PROT_READ | PROT_EXEC);
}

/* Looks at the program only; its interpreter is the system's. */
static void note_untold(struct process *process, u64 file_and_one)
{
	if (!file_and_one || process->unknown_calls)
		process->untold = MADE_AT_RUN_TIME;
	else if (!HEADER->files[file_and_one - 1].tells_all)
		process->untold = (u32)file_and_one;
}

void record_start(u64 slot_index, u64 program_counter, u64 stack_pointer);
void record_start(u64 slot_index, u64 program_counter, u64 stack_pointer)
{
	struct slot *slot = &HEADER->slots[slot_index];
	populate_text();
	struct context *context = first_context(slot);
	forget_slots();
	addresses_begin(context->process, &slot->carried);
	/* Read now: a later request overwrites the arguments. */
	u64 mask = 0, vdso = slot->request.arguments[4];
	sys4(NR_rt_sigprocmask, 0, NULL, &mask, 8);
	context->sigmask = mask | (slot->carried.altered_mask & SYNCHRONOUS);
	context->process->unknown_calls = (u32)slot->request.arguments[5];
	overlay_first(context->process, slot->request.arguments[0], slot->request.arguments[1]);
	overlay_first(context->process, slot->request.arguments[2], slot->request.arguments[3]);
	note_untold(context->process, slot->request.arguments[0]);
	patch_vdso(context, vdso);
	note_vdso(context->process, stack_pointer, HEADER->vdso_bytes, NULL, 0);
	auxiliary_restrict(stack_pointer);
	context->process->clocks = vdso;
	descriptors_inherit(context->process, &context->slot->carried.uses);
	slot->exec_pending = slot->memory_of = 0;
	slot->traced.entered_ns = 0;
	slot->forcing.state = FORCE_IDLE;
	if (slot->state == SLOT_LIVE) {
		context->pid = (u32)sys0(NR_getpid);
		context->tid = (u32)sys0(NR_gettid);
		/* The supervisor has put the thread's numbers as it knows them into the slot. */
		slot->pid_space.inner_tid = context->tid;
		if (pool_attach(context, slot) < 0)
			fail("cannot attach the ring: is System V shared memory limited here?");
		ring_begin(context);
		context->event_count = slot->event_count;
	}
	image_program(context);
	signals_install(context);
	trap_instructions();
	arm_interception(context);
	context->regs.rip = program_counter;
	context->regs.rsp = stack_pointer;
	context->regs.eflags = 0x202;
	restore_full(context);
}

/* ---- replay ---- */

static u64 decimal(const char *text)
{
	u64 value = 0;
	while (*text >= '0' && *text <= '9')
		value = value * 10 + (u64)(*text++ - '0');
	return value;
}

static void map_initial(struct context *context, const struct exec_mapping *mapping)
{
	u64 bytes = mapping->end - mapping->start;
	if (mapping->start >= mapping->end || mapping->end > ADDRESS_END ||
		(mapping->start < RUNTIME_END && mapping->end > RUNTIME_TEXT))
		diverge(context, WHY_CORRUPT, mapping->start, mapping->end);
	if (mapping->flags & EXEC_MAPPING_CONTENT) {
		map_content(context, mapping->start, bytes, mapping->protection, MAP_PRIVATE,
			mapping->content, mapping->offset);
		return;
	}
	u64 flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE |
		    (mapping->flags & EXEC_MAPPING_GROWS_DOWN ? MAP_GROWSDOWN : 0);
	i64 at = sys6(NR_mmap, mapping->start, bytes, PROT_READ | PROT_WRITE, flags, ~0UL, 0);
	if (at != (i64)mapping->start)
		diverge(context, WHY_MAPPING, mapping->start, (u64)at);
}

/* Copies content that comes with the event: the stack, the vDSO, the last pages of data segments.
 */
static const u8 *fill_area(struct context *context, const u8 *at, const u8 *end)
{
	const u64 *head = (const u64 *)at;
	if (at + 16 > end || head[1] > (u64)(end - at - 16))
		diverge(context, WHY_CORRUPT, 0, 0);
	if (head[0] < RUNTIME_END && head[0] + head[1] > RUNTIME_TEXT)
		diverge(context, WHY_CORRUPT, head[0], head[1]);
	if (copy_user((void *)head[0], at + 16, head[1]))
		diverge(context, WHY_MEMORY, head[0], head[1]);
	return at + 16 + ALIGN8(head[1]);
}

void replay_exec(struct context *context, const struct event *event)
{
	const struct exec_body *body = (const struct exec_body *)(event + 1);
	const u8 *end = body_end(event);
	if (event->size < sizeof *event + sizeof *body ||
		body->mapping_count >
			(event->size - sizeof *event - sizeof *body) / sizeof(struct exec_mapping))
		diverge(context, WHY_CORRUPT, event->size, 0);
	const struct exec_mapping *mappings = (const struct exec_mapping *)(body + 1);
	for (u64 i = 0; i < body->mapping_count; i++)
		map_initial(context, &mappings[i]);
	const u8 *at = (const u8 *)(mappings + body->mapping_count);
	for (u64 i = 0; i < body->area_count; i++)
		at = fill_area(context, at, end);
	for (u64 i = 0; i < body->mapping_count; i++)
		if (!(mappings[i].flags & EXEC_MAPPING_CONTENT) && mappings[i].protection != 3)
			sys3(NR_mprotect, mappings[i].start, mappings[i].end - mappings[i].start,
				mappings[i].protection);
	context->sigmask = body->mask;
	for (u32 i = 1; i <= 64; i++)
		context->process->actions[i].handler = body->ignored >> (i - 1) & 1;
	signals_install(context);
	struct limits limits;
	sys4(NR_prlimit64, 0, 3 /* RLIMIT_STACK */, NULL, &limits);
	limits.soft = minimum(body->stack_limit, limits.hard);
	sys4(NR_prlimit64, 0, 3, &limits, NULL);
	context->process->break_start = context->process->break_end = body->break_start;
	note_vdso(context->process, body->stack_pointer, 0, mappings, body->mapping_count);
	auxiliary_restrict(body->stack_pointer);
	context->regs.rip = body->program_counter;
	context->regs.rsp = body->stack_pointer;
	context->regs.eflags = 0x202;
	trap_instructions();
	arm_interception(context);
	watch_next(context);
	debug_begin(context);
	restore_full(context);
}

static void replay_on_stack(u64 slot_index, u64 unused, u64 unused2)
{
	(void)unused, (void)unused2;
	struct slot *slot = &HEADER->slots[slot_index];
	struct context *context = first_context(slot);
	sys2(NR_munmap, PAGE_BYTES, RUNTIME_TEXT - PAGE_BYTES);
	sys2(NR_munmap, RUNTIME_END, ADDRESS_END - RUNTIME_END);
	if (slot->state != SLOT_LIVE)
		begin_stream(context, START_ROOT);
	else {
		slot->pid = (u32)sys0(NR_getpid); /* any thread may exec, not only the first */
		slot->tid = (u32)sys0(NR_gettid);
		context->log_offset = slot->next_window_offset;
		context->event_count = slot->event_count;
		context->pid = slot->recorded_pid;
		context->tid = slot->recorded_tid;
	}
	const struct event *event = log_take(context, EVENT_EXEC, 0);
	replay_exec(context, event);
}

void replay_start(u64 *stack);
void replay_start(u64 *stack)
{
	if (stack[0] != 3)
		fail("this program is a part of retake; it cannot be run by itself");
	u64 header = decimal((const char *)stack[2]), slot = decimal((const char *)stack[3]);
	sys6(NR_mmap, RUNTIME_DATA, DATA_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0UL, 0);
	sys6(NR_mmap, REGIONS, REGION_STRIDE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0UL, 0);
	if (sys3(NR_shmat, header, HEADER_ADDRESS, 0) != (i64)HEADER_ADDRESS)
		fail("cannot attach the header segment");
	forget_slots();
	call_on_stack(REGIONS + REGION_STACK_TOP, replay_on_stack, slot, 0, 0);
}
