/* What home.c offers. */
#ifndef RETAKE_ORDER_HOME_H
#define RETAKE_ORDER_HOME_H
#include "contract/context.h"
void home_follow(struct context *context, struct domain *domain, u64 turn); /* to the core where its domain is, or may go */
void home_leave(struct context *context);     /* it takes no more turns there, or becomes another program */
void home_inherit(const struct slot *parent, struct slot *child); /* before the child is made */

#endif
