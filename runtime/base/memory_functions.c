/* The four functions that the compiler may call on its own. General registers only; any stack;
 * async-signal-safe. */
#include "base/types.h"

/* Below this size, starting a string instruction costs more than it saves. */
#define STRING_INSTRUCTION_BYTES 512

typedef u64 __attribute__((may_alias, aligned(1))) unaligned;

void *memcpy(void *destination, const void *source, u64 bytes)
{
	void *result = destination;
	if (bytes < STRING_INSTRUCTION_BYTES) {
		u8 *to = destination;
		const u8 *from = source;
		for (; bytes >= 8; bytes -= 8, to += 8, from += 8)
			*(unaligned *)to = *(const unaligned *)from;
		while (bytes--) {
			*to++ = *from++;
			/* Keeps the compiler from turning this loop into a call of memcpy. */
			__asm__ volatile("" : : : "memory");
		}
		return result;
	}
	__asm__ volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(bytes) : : "memory");
	return result;
}

void *memset(void *destination, int value, u64 bytes)
{
	void *result = destination;
	if (bytes < STRING_INSTRUCTION_BYTES) {
		u8 *to = destination;
		u64 pattern = (u8)value * 0x0101010101010101UL;
		for (; bytes >= 8; bytes -= 8, to += 8)
			*(unaligned *)to = pattern;
		while (bytes--) {
			*to++ = (u8)value;
			__asm__ volatile("" : : : "memory");
		}
		return result;
	}
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
