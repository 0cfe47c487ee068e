/* What home.c offers. */
#ifndef RETAKE_ORDER_HOME_H
#define RETAKE_ORDER_HOME_H
#include "contract/context.h"
/* To the core where its domain is, or may go. */
void home_follow(struct context *context, struct domain *domain, u64 turn);
/* It takes no more turns there, or becomes another program. */
void home_leave(struct context *context);
/* Before the child is made. */
void home_inherit(const struct slot *parent, struct slot *child);
/* Record: before the program says, or asks, where a thread of its process may run (0: all of them).
 */
void home_set_free(const struct context *context, u32 only);

#endif
