// Interrupts, undefined and privileged instructions of the program raise the same as natively: signal, code, fault address, and the program's address.
// output: same
// flags: -O1
#include "check.h"
#include <ucontext.h>

static volatile int number_seen, code_seen;
static volatile long place_seen, address_seen, trap_seen;
static uintptr_t start, after;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    number_seen = number;
    code_seen = info->si_code;
    place_seen = registers[REG_RIP] - (long)start;
    address_seen = info->si_addr ? (long)info->si_addr - (long)start : -1;
    trap_seen = registers[REG_TRAPNO];
    registers[REG_RIP] = (long)after;
}

#define TRY(what, bytes)                                                                                            \
    do {                                                                                                            \
        number_seen = 0;                                                                                            \
        __asm__ volatile("lea 1f(%%rip), %%rax\n mov %%rax, %0\n lea 2f(%%rip), %%rax\n mov %%rax, %1\n"              \
                         " xor %%eax, %%eax\n xor %%edx, %%edx\n1: " bytes "\n2:"                                  \
                         : "=m"(start), "=m"(after)                                                                 \
                         :                                                                                          \
                         : "rax", "rcx", "rdx", "rbx", "r8", "r9", "r10", "r11", "memory", "cc");                   \
        say("%s: signal %d, code %d, at %ld, address %ld, trap %ld\n", what, number_seen, code_seen, place_seen,    \
            address_seen, trap_seen);                                                                               \
    } while (0)

__attribute__((noinline)) static void interrupts(void) {
    TRY("int $3", ".byte 0xcd, 3");
    TRY("int3", "int3");
    TRY("int $4", "int $4");
    TRY("int $5", "int $5");
    TRY("int $6", "int $6");
    TRY("int $0x31", "int $0x31");
    TRY("int $0xa2", "int $0xa2");
    TRY("int $0xd3", "int $0xd3");
    TRY("int $0xe0", "int $0xe0");
    TRY("int $0xf9", "int $0xf9\n nop");
}

// Separate, because a function with such bytes is not taken for code.
__attribute__((noinline)) static void undefined(void) {
    TRY("int1", ".byte 0xf1");
    TRY("into", ".byte 0xce");
    TRY("ud0", ".byte 0x0f, 0xff, 0xc0");
    TRY("ud1", ".byte 0x0f, 0xb9, 0xc0");
    TRY("ud2", "ud2");
    TRY("hlt", "hlt");
    TRY("cli", "cli");
    TRY("in", "inb $0x80, %%al");
    TRY("out", "outb %%al, %%dx");
    TRY("rdmsr", "rdmsr");
    TRY("divide", "div %%edx");
    TRY("far pointer", "movq $0x8000000000000000, %%rax\n movb (%%rax), %%al");
}

int main(void) {
    int signals[] = {SIGSEGV, SIGILL, SIGTRAP, SIGFPE, SIGBUS};
    for (size_t index = 0; index < sizeof signals / sizeof signals[0]; index++) {
        handle(signals[index], handler, 0);
    }
    interrupts();
    undefined();
    return 0;
}
