/* What namespace.c offers. */
#ifndef RETAKE_CALLS_NAMESPACE_H
#define RETAKE_CALLS_NAMESPACE_H
#include "contract/context.h"

#define CLONE_FILES 0x400UL
#define CLONE_NEWIPC 0x08000000UL
#define CLONE_NEWPID 0x20000000UL
void pid_space_inherit(const struct slot *parent, struct slot *child, u64 flags);
/* Record: enters the thread's numbers into its slot and context. `first`: it is the first of its
 * process. */
void identify_thread(struct context *context, u32 first);
/* Record: decides as the kernel would. */
u32 may_have_ipc_namespace(u64 flags);

#endif
