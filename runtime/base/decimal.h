/* Numbers as text. */
#ifndef RETAKE_BASE_DECIMAL_H
#define RETAKE_BASE_DECIMAL_H
#include "base/types.h"

/* Writes the digits and a NUL so that they end at `end`. Returns where they begin. */
static inline char *put_decimal(char *end, u64 value)
{
	*--end = 0;
	do
		*--end = (char)('0' + value % 10);
	while (value /= 10);
	return end;
}

/* The path of a descriptor's link in /proc/self/fd. It is built in `path`. */
static inline char *descriptor_link(char path[32], u32 descriptor)
{
	static const char folder[14] = "/proc/self/fd/";
	char *at = put_decimal(path + 32, descriptor) - sizeof folder;
	memcpy(at, folder, sizeof folder);
	return at;
}

#endif
