/* The program of the recordings in this folder: it prints a random number, and ends with 3. It
 * needs no library, and nothing of the processor that all do not have. */
#include <sys/syscall.h>

static long call(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

void _start(void)
{
	char text[] = "kept ........\n";
	unsigned char random[4];
	call(SYS_getrandom, (long)random, sizeof random, 0);
	for (int i = 0; i < 8; i++)
		text[5 + i] = "0123456789abcdef"[i % 2 ? random[i / 2] & 15 : random[i / 2] >> 4];
	call(SYS_write, 1, (long)text, sizeof text - 1);
	call(SYS_exit_group, 3, 0, 0);
	__builtin_unreachable();
}
