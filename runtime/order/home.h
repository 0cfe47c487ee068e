/* What home.c offers. */
#ifndef RETAKE_ORDER_HOME_H
#define RETAKE_ORDER_HOME_H
#include "contract/context.h"
/* Moves the thread to the core of its domain, or frees it. */
void home_follow(struct context *context, struct domain *domain, u64 turn);
/* The thread takes no more turns there, or becomes another program. */
void home_leave(struct context *context);
/* Called before the child is made. */
void home_inherit(const struct slot *parent, struct slot *child);
/* Record: called before the program sets, or queries, where a thread of its process may run (0: all
 * threads). */
void home_set_free(const struct context *context, u32 only);

#endif
