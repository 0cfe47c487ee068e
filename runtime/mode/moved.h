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
/* Memory of ours for a moment. */
struct view {
	u64 start, bytes;
};
u32 moved_needed(const struct call *call);
static inline u32 moved_wanted(const struct call *call)
{
	return UNLIKELY(keeps_moved_data()) && moved_needed(call);
}
/* Where in the file that it moved them to, ~0 if nobody knows; only of calls that are needed. */
u64 moved_to(const struct call *call, u64 *bytes);
/* Items added. */
u32 moved_look(const struct call *call, struct view *view, struct extra_item *extra);
/* NULL: it cannot be had. */
const void *view_file(struct view *view, u32 descriptor, u64 start, u64 bytes);
void view_end(const struct view *view);

#endif
