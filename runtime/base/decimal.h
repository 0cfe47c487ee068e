/* Numbers as text. */
#ifndef RETAKE_BASE_DECIMAL_H
#define RETAKE_BASE_DECIMAL_H
#include "base/types.h"

/* Digits and a zero, up to there; where they begin. */
static inline char *put_decimal(char *end, u64 value)
{
	*--end = 0;
	do
		*--end = (char)('0' + value % 10);
	while (value /= 10);
	return end;
}

/* The link in /proc that leads to what a descriptor of the process leads to; it lies in `path`. */
static inline char *descriptor_link(char path[32], u32 descriptor)
{
	static const char folder[14] = "/proc/self/fd/";
	char *at = put_decimal(path + 32, descriptor) - sizeof folder;
	memcpy(at, folder, sizeof folder);
	return at;
}

#endif
