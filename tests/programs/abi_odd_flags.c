// Direction, nested-task and identification flags are the program's own: they stay set across calls, counters and faults, and handlers begin without the direction flag.
// output: same
#include "check.h"
#include <ucontext.h>

enum { DIRECTION = 0x400, NESTED = 0x4000, ALIGNMENT = 0x40000, IDENTIFICATION = 0x200000 };

static volatile uint64_t in_handler;

static uint64_t flags(void) {
    uint64_t found;
    __asm__ volatile("pushfq; popq %0" : "=r"(found));
    return found;
}

static void handler(int number, siginfo_t *info, void *context) {
    in_handler = flags();
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

// Executes `opcode` with these flags. Returns the flags after it.
#define WITH(set, opcode)                                                                                       \
    ({                                                                                                          \
        uint64_t found;                                                                                         \
        long number = SYS_getppid;                                                                              \
        __asm__ volatile("pushfq\n pushfq\n orl %[flags], (%%rsp)\n popfq\n" opcode "\n pushfq\n pop %[found]\n popfq" \
                         : [found] "=&r"(found), "+a"(number)                                                   \
                         : [flags] "i"(set)                                                                     \
                         : "rcx", "rdx", "rbx", "r11", "memory", "cc");                                         \
        found;                                                                                                  \
    })

#define EVERYWHERE(set)                                     \
    do {                                                    \
        CHECK((WITH(set, "syscall") & (set)) == (set));     \
        CHECK((WITH(set, "rdtsc") & (set)) == (set));       \
        CHECK((WITH(set, "cpuid") & (set)) == (set));       \
        CHECK((WITH(set, "ud2") & (set)) == (set));         \
    } while (0)

int main(void) {
    handle(SIGILL, handler, 0);
    EVERYWHERE(DIRECTION);
    CHECK(!(in_handler & DIRECTION));
    EVERYWHERE(NESTED);
    CHECK(in_handler & NESTED);
    EVERYWHERE(IDENTIFICATION);
    EVERYWHERE(DIRECTION | NESTED | ALIGNMENT);
    say("flags kept\n");
    return 0;
}
