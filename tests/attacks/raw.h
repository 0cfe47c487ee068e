/* System calls through an instruction of the runtime's own text: docs/DESIGN.md, "Addresses". */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

#define RUNTIME_TEXT ((unsigned char *)0x550000000000UL)
#define RUNTIME_SEARCHED 0x20000

/* `syscall; ret` */
static unsigned char *gadget(void)
{
	for (unsigned char *at = RUNTIME_TEXT; at < RUNTIME_TEXT + RUNTIME_SEARCHED; at++)
		if (at[0] == 0x0f && at[1] == 0x05 && at[2] == 0xc3)
			return at;
	return 0;
}

static long raw(long number, long a, long b, long c, long d, long e)
{
	long result = number;
	unsigned char *instruction = gadget(); /* the registers below are set after this call */
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	__asm__ volatile("sub $128, %%rsp\n\tcall *%[gadget]\n\tadd $128, %%rsp"
			 : "+a"(result)
			 : [gadget] "r"(instruction), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

/* Returns whether this is a replay: the recording answers no call that the runtime does not see. */
static int is_replay(void) { return raw(SYS_getpid, 0, 0, 0, 0, 0) != getpid(); }
