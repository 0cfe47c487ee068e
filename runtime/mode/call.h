/* What call.c offers. */
#ifndef RETAKE_MODE_CALL_H
#define RETAKE_MODE_CALL_H
#include "contract/context.h"
#include "gen/table.h"

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
void call_begin(struct call *call, struct context *context);
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
/* Returns LEAVE_* ; the result is in call->result. */
typedef u32 custom_handler(struct call *call);
#define DECLARE_HANDLER(name) u32 handle_##name(struct call *call);
CUSTOM_HANDLERS(DECLARE_HANDLER)
/* By the handler that its row names. */
u32 handle_custom(struct call *call);
u32 runtime_syscall(struct context *context);

/* The windows in which calls wait that are made in place. */
extern const char plain_window_start[], plain_window_call[], plain_window_abort[],
	other_window_start[], other_window_call[], other_window_abort[];

#endif
