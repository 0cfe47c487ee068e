/* What start.c offers. */
#ifndef RETAKE_ENTRY_START_H
#define RETAKE_ENTRY_START_H
#include "contract/context.h"

void replay_exec(struct context *context, const struct event *event) NORETURN;

#endif
