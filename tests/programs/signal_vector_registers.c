// Handlers may use all floating-point and vector registers; those of the interrupted code stay unchanged.
// needs: avx2
// output: same
#include "check.h"

static volatile int calls;

__attribute__((target("avx2"))) static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n"
                     "vpcmpeqd %%ymm7, %%ymm7, %%ymm7\n vpcmpeqd %%ymm15, %%ymm15, %%ymm15\n fldpi\n fstp %%st(0)"
                     ::: "xmm0", "xmm1", "xmm7", "xmm15");
    calls++;
}

__attribute__((target("avx2"))) static void round_trip(int number, const uint8_t *in, uint8_t *out) {
    double x87 = 1.25;
    double x87_after = 0;
    long result = SYS_kill;
    __asm__ volatile("fldl %[x87]\n vmovdqu (%[in]), %%ymm0\n vmovdqu 32(%[in]), %%ymm1\n"
                     "vmovdqu 64(%[in]), %%ymm7\n vmovdqu 96(%[in]), %%ymm15\n"
                     "syscall\n"
                     "vmovdqu %%ymm0, (%[out])\n vmovdqu %%ymm1, 32(%[out])\n"
                     "vmovdqu %%ymm7, 64(%[out])\n vmovdqu %%ymm15, 96(%[out])\n fstpl %[after]"
                     : "+a"(result), [after] "=m"(x87_after)
                     : [x87] "m"(x87), [in] "r"(in), [out] "r"(out), "D"(getpid()), "S"(number)
                     : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm7", "xmm15");
    CHECK(result == 0 && x87_after == 1.25);
}

int main(void) {
    uint8_t in[128];
    uint8_t out[128];
    for (int index = 0; index < 128; index++) {
        in[index] = index * 3 + 1;
    }
    handle(SIGUSR1, on_signal, 0);
    for (int round = 0; round < 50; round++) {
        memset(out, 0, sizeof out);
        round_trip(SIGUSR1, in, out);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    CHECK(calls == 50);
    say("%d calls\n", calls);
    return 0;
}
