/* What map_lines.c offers. */
#ifndef RETAKE_BASE_MAP_LINES_H
#define RETAKE_BASE_MAP_LINES_H
#include "contract/context.h"

/* Of /proc/PID/maps. */
struct map_line {
	u64 start, end, offset, device, inode;
	const char *permissions; /* four letters */
	const char *rest;	 /* from the space before the device to the end of the line */
};
/* A file of this process in /proc, for reading. At replay the kernel opens none. */
i64 open_own(u64 grant, const char *path);
u64 hexadecimal(const char **text);
struct map_line read_map_line(const char *text);
void walk_maps(void (*visit)(void *closure, const struct map_line *line), void *closure);
/* The mappings between two addresses that can be read and written; perhaps some of them twice. */
void walk_writable(
	u64 from, u64 to, void (*visit)(void *closure, u64 start, u64 end), void *closure);
/* How far all can be read and written from an address on, up to a limit. */
u64 writable_end(u64 from, u64 limit);

#endif
