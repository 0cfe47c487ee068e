/* Makes several short system calls a few times each between two marks, so that `count_steps` can
 * count the instructions between marks. It first writes the address of `mark` and the names of the
 * calls. That write waits, because the pipe is full until the counter has attached.
 *
 * The calls are made without a C library, so that its instructions are not counted. Only the clock
 * is read through a C library, which knows where the kernel's code for it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The first rounds prepare what later ones find. Then an odd number of rounds, which has a middle.
 */
enum { WARM_TIMES = 200, COUNTED_TIMES = 21, PIECE = 64, FILE_BYTES = 65536 };

/* Arguments of `mark` besides the number of the next call: this call is over, all are over. */
enum { CALL_OVER = -1, ALL_OVER = -2 };

static int source, target;
static char buffer[PIECE];
static uint32_t word;

static inline long call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return result;
}

__attribute__((noipa)) static void mark(long what)
{
    __asm__ volatile("" : : "D"(what) : "memory");
}

static void do_nothing(void) {}
static void do_getppid(void) { call(SYS_getppid, 0, 0, 0); }
static void do_read(void) { call(SYS_read, source, (long)buffer, PIECE); }
static void do_write(void) { call(SYS_write, target, (long)buffer, PIECE); }
static void do_clock(void) { struct timespec time; clock_gettime(CLOCK_MONOTONIC, &time); }
static void do_futex(void) { call(SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1); }

static void do_open_close(void)
{
    long opened = call(SYS_open, (long)"/dev/null", O_RDONLY, 0);
    call(SYS_close, opened, 0, 0);
}

static const struct {
    const char *name;
    void (*work)(void);
} calls[] = {
    {"nothing", do_nothing}, {"getppid", do_getppid}, {"read", do_read}, {"write", do_write},
    {"clock_gettime", do_clock}, {"futex", do_futex}, {"open-close", do_open_close},
};

enum { CALL_COUNT = sizeof calls / sizeof *calls };

static void make(int times)
{
    for (int index = 0; index < CALL_COUNT; index++)
        for (int time = 0; time < times; time++) {
            mark(index);
            calls[index].work();
            mark(CALL_OVER);
        }
}

int main(void)
{
    char text[1024];
    target = open("counted.data", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    source = open("counted.data", O_RDONLY | O_CLOEXEC);
    if (target < 0 || source < 0 || ftruncate(target, FILE_BYTES) != 0) {
        perror("counted.data");
        return 1;
    }
    int length = snprintf(text, sizeof text, "%p", (void *)mark);
    for (int index = 0; index < CALL_COUNT; index++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %s", calls[index].name);
    text[length++] = '\n';
    make(WARM_TIMES);
    if (write(STDOUT_FILENO, text, (size_t)length) != length)
        return 1;
    make(COUNTED_TIMES);
    mark(ALL_OVER);
    return 0;
}
