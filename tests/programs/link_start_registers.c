// Registers at a program's first instruction: the kernel clears them, and so must the runtime.
// flags: -nostdlib -static -ffreestanding -fno-stack-protector -mno-sse
// status: 0
// output: same

unsigned long found[16];

static long raw(long number, long first) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first) : "rcx", "r11", "memory");
    return result;
}

__attribute__((noreturn, used)) static void begin(void) {
    int wrong = 0;
    for (int index = 0; index < 15; index++) {
        if (found[index] != 0) {
            // The status names the register: 1 is rax.
            wrong = index + 1;
        }
    }
    // Of the flags, only the interrupt flag and the bit that is always one are set.
    if ((found[15] & 0xcd5) != 0) {
        wrong = 16;
    }
    raw(231, wrong);
    for (;;) {
    }
}

__asm__(".globl _start\n_start:\n"
        "mov %rax, found(%rip)\n mov %rbx, found+8(%rip)\n mov %rcx, found+16(%rip)\n mov %rdx, found+24(%rip)\n"
        "mov %rsi, found+32(%rip)\n mov %rdi, found+40(%rip)\n mov %rbp, found+48(%rip)\n mov %r8, found+56(%rip)\n"
        "mov %r9, found+64(%rip)\n mov %r10, found+72(%rip)\n mov %r11, found+80(%rip)\n mov %r12, found+88(%rip)\n"
        "mov %r13, found+96(%rip)\n mov %r14, found+104(%rip)\n mov %r15, found+112(%rip)\n"
        "pushf\n popq found+120(%rip)\n call begin\n");
