// No bug: its handler gets the address of each faulting instruction, wherever the thread is
// stopped. Exits with status 1 if an address is wrong.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ROUNDS = 400, DIVISION_BYTES = 4, OTHER_BYTES = 2, NOWHERE = 64, DIVISION_BY_ZERO_MASK = 0x200 };

extern char division[], illegal[], stored[];
static volatile int faults, over;

static void on_fault(int number, siginfo_t *info, void *frame) {
    ucontext_t *user = frame;
    char *expected = number == SIGFPE ? division : number == SIGILL ? illegal : stored;
    void *address = number == SIGSEGV ? (void *)(long)NOWHERE : expected;
    if ((char *)user->uc_mcontext.gregs[REG_RIP] != expected || info->si_addr != address) {
        _exit(1);
    }
    user->uc_mcontext.gregs[REG_RIP] += number == SIGFPE ? DIVISION_BYTES : OTHER_BYTES;
    faults++;
}

static void *make_calls(void *nothing) {
    while (!over) {
        syscall(SYS_getppid);
    }
    return nothing;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    pthread_t thread;
    unsigned control;
    double zero = 0, one = 1;
    unsigned long sum = 0;
    if (sigaction(SIGFPE, &action, NULL) || sigaction(SIGILL, &action, NULL) || sigaction(SIGSEGV, &action, NULL) || pthread_create(&thread, NULL, make_calls, NULL)) {
        return 2;
    }
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    control &= ~(unsigned)DIVISION_BY_ZERO_MASK;
    for (int round = 0; round < ROUNDS; round++) {
        syscall(SYS_getppid);
        __asm__ volatile("ldmxcsr %0" : : "m"(control));
        for (int i = 0; i < round % 7; i++) {
            sum = sum * 31 + i;
        }
        __asm__ volatile(".globl division\ndivision: divsd %1, %0" : "+x"(one) : "x"(zero));
        __asm__ volatile(".globl illegal\nillegal: ud2");
        __asm__ volatile(".globl stored\nstored: mov %%eax, (%%rcx)" : : "a"(1), "c"((long)NOWHERE) : "memory");
        __asm__ volatile("" : "+r"(sum));
    }
    over = 1;
    pthread_join(thread, NULL);
    printf("%d faults, %lu\n", faults, sum);
    return 0;
}
