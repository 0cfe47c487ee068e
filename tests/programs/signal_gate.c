// `int $0x80` in a 64-bit program is refused: it faults, as in a kernel without 32-bit programs, and makes no call of another number.
// modes: record replay slow
// stdout: ^refused$
// flags: -O1
#include "check.h"
#include <ucontext.h>

static volatile long place;
static volatile int caught;
static uintptr_t gate;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK(number == SIGSEGV && info->si_code == SI_KERNEL && info->si_addr == NULL);
    CHECK((uintptr_t)registers[REG_RIP] == gate && registers[REG_TRAPNO] == 13);
    registers[REG_RIP] += 2;
    caught++;
}

static inline long by_gate(long number) {
    long result;
    __asm__ volatile("lea 1f(%%rip), %%rcx\n mov %%rcx, %1\n1: int $0x80"
                     : "=a"(result), "=m"(gate)
                     : "a"(number)
                     : "rcx", "r8", "r9", "r10", "r11", "memory");
    return result;
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        by_gate(20);
        _exit(0);
    }
    expect_killed(child, SIGSEGV);
    handle(SIGSEGV, handler, 0);
    CHECK(by_gate(20) == 20 && caught == 1); // 20 is getpid there, writev here
    CHECK(by_gate(1) == 1 && caught == 2);   // exit there, write here
    CHECK(getpid() > 0);
    say("refused\n");
    return 0;
}
