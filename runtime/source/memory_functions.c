/* The four functions the compiler may call by itself. General registers only; any stack; async-signal-safe. */
#include "../include/types.h"

void *memcpy(void *destination, const void *source, u64 bytes)
{
	void *result = destination;
	__asm__ volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(bytes) : : "memory");
	return result;
}

void *memset(void *destination, int value, u64 bytes)
{
	void *result = destination;
	__asm__ volatile("rep stosb" : "+D"(destination), "+c"(bytes) : "a"(value) : "memory");
	return result;
}

int memcmp(const void *left, const void *right, u64 bytes)
{
	const u8 *a = left, *b = right;
	for (u64 i = 0; i < bytes; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

void *memmove(void *destination, const void *source, u64 bytes)
{
	u8 *to = destination;
	const u8 *from = source;
	if (to <= from || to >= from + bytes)
		return memcpy(destination, source, bytes);
	while (bytes--)
		to[bytes] = from[bytes];
	return destination;
}
