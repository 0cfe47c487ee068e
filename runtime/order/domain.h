/* What domain.c offers. */
#ifndef RETAKE_ORDER_DOMAIN_H
#define RETAKE_ORDER_DOMAIN_H
#include "contract/context.h"

/* The first thing in a new stream that has a domain. */
void baton_begin(struct context *context);
/* A process that was forked off. */
void baton_inherit(struct context *child);
/* Record: from here on the process has a domain. */
void baton_create(struct context *context);
/* Record: from here on it is that of all processes that share memory. */
void baton_join(struct context *context);
void baton_end_process(struct context *context);
/* The thread will run no more user code. */
void baton_end(struct context *context);

#endif
