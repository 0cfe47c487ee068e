// Pages of text outside all functions that contain the bytes of calls: they can be read, look executable, and calls executed there are intercepted.
// group: intercept
// output: same
#include "check.h"
#include <sys/prctl.h>

// Two pages of data that happen to be code; neither has a symbol's type or size. The function before them makes a call, so the file gets an image.
__asm__(".text\n.balign 4096\nblob: .fill 4096,1,0x1b\npush $110\npop %rax\nsyscall\nret\nrdtsc\nret\n.balign 4096,0x1b\n");
extern const unsigned char blob[];
static const unsigned char *volatile start = blob; // so that the patcher cannot decode a call to it

static long blob_call(void) {
    return ((long (*)(void))(start + 4096))();
}

static unsigned blob_counter(void) {
    return ((unsigned (*)(void))(start + 4096 + 6))();
}

static long __attribute__((noinline)) own_call(void) {
    long number = SYS_getppid;
    __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
    return number;
}

static void show_map(const void *address) {
    char line[300], permissions[5];
    unsigned long start, end, found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &start, &end, permissions) == 3 && start <= (unsigned long)address && (unsigned long)address < end) {
            say("%s, with what is around it: %d\n", permissions, start <= (unsigned long)own_call && (unsigned long)own_call < end);
            found++;
        }
    CHECK(found == 1 && fclose(maps) == 0);
}

int main(void) {
    guard();
    unsigned sum = 0;
    for (unsigned i = 0; i < 8192; i++)
        sum += blob[i];
    say("%u\n", sum);
    show_map(blob);
    show_map(blob + 4096);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(blob_counter() != 0 && blob_call() == own_call());
        show_map(blob);
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(blob_call() == getppid() && blob_call() == own_call());
    unsigned first = blob_counter(), second = blob_counter();
    say("%u\n", first == second);
    return 0;
}
