/* Replay: stops a thread at the place where the log has it forced. docs/FORCED.md explains the
 * levels.
 *
 * Context: watch_next runs on the private stack or, after an emulated instruction, in the handler.
 * watch_handler runs in the master handler, with the thread in user code or in the stub that stands
 * for it. */
#include "place/watch.h"
#include "base/futex.h"
#include "base/signals.h"
#include "base/state.h"
#include "base/status.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/end.h"
#include "log/hash.h"
#include "log/log.h"
#include "log/request.h"
#include "order/passage.h"
#include "place/forced.h"
#include "place/neighbourhood.h"
#include "place/signature.h"
#include "place/stepping.h"

enum test_kind { TEST_NONE, TEST_REGISTER, TEST_VECTOR, TEST_CELL, TEST_OTHER, TEST_MEMORY };
/* The limit of visits that differ only in the memory hash. Beyond it replay has diverged earlier.
 */
#define MOST_HASH_MISSES 100000
#define TRAP 0xcc
#define JUMP 0xe9
#define JUMP_BYTES 5
#define COMPARED_REGISTERS 16
#define DIRECTION_FLAG 0x400UL
#define FALLBACK_PROTECTION 5 /* read, execute */

/* ---- the stub: it changes neither the program's stack nor flags that the program will read ----
 */

static u8 *put(u8 *at, const char *bytes, u32 count)
{
	memcpy(at, bytes, count);
	return at + count;
}
#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

static u8 *put32(u8 *at, u64 value)
{
	u32 low = (u32)value;
	memcpy(at, &low, 4);
	return at + 4;
}

static u8 *put64(u8 *at, u64 value)
{
	memcpy(at, &value, 8);
	return at + 8;
}

#define SLOT_RCX __builtin_offsetof(struct context, scratch)
#define SLOT_RAX __builtin_offsetof(struct context, watch.scratch)
#define RESTORE_BYTES 18
#define QUICK_TEST_BYTES 13

static void put_jump(u8 *at, u64 target)
{
	*at = JUMP;
	put32(at + 1, target - ((u64)at + JUMP_BYTES));
}

static u8 *put_save(u8 *at)
{
	at = put32(PUT(at, "\x65\x48\x89\x0c\x25"), SLOT_RCX); /* mov %rcx, %gs:... */
	return put32(PUT(at, "\x65\x48\x89\x04\x25"), SLOT_RAX);
}

static u8 *put_restore(u8 *at)
{
	at = put32(PUT(at, "\x65\x48\x8b\x04\x25"), SLOT_RAX); /* mov %gs:..., %rax */
	return put32(PUT(at, "\x65\x48\x8b\x0c\x25"), SLOT_RCX);
}

/* Machine numbers of the registers, in the order of struct registers. */
static const u8 machine_number[COMPARED_REGISTERS] = {
	8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4};

/* Sets rcx to the compared value minus the recorded one. */
static u8 *put_difference(u8 *at, const struct watch_test *test)
{
	u32 number = 0; /* rax */
	if (test->kind == TEST_CELL) {
		at = put64(PUT(at, "\x48\xb8"), test->address); /* movabs $address, %rax */
		at = PUT(at, "\x48\x8b\x00");			/* mov (%rax), %rax */
	} else if (test->kind == TEST_VECTOR) {
		/* The instruction: movq %xmm, %rax. */
		u8 move[5] = {0x66, (u8)(0x48 | (test->index >= 8 ? 4 : 0)), 0x0f, 0x7e,
			(u8)(0xc0 | (test->index & 7) << 3)};
		at = put(at, (const char *)move, sizeof move);
	} else if (machine_number[test->index] <= 1) {
		at = put32(PUT(at, "\x65\x48\x8b\x04\x25"),
			machine_number[test->index] ? SLOT_RCX : SLOT_RAX);
	} else
		number = machine_number[test->index];
	at = put64(PUT(at, "\x48\xb9"), -test->value); /* movabs $-value, %rcx */
	/* The instruction: lea 0(%number, %rcx), %rcx. */
	u8 add[5] = {(u8)(0x48 | (number >= 8 ? 1 : 0)), 0x8d, 0x4c, (u8)(0x08 | (number & 7)), 0};
	return put(at, (const char *)add, sizeof add);
}

/* Where the flags are free, compares the low half of a register first. That nearly always decides,
 * and skips the rest of the stub. */
static u8 *put_quick_test(u8 *at, const struct watch *watch, const u8 *code)
{
	const struct watch_test *test = &watch->tests[0];
	u32 has_room = (u64)at + QUICK_TEST_BYTES + JUMP_BYTES <= watch->answer.stub + PAGE_BYTES;
	if (!watch->answer.flags_dead || !watch->test_count || test->kind != TEST_REGISTER ||
		!has_room)
		return at;
	u32 number = machine_number[test->index];
	/* The instruction: cmp $value, %number. */
	u8 compare[3] = {(u8)(number >= 8 ? 0x41 : 0x40), 0x81, (u8)(0xf8 | (number & 7))};
	at = put32(put(at, (const char *)compare, sizeof compare), test->value);
	at = PUT(at, "\x0f\x85"); /* jne to the displaced instructions */
	return put32(at, (u64)(code - (at + 4)));
}

/* The stub's parts, in order: tests, each of which goes on to the next if it holds; a trap; the way
 * back after a failed test; the displaced instructions. */
static void build_stub(struct watch *watch)
{
	u8 *start = (u8 *)watch->answer.stub, *code = start + WATCH_CODE_OFFSET,
	   *miss = code - RESTORE_BYTES;
	sys3(NR_mprotect, start, PAGE_BYTES, PROT_READ | PROT_WRITE);
	u8 *at = put_save(start);
	for (u32 i = 0; i < watch->test_count; i++) {
		at = put_difference(at, &watch->tests[i]);
		at = PUT(at, "\xe3\x05\xe9"); /* jrcxz over the jump; jmp miss */
		at = put32(at, (u64)(miss - (at + 4)));
	}
	at = put_restore(at);
	*at++ = TRAP;
	watch->trap = (u64)at;
	put_restore(miss);
	memcpy(code, watch->answer.code, watch->answer.code_bytes);
	put_jump(put_quick_test((u8 *)watch->answer.entry, watch, code), (u64)start);
	sys3(NR_mprotect, start, PAGE_BYTES, PROT_READ | PROT_EXEC);
}

/* ---- planting ---- */

static void write_code(const struct watch *watch, const u8 *bytes, u64 count)
{
	u64 start = PAGE_FLOOR(watch->address), length = PAGE_CEIL(watch->address + count) - start;
	if (sys3(NR_mprotect, start, length, PROT_READ | PROT_WRITE | PROT_EXEC))
		fail("cannot write to the program's code");
	memcpy((void *)watch->address, bytes, count);
	sys3(NR_mprotect, start, length, watch->answer.protection);
}

static void plant(struct watch *watch)
{
	u8 code[sizeof watch->original];
	memset(code, TRAP, sizeof code);
	if (watch->answer.patch_bytes >= JUMP_BYTES) {
		code[0] = JUMP;
		put32(code + 1, watch->answer.entry - (watch->address + JUMP_BYTES));
	}
	write_code(watch, code, watch->answer.patch_bytes);
}

static void unplant(struct watch *watch)
{
	write_code(watch, watch->original, watch->answer.patch_bytes);
}

void watch_disarm(struct context *context)
{
	struct watch *watch = &context->watch;
	unplant(watch);
	if (watch->answer.stub)
		sys2(NR_munmap, watch->answer.stub, PAGE_BYTES);
	watch->armed = 0;
	context->slot->forcing.armed_ns = 0;
}

/* Takes the supervisor's proposal as far as it is usable. Without a stub there is only a trap, and
 * single steps over the instruction. */
static void take_answer(struct context *context)
{
	struct watch *watch = &context->watch;
	struct watch_answer *answer = &watch->answer;
	if (request(context, REQUEST_WATCH, watch->address, (u64)answer, 0) != 0)
		memset(answer, 0, sizeof *answer), answer->protection = FALLBACK_PROTECTION;
	u32 usable = answer->stub && answer->code_bytes &&
		     answer->code_bytes <= sizeof answer->code &&
		     answer->patch_bytes <= sizeof watch->original;
	usable = usable && answer->entry >= answer->stub + WATCH_CODE_OFFSET + WATCH_CODE_BYTES &&
		 answer->entry + JUMP_BYTES <= answer->stub + PAGE_BYTES;
	if (usable)
		usable = sys6(NR_mmap, answer->stub, PAGE_BYTES, PROT_READ | PROT_WRITE,
				 0x100022 /* private, anonymous, fixed and free */, ~0UL,
				 0) == (i64)answer->stub;
	if (!usable)
		answer->stub = answer->code_bytes = 0;
	if (!usable || answer->patch_bytes < JUMP_BYTES)
		answer->patch_bytes = 1;
}

static void arm(struct context *context, const struct event *event)
{
	struct watch *watch = &context->watch;
	const struct forced_body *body = (const struct forced_body *)(event + 1);
	u64 room = event->size - sizeof *event;
	if (room < sizeof *body || body->area_count > FORCE_AREAS ||
		body->cell_count > FORCE_CELLS ||
		room - sizeof *body <
			body->area_count * 8 + body->cell_count * sizeof(struct forced_cell))
		diverge(context, WHY_CORRUPT, event->size, 0);
	u64 at = body->regs.rip;
	if (at + 16 > RUNTIME_TEXT && at < RUNTIME_END)
		diverge(context, WHY_CORRUPT, at, 0);
	watch->address = at;
	watch->body = body;
	watch->memory_hash = (u64)event->value;
	watch->stepping = watch->test_count = 0;
	watch->hash_misses = 0;
	/* The supervisor ends a search that leads nowhere, and says where the thread should be. */
	log_stand_at(context);
	context->slot->divergence.registers[__builtin_offsetof(struct registers, rip) / 8] = at;
	__atomic_store_n(&context->slot->forcing.armed_ns, now_ns(), __ATOMIC_RELEASE);
	take_answer(context);
	if (copy_user(watch->original, (const void *)at, watch->answer.patch_bytes))
		diverge(context, WHY_MEMORY, at, 0);
	if (watch->answer.stub)
		build_stub(watch);
	plant(watch);
	watch->armed = 1;
}

/* Returns whether the thread was killed here. Its stream ends, in its own code or in a call that
 * never returned. If no other thread or process could see what it did until then, it ends at once,
 * in place of running on for ever: where it had the baton, and where it had its memory for itself.
 * A debugger shows it, so there a hanging thread goes on to the call in which it hung. */
static u32 was_killed_here(struct context *context, const struct event *event)
{
	if (event && event->kind == EVENT_END && event->number == END_IN_TURN)
		return 1;
	if (context->process->thread_count != 1 || context->process->domain || is_debugged())
		return 0;
	return !event || (event->kind == EVENT_END && (event->value & 0x7f));
}

void watch_next(struct context *context)
{
	const struct event *event = log_peek(context);
	if (LIKELY(event && event->kind != EVENT_FORCED && event->kind != EVENT_END &&
		    event->kind != EVENT_PASSAGE))
		return;
	if (event && event->kind == EVENT_PASSAGE)
		passage_expect(context, event);
	if (was_killed_here(context, event))
		end_of_stream(context);
	if (event && event->kind == EVENT_FORCED && !context->watch.armed)
		arm(context, event);
}

/* ---- comparing ---- */

static u32 same_memory(struct context *context, const struct registers *regs)
{
	struct watch *watch = &context->watch;
	u64 hash, pages;
	if (!watch->memory_hash)
		return 1;
	context->regs = *regs;
	/* The code may be writable, and is hashed then. */
	unplant(watch);
	memory_scan(context, &hash, &pages);
	if (hash == watch->memory_hash || !hash)
		return 1;
	if (++watch->hash_misses > MOST_HASH_MISSES)
		diverge(context, WHY_HASH, watch->memory_hash, hash);
	plant(watch);
	return 0;
}

static u32 same_areas(const struct forced_body *body)
{
	return areas_hash((const u64 *)(body + 1), body->area_count) == body->area_hash;
}

/* The stub may have overwritten flags that the program no longer reads. */
static u64 compared_flags(const struct watch *watch)
{
	return watch->answer.flags_dead ? STATUS_FLAGS & DIRECTION_FLAG : STATUS_FLAGS;
}

/* The first difference between here and the recorded place, as a test for the stub; TEST_NONE: this
 * is the place. */
static struct watch_test difference(
	struct context *context, const struct registers *regs, u64 extended)
{
	const struct forced_body *body = context->watch.body;
	const struct forced_cell *cells =
		(const struct forced_cell *)((const u64 *)(body + 1) + body->area_count);
	const u64 *recorded = (const u64 *)&body->regs, *actual = (const u64 *)regs;
	for (u32 i = 0; i < COMPARED_REGISTERS; i++)
		if (recorded[i] != actual[i])
			return (struct watch_test){
				.kind = TEST_REGISTER, .index = i, .value = recorded[i]};
	for (u64 i = 0; i < body->cell_count; i++) {
		u64 value, address = passage_cell_address(context, &cells[i]);
		if (copy_user(&value, (const void *)address, 8))
			return (struct watch_test){.kind = TEST_OTHER};
		if (value != cells[i].value)
			return (struct watch_test){
				.kind = TEST_CELL, .address = address, .value = cells[i].value};
	}
	for (u32 i = 0; i < FORCE_VECTORS; i++)
		if (forced_vector(extended, i) != body->vectors[i])
			return (struct watch_test){
				.kind = TEST_VECTOR, .index = i, .value = body->vectors[i]};
	if ((body->regs.eflags ^ regs->eflags) & compared_flags(&context->watch) ||
		stack_hash(regs->rsp, body->stack_bytes) != body->stack_hash ||
		forced_vector_hash(extended) != body->vector_hash || !same_areas(body))
		return (struct watch_test){.kind = TEST_OTHER};
	if (!same_memory(context, regs))
		return (struct watch_test){.kind = TEST_MEMORY};
	return (struct watch_test){.kind = TEST_NONE};
}

/* Puts the test that would have avoided this trap in front. The test that has been useless for
 * longest is dropped from the end. */
static void learn(struct watch *watch, const struct watch_test *test)
{
	u32 would_fault = test->kind == TEST_CELL && test->address & 7 &&
			  watch->body->regs.eflags & FLAG_ALIGNMENT;
	if (watch->answer.patch_bytes < JUMP_BYTES || test->kind >= TEST_OTHER || would_fault)
		return;
	u32 count = (u32)minimum(watch->test_count, WATCH_TESTS - 1);
	memmove(&watch->tests[1], &watch->tests[0], count * sizeof *test);
	watch->tests[0] = *test;
	watch->test_count = count + 1;
	build_stub(watch);
}

/* Counts the cost of the search for reports. */
static void count_found(struct context *context)
{
	struct slot *slot = context->slot;
	slot->forcing.found++;
	slot->forcing.search_ns += now_ns() - slot->forcing.armed_ns;
}

/* Handles a visit of the watched place. */
static enum handled visit(struct context *context, struct registers *regs, u64 extended)
{
	struct watch *watch = &context->watch;
	regs->rip = watch->address;
	regs->eflags &= ~(FLAG_TRAP | FLAG_RESUME);
	struct watch_test test = difference(context, regs, extended);
	if (test.kind == TEST_NONE) {
		regs->eflags =
			(regs->eflags & ~STATUS_FLAGS) | (watch->body->regs.eflags & STATUS_FLAGS);
		forced_put_exceptions(extended, watch->body->exceptions);
		count_found(context);
		watch_disarm(context);
		return HANDLED_STOP;
	}
	context->slot->forcing.misses++;
	learn(watch, &test);
	if (watch->answer.stub) {
		regs->rip = watch->answer.stub + WATCH_CODE_OFFSET;
		return HANDLED;
	}
	watch->after_pushf = pushes_flags(watch->address);
	unplant(watch);
	regs->eflags |= FLAG_TRAP;
	watch->stepping = 1;
	return HANDLED;
}

/* Handles a test of memory that does not exist at this visit. */
static u32 stub_fault(struct context *context, struct registers *regs)
{
	const struct watch *watch = &context->watch;
	u64 stub = watch->answer.stub;
	if (!stub || regs->rip < stub || regs->rip >= stub + WATCH_CODE_OFFSET - RESTORE_BYTES)
		return 0;
	regs->rax = watch->scratch;
	regs->rcx = context->scratch;
	regs->rip = stub + WATCH_CODE_OFFSET;
	return 1;
}

/* Handles a jump to an instruction that the planted jump covers. Its copy is in the stub. */
static u32 inside_jump(
	const struct watch *watch, const struct siginfo *info, struct registers *regs)
{
	u64 offset = regs->rip - (info->number == SIGTRAP) - watch->address;
	if ((info->number != SIGTRAP && info->number != SIGILL) || !offset ||
		offset >= watch->answer.patch_bytes ||
		watch->answer.starts[offset] == WATCH_NO_START)
		return 0;
	regs->rip = watch->answer.stub + WATCH_CODE_OFFSET + watch->answer.starts[offset];
	return 1;
}

enum handled watch_handler(
	struct context *context, const struct siginfo *info, struct registers *regs, u64 extended)
{
	struct watch *watch = &context->watch;
	if (!watch->armed)
		return NOT_HANDLED;
	if (watch->stepping) {
		watch->stepping = 0;
		regs->eflags &= ~FLAG_TRAP;
		plant(watch);
		if (info->number != SIGTRAP || info->code != TRAP_TRACE)
			return NOT_HANDLED;
		clear_pushed_trap_flag(regs->rsp, watch->after_pushf);
		/* The thread is in the middle of a repeated instruction, or the instruction jumps
		 * to itself. */
		return regs->rip == watch->address ? visit(context, regs, extended) : HANDLED;
	}
	if (info->number == SIGSEGV || info->number == SIGBUS)
		return stub_fault(context, regs) ? HANDLED : NOT_HANDLED;
	if (inside_jump(watch, info, regs))
		return HANDLED;
	u64 expected = watch->answer.patch_bytes >= JUMP_BYTES ? watch->trap : watch->address + 1;
	if (info->number != SIGTRAP || regs->rip != expected)
		return NOT_HANDLED;
	return visit(context, regs, extended);
}
