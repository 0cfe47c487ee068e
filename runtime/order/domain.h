/* What domain.c offers. */
#ifndef RETAKE_ORDER_DOMAIN_H
#define RETAKE_ORDER_DOMAIN_H
#include "contract/context.h"

/* Called first in a new stream that has a domain. */
void baton_begin(struct context *context);
/* Called for a forked process. */
void baton_inherit(struct context *child);
/* Record: gives the process a domain. */
void baton_create(struct context *context);
/* Record: moves the process to the domain of all processes that share memory. */
void baton_join(struct context *context);
void baton_end_process(struct context *context);
/* The thread will run no more user code. */
void baton_end(struct context *context);

#endif
