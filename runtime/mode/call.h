/* What call.c offers. */
#ifndef RETAKE_MODE_CALL_H
#define RETAKE_MODE_CALL_H
#include "contract/context.h"
#include "gen/table.h"
#include "log/items.h"
#include "order/baton.h"
#include "signals/signal.h"

#define TURN_BYTES sizeof(struct event)
/* Ring space kept free for the staged inputs of one call. */
#define INPUT_SPACE 0x10000UL

/* An item that a custom call adds to its event. */
struct extra_item {
	u8 argument, direction;
	u64 address;
	const void *bytes;
	u32 count;
};
struct call {
	struct context *context;
	const struct call_row *row;
	u64 number;
	/* The program's arguments. */
	u64 arguments[6];
	/* The arguments that the kernel gets. */
	u64 actual[6];
	i64 result;
	/* Replay: the event that answers the call. */
	const struct event *event;
	/* Record: the event under construction. Replay: `position` is its first item after the
	 * inputs. */
	u8 *start, *position;
	u64 pointee_before;
	u8 flags;
	u64 console_sequence;
	/* The handler logs the outputs, which the table's row does not describe fully. */
	u8 outputs_by_hand;
	/* Trace: not all inputs fit in the staged part. */
	u8 inputs_late;
	u32 inputs_staged;
	struct call_times *times;
};
/* Sets from the registers the fields that not every call sets itself. */
static inline __attribute__((always_inline)) void call_begin(
	struct call *call, struct context *context)
{
	const struct registers *regs = &context->regs;
	call->context = context;
	call->number = (u32)regs->rax; /* the kernel ignores the high half */
	call->arguments[0] = call->actual[0] = regs->rdi;
	call->arguments[1] = call->actual[1] = regs->rsi;
	call->arguments[2] = call->actual[2] = regs->rdx;
	call->arguments[3] = call->actual[3] = regs->r10;
	call->arguments[4] = call->actual[4] = regs->r8;
	call->arguments[5] = call->actual[5] = regs->r9;
	call->result = 0;
	call->event = NULL;
	call->start = call->position = NULL;
	call->pointee_before = call->console_sequence = 0;
	call->flags = call->outputs_by_hand = 0;
	call->row = find_row(call->number, call->arguments);
}
/* Record: stages the inputs. Replay: takes the event and verifies it. */
void call_prepare(struct call *call);
/* Record: puts a TURN event before the staged one. */
void turn_before_staged(struct context *context, u64 turn, u8 **start, u8 **position);
/* Record: executes `actual` and keeps the result. Replay: returns the result from the log. */
i64 call_execute(struct call *call);
/* Record: logs the call. Replay: writes its outputs. */
void call_finish(struct call *call, const struct extra_item *extra, u32 extra_count);
/* Record: the call is not made, and the program gets the result. */
u32 answer_call(struct call *call, i64 result);
/* Puts the result into rax and leaves. */
static inline u32 leave_with_result(struct call *call)
{
	call->context->regs.rax = (u64)call->result;
	return leave(call->context);
}
/* Returns LEAVE_*. The result is in call->result. */
typedef u32 custom_handler(struct call *call);
#define DECLARE_HANDLER(name) u32 handle_##name(struct call *call);
CUSTOM_HANDLERS(DECLARE_HANDLER)

/* Calls that may reach the console or change which descriptors do, calls that read a clock, and
 * calls that send signals. All others skip a dozen comparisons. */
enum call_kind { PLAIN, OUTPUT, DESCRIPTOR, CLOCK, SENDER /* of a signal */ };
extern const u8 call_kinds[CALL_ROW_COUNT];
static inline enum call_kind kind_of(u64 number)
{
	return number < CALL_ROW_COUNT ? call_kinds[number] : DESCRIPTOR;
}
/* Record: returns whether a SENDER may stop its own thread. Then other threads must not wait for
 * this one, so it gives up the baton. Any other thread that it stops has no baton while this one
 * holds it. */
u32 stops_itself(const struct call *call);
/* Record: the call was made. Logs its event and leaves. */
u32 call_finish_emulated(struct call *call);
/* The same, with what the call moved between descriptors. */
u32 call_finish_moved(struct call *call);
/* The result of a call that is refused. */
i64 call_refusal(const struct call *call);
u32 lend_baton(struct context *context);
/* Record: lends the baton, in place of releasing it around the call that follows. */
static inline __attribute__((always_inline)) u32 lends_baton(struct context *context)
{
	return UNLIKELY(baton_is_wanted(context)) && lend_baton(context);
}

#endif
