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

#endif
