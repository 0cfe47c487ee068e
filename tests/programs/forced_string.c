// A signal in the middle of a repeated string instruction.
// group: forced
// flags: -O2
#include "check.h"
#include <sys/time.h>

#define BYTES (1 << 20)

static volatile sig_atomic_t rung;
static char from[BYTES], to[BYTES];

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    rung++;
}

static void copy(void *target, const void *source, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
}

static size_t find(const void *memory, size_t bytes, char byte) {
    size_t left = bytes;
    __asm__ volatile("repne scasb" : "+D"(memory), "+c"(left) : "a"(byte) : "memory", "cc");
    return bytes - left;
}

int main(void) {
    memset(from, 'x', sizeof from);
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 6000}, .it_value = {0, 6000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    unsigned long copies = 0, searches = 0, found = 0;
    while (rung < 4) {
        from[copies++ % BYTES] ^= 3;
        copy(to, from, BYTES);
    }
    while (rung < 8) {
        found += find(to, BYTES, '\0');
        searches++;
    }
    say("%lu copies, %lu searches, %lu, digest %lx\n", copies, searches, found, (unsigned long)digest(to, BYTES));
    return 0;
}
