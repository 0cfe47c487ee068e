// The alignment-check flag is the program's own: it stays set across calls, faults, signals and recorded instructions.
// output: same
// flags: -O1
#include "check.h"
#include <sys/time.h>
#include <ucontext.h>

enum { ALIGNMENT = 0x40000 };
#define SET __asm__ volatile("pushfq; orl $0x40000, (%%rsp); popfq" ::: "memory", "cc")
#define CLEAR __asm__ volatile("pushfq; andl $~0x40000, (%%rsp); popfq" ::: "memory", "cc")

static volatile int hits;
static volatile uint64_t flags_in_handler;
static uint64_t words[4];

static inline uint64_t flags(void) {
    uint64_t found;
    __asm__ volatile("pushfq; popq %0" : "=r"(found));
    return found;
}

static inline long bare(long number, const void *a, unsigned long b) {
    long result;
    register unsigned long r10 __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(0), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

// The kernel does not clear the flag for a handler.
static void handler(int number, siginfo_t *info, void *context) {
    uint64_t found = flags();
    CLEAR;
    (void)number, (void)info;
    hits++;
    flags_in_handler = found;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~ALIGNMENT;
}

// As above, but returning from the handler sets the flag again.
static void keeping_handler(int number, siginfo_t *info, void *context) {
    CLEAR;
    (void)number, (void)info;
    hits++;
    CHECK(((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] & ALIGNMENT);
}

static void calls(void) {
    char text[] = "xopen nothing here", *odd = text + 1;
    SET;
    long parent = bare(SYS_getppid, 0, 0);
    long opened = bare(SYS_open, odd, 0); // a path at an odd address
    uint64_t found = flags();
    CLEAR;
    CHECK(parent > 0 && opened == -ENOENT && found & ALIGNMENT);
    say("calls\n");
}

static void fault(void) {
    handle(SIGBUS, handler, 0);
    SET;
    uint64_t loaded;
    __asm__ volatile("movq 1(%1), %0" : "=r"(loaded) : "r"(words));
    CLEAR;
    CHECK(hits == 1 && flags_in_handler & ALIGNMENT);
    say("fault\n");
}

static void alarm_arrives(void) {
    handle(SIGALRM, handler, 0);
    struct itimerval timer = {{0, 0}, {0, 20000}};
    hits = 0;
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    SET;
    while (!hits) {
        __asm__ volatile("");
    }
    CLEAR;
    CHECK(hits == 1);
    say("alarm\n");
}

static void way_back(void) {
    handle(SIGUSR1, keeping_handler, 0);
    hits = 0;
    long self = getpid();
    SET;
    bare(SYS_kill, (void *)self, SIGUSR1);
    uint64_t found = flags();
    CLEAR;
    CHECK(hits == 1 && found & ALIGNMENT);
    say("way back\n");
}

static void counter(void) {
    unsigned low, high, aux, eax = 0, ebx, ecx = 0, edx;
    SET;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
    __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    uint64_t found = flags();
    CLEAR;
    CHECK(found & ALIGNMENT);
    say("counter\n");
}

// A fault caused by the flag kills a child without a handler.
static void unhandled(void) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        SET;
        __asm__ volatile("movq 1(%0), %%rax" : : "r"(words) : "rax");
        _exit(0);
    }
    expect_killed(child, SIGBUS);
    say("unhandled\n");
}

int main(void) {
    calls();
    fault();
    alarm_arrives();
    way_back();
    counter();
    unhandled();
    return 0;
}
