/* System calls that the runtime makes for itself. */
#ifndef RETAKE_BASE_SYS_H
#define RETAKE_BASE_SYS_H
#include "base/types.h"

#define PROT_READ 1u
#define PROT_WRITE 2u
#define PROT_EXEC 4u
#define MAP_SHARED 1u
#define MAP_PRIVATE 2u
#define MAP_TYPE 15u
#define MAP_FIXED 0x10u
#define MAP_ANONYMOUS 0x20u
#define MAP_GROWSDOWN 0x100u
#define MAP_NORESERVE 0x4000u
#define MAP_FIXED_NOREPLACE 0x100000u
#define O_NONBLOCK 04000
#define O_NOFOLLOW 0400000
#define O_CLOEXEC 02000000
/* Of st_mode: the type of a file. */
#define MODE_KIND 0170000u
#define MODE_REGULAR 0100000u

static inline i64 sys6(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	i64 result;
	register u64 r10 __asm__("r10") = d;
	register u64 r8 __asm__("r8") = e;
	register u64 r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#define sys0(n) sys6(n, 0, 0, 0, 0, 0, 0)
#define sys1(n, a) sys6(n, (u64)(a), 0, 0, 0, 0, 0)
#define sys2(n, a, b) sys6(n, (u64)(a), (u64)(b), 0, 0, 0, 0)
#define sys3(n, a, b, c) sys6(n, (u64)(a), (u64)(b), (u64)(c), 0, 0, 0)
#define sys4(n, a, b, c, d) sys6(n, (u64)(a), (u64)(b), (u64)(c), (u64)(d), 0, 0)
#define sys5(n, a, b, c, d, e) sys6(n, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), 0)
/* The number of the core. The kernel keeps it in the limit of this segment, so that programs can
 * read it without a call. */
static inline u32 this_core(void)
{
	u64 limit = 0;
	__asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(0x7bUL) : "cc");
	return limit & 0xfff;
}

#endif
