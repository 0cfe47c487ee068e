/* Looks for system call instructions in the runtime's text, and makes a file through each: what it does there nobody records.
 * A recording made with intent can hold such code, and replay runs it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

static sigjmp_buf back;

static void leave(int number) { siglongjmp(back, number); }

static void make_through(unsigned char *instruction, const char *name)
{
	unsigned char *text = instruction;
	long result = SYS_openat;
	register long mode __asm__("r10") = 0600;
	/* Whatever follows the instruction faults sooner or later, or comes back. */
	__asm__ volatile("call *%1"
			 : "+a"(result)
			 : "r"(text), "D"((long)AT_FDCWD), "S"(name), "d"((long)(O_CREAT | O_WRONLY)), "r"(mode)
			 : "rcx", "r11", "memory");
}

int main(int count, char **arguments)
{
	/* The runtime's text: docs/DESIGN.md, "Addresses". */
	unsigned char *text = (unsigned char *)0x550000000000UL;
	if (count != 2)
		return 2;
	for (int number = 1; number < 32; number++)
		if (number != SIGKILL && number != SIGSTOP)
			signal(number, leave);
	for (volatile long at = 0; at < 0x40000; at++) {
		if (sigsetjmp(back, 1))
			continue;
		if (text[at] == 0x0f && text[at + 1] == 0x05)
			make_through(text + at, arguments[1]);
	}
	puts("tried");
	return 0;
}
