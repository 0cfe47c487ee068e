/* What call.c offers. */
#ifndef RETAKE_MODE_CALL_H
#define RETAKE_MODE_CALL_H
#include "contract/context.h"
#include "gen/table.h"
#include "log/items.h"
#include "order/baton.h"
#include "signals/signal.h"

#define TURN_BYTES sizeof(struct event)
#define INPUT_SPACE 0x10000UL /* staged inputs of one call, ring space kept free for them */

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
	u64 arguments[6]; /* the program's */
	u64 actual[6];	  /* what is handed to the kernel */
	i64 result;
	const struct event *event; /* replay: the event that answers it */
	/* Record: the event under construction. replay: position = its first item after the inputs.
	 */

	u8 *start, *position;
	u64 pointee_before;
	u8 flags;
	u64 console_sequence;
	u8 outputs_by_hand; /* the handler knows them better than the table's row */
	u8 inputs_late;	    /* trace: not all inputs fit in what was staged */
	u32 inputs_staged;
	struct call_times *times;
};
/* Of its registers, everything that not every call sets itself. */
static inline __attribute__((always_inline)) void call_begin(
	struct call *call, struct context *context)
{
	const struct registers *regs = &context->regs;
	call->context = context;
	call->number = (u32)regs->rax; /* the kernel looks at the low half only */
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
/* Record: stage inputs. replay: take the event, verify it. */
void call_prepare(struct call *call);
/* Record: a TURN event, before the staged one. */
void turn_before_staged(struct context *context, u64 turn, u8 **start, u8 **position);
/* Record: execute `actual`, result kept. replay: result from the log. */
i64 call_execute(struct call *call);
/* Record: log. replay: write outputs. */
void call_finish(struct call *call, const struct extra_item *extra, u32 extra_count);
/* Record: it is not made; the program gets the result. */
u32 answer_call(struct call *call, i64 result);
/* The program finds the result in rax. */
static inline u32 leave_with_result(struct call *call)
{
	call->context->regs.rax = (u64)call->result;
	return leave(call->context);
}
/* Returns LEAVE_* ; the result is in call->result. */
typedef u32 custom_handler(struct call *call);
#define DECLARE_HANDLER(name) u32 handle_##name(struct call *call);
CUSTOM_HANDLERS(DECLARE_HANDLER)

/* Calls that may reach the console, or change which descriptors do, and those that ask what time it
 * is. The others skip a dozen comparisons. */
enum call_kind { PLAIN, OUTPUT, DESCRIPTOR, CLOCK, SENDER /* of a signal */ };
extern const u8 call_kinds[CALL_ROW_COUNT];
static inline enum call_kind kind_of(u64 number)
{
	return number < CALL_ROW_COUNT ? call_kinds[number] : DESCRIPTOR;
}
/* Record: a SENDER may stop the thread that makes it, and then others shall not wait for that one.
 * Whom it stops else has no baton as long as the thread has it. */
u32 stops_itself(const struct call *call);
/* Record: it was made; its event, and the way out. */
u32 call_finish_emulated(struct call *call);
/* The same, with what the call moved between descriptors. */
u32 call_finish_moved(struct call *call);
/* What a call gets that is not made. */
i64 call_refusal(const struct call *call);
u32 lend_baton(struct context *context);
/* Record: instead of releasing the baton around the call that is made now. */
static inline __attribute__((always_inline)) u32 lends_baton(struct context *context)
{
	return UNLIKELY(baton_is_wanted(context)) && lend_baton(context);
}

#endif
