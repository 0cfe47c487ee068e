/* What log.c offers. */
#ifndef RETAKE_LOG_LOG_H
#define RETAKE_LOG_LOG_H
#include "contract/context.h"
#include "log/window.h"

const struct event *log_take(struct context *context, u8 kind, u16 number);
/* Tells the supervisor where this thread is, in case it waits for ever. */
void log_stand_at(struct context *context);
void diverge(struct context *context, u64 why, u64 expected, u64 actual) NORETURN;

#endif
