// A program without a C library: two calls and out.
// flags: -nostdlib -static -ffreestanding -fno-stack-protector
// status: 23
// output: same
// stdout: ^no library$

static long raw(long number, long first, const void *second, long third) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}

__attribute__((noreturn, used)) static void begin(const long *stack) {
    static const char text[] = "no library\n";
    // The argument count lies at the very top of the stack, aligned to 16 bytes.
    int good = stack[0] == 1 && ((long)stack & 15) == 0;
    if (raw(1, 1, text, sizeof text - 1) != sizeof text - 1) {
        good = 0;
    }
    raw(231, good ? 23 : 1, 0, 0);
    for (;;) {
    }
}

__asm__(".globl _start\n_start: mov %rsp, %rdi\n xor %ebp, %ebp\n call begin\n");
