/* What descriptors.c offers. */
#ifndef RETAKE_MODE_DESCRIPTORS_H
#define RETAKE_MODE_DESCRIPTORS_H
#include "base/state.h"
#include "base/sys.h"
#include "contract/context.h"
#include "gen/numbers.h"

struct call;

u32 seldom_descriptor_use(const struct process *process, u64 descriptor);
/* The use of a descriptor: DESCRIPTOR_*, or 0. */
static inline u32 descriptor_use(const struct process *process, u64 descriptor)
{
	return LIKELY(descriptor < LOW_DESCRIPTORS && !process->mixed_descriptors)
		       ? process->uses.low[descriptor]
		       : seldom_descriptor_use(process, descriptor);
}
/* Returns whether only the calling thread can move the descriptor's position. */
static inline u32 owns_position(const struct process *process, u64 descriptor)
{
	return !process->domain && !process->mixed_descriptors && !HEADER->descriptors_taken &&
	       descriptor < LOW_DESCRIPTORS &&
	       process->positions[descriptor / 64] >> descriptor % 64 & 1;
}
#define O_NONBLOCK 04000
#define O_PATH 010000000
static inline i64 status_flags(u64 descriptor)
{
	return sys3(NR_fcntl, (u32)descriptor, 3 /* F_GETFL */, 0);
}
/* Returns whether the next call, which may wait, returns soon. */
u32 descriptor_is_soon_back(struct context *context);
/* Keeps the uses of the descriptors that exec left open. */
void descriptors_inherit(struct process *process, const struct descriptor_uses *before);
void descriptors_after(struct call *call);
/* Returns whether the next call leaves the known uses of descriptors unchanged. Then
 * descriptors_after need not follow. */
u32 descriptors_stay_known(const struct context *context);

#endif
