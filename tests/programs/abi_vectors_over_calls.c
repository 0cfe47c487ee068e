// Vector, mask and floating-point registers, and their control words, pass through many calls unchanged.
// needs: avx2
// flags: -lm
// output: same
#include "check.h"
#include <fenv.h>

__attribute__((target("avx2"))) static void through(long number, const uint8_t *in, uint8_t *out) {
    __asm__ volatile("vmovdqu (%[in]), %%ymm0\n vmovdqu 32(%[in]), %%ymm3\n vmovdqu 64(%[in]), %%ymm8\n"
                     "vmovdqu 96(%[in]), %%ymm15\n syscall\n"
                     "vmovdqu %%ymm0, (%[out])\n vmovdqu %%ymm3, 32(%[out])\n vmovdqu %%ymm8, 64(%[out])\n"
                     "vmovdqu %%ymm15, 96(%[out])"
                     : "+a"(number)
                     : [in] "r"(in), [out] "r"(out), "D"(-1l)
                     : "rcx", "r11", "memory", "xmm0", "xmm3", "xmm8", "xmm15");
}

int main(void) {
    uint8_t in[128];
    uint8_t out[128];
    long numbers[] = {SYS_getpid, SYS_read, SYS_sched_yield, SYS_getppid, SYS_close};
    CHECK(fesetround(FE_UPWARD) == 0);
    for (int round = 0; round < 500; round++) {
        for (int index = 0; index < 128; index++) {
            in[index] = (uint8_t)(index * 5 + round);
        }
        memset(out, 0, sizeof out);
        through(numbers[round % 5], in, out);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    CHECK(fegetround() == FE_UPWARD);
    uint32_t control = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    CHECK((control & 0x6000) == 0x4000);
    say("all kept\n");
    return 0;
}
