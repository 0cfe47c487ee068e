// A timer interrupts a loop that jumps, through a table, to short instructions that lie side by side, as an interpreter does: nothing in the code
// says that there are two ways in.
// group: forced
// flags: -O2
#include "check.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    ticks++;
}

__asm__(".data\n.balign 8\nplaces: .quad first_place, second_place\n.text\n");
extern void *const places[2];

int main(void) {
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 3000}, .it_value = {0, 3000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    unsigned long first = 0, second = 0, third = 0, which = 0;
    for (int round = 1; round <= 40; round++) {
        __asm__ volatile("1: xor $1, %[which]\n"
                         "jmp *(%[places], %[which], 8)\n"
                         "first_place: inc %[first]\n"
                         "second_place: inc %[second]\n"
                         "inc %[third]\n"
                         "cmp %[round], (%[ticks])\n"
                         "jl 1b\n"
                         : [first] "+r"(first), [second] "+r"(second), [third] "+r"(third), [which] "+r"(which)
                         : [places] "r"(places), [round] "r"(round), [ticks] "r"(&ticks)
                         : "memory", "cc");
        say("%lu %lu %lu\n", first, second, third);
    }
    return 0;
}
