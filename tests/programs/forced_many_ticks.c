// Two hundred ticks of a fast timer in a program that sorts, hashes and allocates without system calls.
// group: forced
// flags: -O2
#include "check.h"
#include <sys/time.h>

#define TICKS 200
#define VALUES 512

static volatile sig_atomic_t ticks;
static volatile unsigned long seen;
static unsigned long values[VALUES];

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    ticks++;
    seen = seen * 31 + values[ticks % VALUES];
}

static int compare(const void *left, const void *right) {
    unsigned long a = *(const unsigned long *)left, b = *(const unsigned long *)right;
    return a < b ? -1 : a > b;
}

int main(void) {
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    unsigned long random = 1, rounds = 0;
    while (ticks < TICKS) {
        for (unsigned index = 0; index < VALUES; index++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            values[index] = random >> 20;
        }
        qsort(values, VALUES, sizeof *values, compare);
        char *text = malloc(64);
        CHECK(text != NULL);
        snprintf(text, 64, "%lx %f", values[7], (double)values[9]);
        random += digest(text, strlen(text));
        free(text);
        rounds++;
    }
    say("%lu rounds, %lx, seen %lx\n", rounds, random, seen);
    return 0;
}
