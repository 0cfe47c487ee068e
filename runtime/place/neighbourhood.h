/* What neighbourhood.c offers. */
#ifndef RETAKE_PLACE_NEIGHBOURHOOD_H
#define RETAKE_PLACE_NEIGHBOURHOOD_H
#include "contract/context.h"

/* The frames of callers distinguish the rounds of an outer loop. */
#define STACK_WINDOW 0x8000UL
#define BUSY_MOST 512
/* Memory that the kernel may be writing. A count above BUSY_MOST: some ranges did not fit. */
struct busy {
	u64 count;
	struct address_range ranges[BUSY_MOST];
};
void find_busy(struct context *context, struct busy *busy);
u32 is_busy(const struct busy *busy, u64 start, u64 end);
/* The end of the part of [from, limit) whose content is the same at replay. */
u64 own_end(u64 from, u64 limit);
/* The number of bytes to compare, from the end of the red zone on. */
u64 stack_window(struct context *context, const struct busy *busy);
u64 stack_hash(u64 rsp, u64 bytes);
u64 find_areas(struct context *context, const struct busy *busy, u64 stack_bytes, u64 *areas);
static inline u64 area_start(u64 area) { return area & ~63UL; }
/* Returns 0 if part of the areas cannot be read. */
u64 areas_hash(const u64 *areas, u64 count);

#endif
