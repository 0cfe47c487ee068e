/* What start.c offers. */
#ifndef RETAKE_ENTRY_START_H
#define RETAKE_ENTRY_START_H
#include "contract/context.h"

/* Record: after the text appeared in this process. */
void populate_text(void);
/* Digits and a zero, up to there; where they begin. */
char *put_decimal(char *end, u64 value);
void replay_exec(struct context *context, const struct event *event) NORETURN;
/* What exec keeps of the dispositions goes into the slot. */
void note_ignored(struct context *context);

#endif
