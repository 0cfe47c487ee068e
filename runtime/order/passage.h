/* What passage.c offers. */
#ifndef RETAKE_ORDER_PASSAGE_H
#define RETAKE_ORDER_PASSAGE_H
#include "contract/context.h"

/* Called when the thread has passed a counted function and was asked to come here, or in a round of
 * spinning. Returns 0 if no event names the place: then nothing may happen here. */
u32 passage(struct context *context);
/* Replay: the next event is that of a passage. */
void passage_expect(struct context *context, const struct event *event);

/* A loop may come by a place again and again with the same registers and memory. The counts tell
 * such visits apart, so a thread that was stopped between two events has cells for them, at
 * addresses where no program has memory. */

/* Record: fills in the cells, and returns how many there are. */
u64 passage_cells(const struct context *context, struct forced_cell *cells);
/* Replay: the address of a cell in memory. */
u64 passage_cell_address(const struct context *context, const struct forced_cell *cell);

#endif
