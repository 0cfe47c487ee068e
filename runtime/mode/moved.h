/* What moved.c offers. */
#ifndef RETAKE_MODE_MOVED_H
#define RETAKE_MODE_MOVED_H
#include "base/shared.h"
#include "contract/context.h"
#include "mode/call.h"

struct extra_item;

/* FICLONE. */
#define CLONE_FILE 0x40049409u
/* FICLONERANGE. */
#define CLONE_RANGE 0x4020940du
/* A temporary mapping of the runtime. */
struct view {
	u64 start, bytes;
};
u32 moved_needed(const struct call *call);
static inline u32 moved_wanted(const struct call *call)
{
	return UNLIKELY(keeps_moved_data()) && moved_needed(call);
}
/* The file offset where the call moved the bytes, ~0 if unknown. Only for calls for which
 * moved_needed holds. */
u64 moved_to(const struct call *call, u64 *bytes);
/* Returns the number of items added. */
u32 moved_look(const struct call *call, struct view *view, struct extra_item *extra);
/* Returns NULL if the bytes cannot be read. */
const void *view_file(struct view *view, u32 descriptor, u64 start, u64 bytes);
void view_end(const struct view *view);

#endif
