/* Makes the small system call getppid as often as its argument says: the cost of one recorded call.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long call_count = argc > 1 ? atol(argv[1]) : 600000;
    long parent = getppid();
    long different_count = 0;
    for (long index = 0; index < call_count; index++)
        different_count += syscall(SYS_getppid) != parent;
    printf("%ld calls, %ld different\n", call_count, different_count);
    return different_count != 0;
}
