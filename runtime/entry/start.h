/* What start.c offers. */
#ifndef RETAKE_ENTRY_START_H
#define RETAKE_ENTRY_START_H
#include "contract/context.h"

void populate_text(void); /* record: after the text appeared in this process */
char *put_decimal(char *end, u64 value); /* digits and a zero, up to there; where they begin */
void replay_exec(struct context *context, const struct event *event) NORETURN;
void note_ignored(struct context *context); /* what exec keeps of the dispositions goes into the slot */

#endif
