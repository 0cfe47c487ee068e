// A handler changes the vector, mask and floating-point registers and the control words in its frame, and the interrupted code has the changed values. Components that the frame leaves out are initial afterwards.
// needs: avx512f
// output: same
// flags: -O1
#include "check.h"
#include <cpuid.h>
#include <ucontext.h>

enum { HEADER = 512, UPPER_HALVES = 2, MASKS = 5, UPPER_QUARTERS = 6, HIGH_REGISTERS = 7, KEYS = 9 };

static unsigned offset_of(unsigned component) {
    unsigned bytes, offset, ecx, edx;
    __cpuid_count(13, component, bytes, offset, ecx, edx);
    return bytes ? offset : 0;
}

static void set(char *area, unsigned component, unsigned at, uint64_t value) {
    unsigned offset = offset_of(component);
    CHECK(offset);
    memcpy(area + offset + at, &value, sizeof value);
    *(uint64_t *)(area + HEADER) |= 1UL << component;
}

static void change(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    struct _libc_fpstate *legacy = ((ucontext_t *)context)->uc_mcontext.fpregs;
    char *area = (char *)legacy;
    legacy->cwd = 0x27f;
    legacy->mxcsr = 0x9fc0;
    legacy->_xmm[3].element[0] = 0x33333333;
    set(area, UPPER_HALVES, 3 * 16, 0x3333333344444444);
    set(area, MASKS, 2 * 8, 0x2222);
    set(area, UPPER_QUARTERS, 3 * 32, 0x5555555566666666);
    set(area, HIGH_REGISTERS, 1 * 64 + 56, 0x7777777788888888);
    if (offset_of(KEYS)) {
        set(area, KEYS, 0, 0x55555550);
    }
}

// Without the vector components, which are initial afterwards.
static void leave_out(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    char *area = (char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    *(uint64_t *)(area + HEADER) &= ~(1UL << UPPER_HALVES | 1UL << MASKS | 1UL << UPPER_QUARTERS);
}

struct state {
    uint64_t low[8], high[8], mask;
    uint32_t mxcsr;
    uint16_t control;
};

__attribute__((target("avx512f"))) static struct state after(int number) {
    static struct state state;
    uint64_t ones = ~0UL;
    uint32_t mxcsr = 0x1f80;
    long call = SYS_kill;
    __asm__ volatile("fninit\n ldmxcsr %[initial]\n vpbroadcastq %[ones], %%zmm3\n vpbroadcastq %[ones], %%zmm17\n"
                     " kmovw %k[ones], %%k2\n syscall\n"
                     " vmovdqu64 %%zmm3, %[low]\n vmovdqu64 %%zmm17, %[high]\n kmovw %%k2, %%eax\n mov %%rax, %[mask]\n"
                     " stmxcsr %[mxcsr]\n fnstcw %[control]\n ldmxcsr %[initial]\n fninit\n vzeroupper"
                     : "+a"(call), [low] "=m"(state.low), [high] "=m"(state.high), [mask] "=m"(state.mask),
                       [mxcsr] "=m"(state.mxcsr), [control] "=m"(state.control)
                     : [ones] "r"(ones), [initial] "m"(mxcsr), "D"(getpid()), "S"(number)
                     : "rcx", "r11", "memory", "xmm3");
    return state;
}

static void show(const char *what, const struct state *state) {
    say("%s: mxcsr %x, control %x, mask %lx\n", what, state->mxcsr, state->control, state->mask);
    for (int index = 0; index < 8; index++) {
        say(" %016lx %016lx\n", state->low[index], state->high[index]);
    }
}

static uint32_t keys(void) {
    uint32_t value, high;
    __asm__ volatile("rdpkru" : "=a"(value), "=d"(high) : "c"(0));
    return value;
}

int main(void) {
    handle(SIGUSR1, change, 0);
    handle(SIGUSR2, leave_out, 0);
    uint32_t before = offset_of(KEYS) ? keys() : 0;
    struct state state = after(SIGUSR1);
    show("changed", &state);
    if (offset_of(KEYS)) {
        say("keys %x, then %x\n", before, keys());
    }
    state = after(SIGUSR2);
    show("left out", &state);
    return 0;
}
