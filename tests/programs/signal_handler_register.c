// A handler begins with 1 in %xmm15 and zero in all other vector registers (docs/LIMITS.md): otherwise XSAVEC would store more or less at replay.
// modes: record replay slow
#include "check.h"

static unsigned long found[32] __attribute__((aligned(16)));

__attribute__((naked)) static void handler(void) {
    __asm__ volatile(
        "lea %0, %%rax\n"
        ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "movaps %%xmm\\number, 16 * \\number(%%rax)\n"
        ".endr\n"
        "ret\n"
        : "=m"(found)
        :
        : "rax");
}

int main(void) {
    struct sigaction action = {.sa_handler = (void (*)(int))handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int round = 0; round < 3; round++) {
        memset(found, 0xff, sizeof found);
        __asm__ volatile("pcmpeqd %%xmm3, %%xmm3\npcmpeqd %%xmm15, %%xmm15\n" ::: "xmm3", "xmm15");
        CHECK(raise(SIGUSR1) == 0);
        for (int half = 0; half < 30; half++) {
            CHECK(found[half] == 0);
        }
        CHECK(found[30] == 1 && found[31] == 0);
    }
    return 0;
}
