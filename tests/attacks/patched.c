/* patched PATH: harmless, unless the two bytes behind the mark are replaced by a `syscall`: then it
 * removes the file PATH. */
#include <stdio.h>

int main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	long result = 87; /* unlink */
	__asm__ volatile(".byte 0x48, 0xb9\n\t.ascii \"RTKPATCH\"\n\t.byte 0x66, 0x90"
			 : "+a"(result)
			 : "D"(arguments[1])
			 : "rcx", "r11", "memory");
	puts("went on");
	return 0;
}
