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
u64 hexadecimal(const char **text);
struct map_line read_map_line(const char *text);
void walk_maps(void (*visit)(void *closure, const struct map_line *line), void *closure);
/* What can be read and written; perhaps some of it twice. */
void walk_writable(void (*visit)(void *closure, u64 start, u64 end), void *closure);

#endif
