/* What map_lines.c offers. */
#ifndef RETAKE_BASE_MAP_LINES_H
#define RETAKE_BASE_MAP_LINES_H
#include "contract/context.h"

/* A line of /proc/PID/maps. */
struct map_line {
	u64 start, end, offset, device, inode;
	/* Four letters. */
	const char *permissions;
	/* From the space before the device to the end of the line. */
	const char *rest;
};
/* Opens a file of this process in /proc for reading. At replay the kernel opens none. */
i64 open_own(u64 grant, const char *path);
u64 hexadecimal(const char **text);
struct map_line read_map_line(const char *text);
void walk_maps(void (*visit)(void *closure, const struct map_line *line), void *closure);
/* Visits the mappings between two addresses that can be read and written, some of them perhaps
 * twice. */
void walk_writable(
	u64 from, u64 to, void (*visit)(void *closure, u64 start, u64 end), void *closure);
/* The end of the readable and writable memory that begins at `from`, at most `limit`. */
u64 writable_end(u64 from, u64 limit);

#endif
