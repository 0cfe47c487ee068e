/* What answer.c offers. */
#ifndef RETAKE_MODE_ANSWER_H
#define RETAKE_MODE_ANSWER_H
#include "contract/context.h"

struct call;

const struct item *call_find_item(struct call *call, u8 direction, u8 argument);
/* Verifies the call's inputs before the thread waits for its turn and takes the event. */
void call_verify_early(struct call *call);
/* Takes and verifies the event. */
void call_answer(struct call *call);
/* The item at an address. Diverges if it does not end by `end`. */
const struct item *item_at(struct context *context, const u8 *at, const u8 *end);
/* Copies a recorded output to where the kernel had put it. */
void item_restore(struct context *context, const struct item *item);
/* Copies the recorded outputs to where the kernel had put them. */
void call_finish_answered(struct call *call);

#endif
