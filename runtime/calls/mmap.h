/* What the files about mappings share. */
#ifndef RETAKE_CALLS_MMAP_H
#define RETAKE_CALLS_MMAP_H
#include "base/sys.h"
#include "contract/context.h"

#define SHM_RDONLY 010000
#define SHM_REMAP 040000
#define SHM_EXEC 0100000
#define ADDRESS_END 0x7ffffffff000UL /* of a program's memory */

static inline u32 touches_runtime(u64 start, u64 bytes)
{
	return start < RUNTIME_END && start + bytes > RUNTIME_TEXT && bytes;
}
/* The size of an ITEM_MAPPING's body. */
static inline u32 mapping_bytes(u32 overlay_count)
{
	return (u32) __builtin_offsetof(struct mapping_body, overlays) +
	       overlay_count * (u32)sizeof(struct mapping_overlay);
}
u32 holds_mapping(const struct item *item);
/* Replay: see mmap.c. */
i64 open_shared(struct context *context, const struct mapping_body *body);

#endif
