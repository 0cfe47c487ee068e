// No bug: a thread does little but divide by zero, so that the signal that stops it often comes
// while one of its own is being raised.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

enum { DIVISION_BYTES = 4, DIVISION_BY_ZERO = 0x4, MASK_OF_IT = 0x200, FAULTS = 1000 };

static volatile int faults, flags_missing;

static void on_fault(int number, siginfo_t *info, void *frame) {
    ucontext_t *user = frame;
    flags_missing += !(user->uc_mcontext.fpregs->mxcsr & DIVISION_BY_ZERO);
    user->uc_mcontext.fpregs->mxcsr &= ~(unsigned)DIVISION_BY_ZERO;
    user->uc_mcontext.gregs[REG_RIP] += DIVISION_BYTES;
    faults++;
}

static void *count(void *nothing) {
    for (volatile long rounds = 0; faults < FAULTS; rounds++) {
    }
    return nothing;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    pthread_t thread;
    unsigned control;
    double zero = 0, one = 1;
    if (sigaction(SIGFPE, &action, NULL) || pthread_create(&thread, NULL, count, NULL)) {
        return 2;
    }
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    control &= ~(unsigned)MASK_OF_IT;
    __asm__ volatile("ldmxcsr %0" : : "m"(control));
    while (faults < FAULTS) {
        __asm__ volatile("divsd %1, %0" : "+x"(one) : "x"(zero));
    }
    pthread_join(thread, NULL);
    printf("%d faults, %d without the flag\n", faults, flags_missing);
    return 0;
}
