/* The windows for calls that may wait, inlined at the call's place. */
#ifndef RETAKE_MODE_WINDOW_H
#define RETAKE_MODE_WINDOW_H
#include "base/user.h"
#include "contract/context.h"

/* As call_kernel_window, but inlined. On processors that protect their return predictions, every
 * return to an earlier caller is mispredicted after a call of the kernel, which costs half as much
 * as a call. Each window must exist only once, because its labels are global. */
#define WINDOW_HERE(name)                                                                      \
	static inline __attribute__((always_inline))                                           \
	i64 name##_here(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)                  \
	{                                                                                      \
		i64 result;                                                                    \
		register u64 r10 __asm__("r10") = d;                                           \
		register u64 r8 __asm__("r8") = e;                                             \
		register u64 r9 __asm__("r9") = f;                                             \
		__asm__ volatile(                                                              \
			".globl " #name "_start, " #name "_call, " #name "_abort\n" #name      \
			"_start:\n\tcmpl $0, %%gs:%c[deferred]\n\tjne " #name "_abort\n" #name \
			"_call:\n\tsyscall\n1:\n"                                              \
			".pushsection .text.cold, \"ax\"\n" #name                              \
			"_abort:\n\tmov %[aborted], %%rax\n\tjmp 1b\n.popsection"              \
			: "=a"(result)                                                         \
			: "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9),     \
			[deferred] "i"(__builtin_offsetof(struct context, deferred_count)),    \
			[aborted] "i"(CALL_ABORTED)                                            \
			: "rcx", "r11", "memory", "cc");                                       \
		return result;                                                                 \
	}

/* The windows of calls on the short path, and of all others. */
extern const char plain_window_start[], plain_window_call[], plain_window_abort[],
	other_window_start[], other_window_call[], other_window_abort[];

#endif
