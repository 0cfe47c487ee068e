/* Plain types and the few helpers every file uses. Freestanding: no libc header anywhere in the
 * runtime. */
#ifndef RETAKE_TYPES_H
#define RETAKE_TYPES_H

/* Applies to declarations, too: no address goes through a table. */
#pragma GCC visibility push(hidden)

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef int i32;
typedef long i64;

#define NULL ((void *)0)
#define UNUSED __attribute__((unused))
#define NORETURN __attribute__((noreturn))
/* A structure whose initialisers must name the fields. */
#ifdef __clang__
#define FIELDS_BY_NAME
#else
#define FIELDS_BY_NAME __attribute__((designated_init))
#endif
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* A function that ordinary calls do not reach. */
#define SELDOM __attribute__((cold, noinline))
#define PAGE_BYTES 4096UL
#define PAGE_FLOOR(x) ((u64)(x) & ~(PAGE_BYTES - 1))
#define PAGE_CEIL(x) PAGE_FLOOR((u64)(x) + PAGE_BYTES - 1)
#define ALIGN8(x) (((u64)(x) + 7) & ~7UL)

static inline u64 minimum(u64 a, u64 b) { return a < b ? a : b; }

/* The compiler may call these for structure copies; they live in memory_functions.c. */
void *memcpy(void *destination, const void *source, u64 bytes);
void *memset(void *destination, int value, u64 bytes);
int memcmp(const void *left, const void *right, u64 bytes);
void *memmove(void *destination, const void *source, u64 bytes);

#endif
