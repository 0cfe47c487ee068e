// CPUID inline: all leaves must be the same throughout a run and in all its processes.
#include "check.h"

static void identify(uint32_t leaf, uint32_t subleaf, uint32_t *out) {
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(subleaf));
}

static uint64_t all_leaves(void) {
    uint32_t out[4];
    identify(0, 0, out);
    uint32_t last = out[0] < 32 ? out[0] : 32;
    uint64_t hash = 0;
    for (uint32_t leaf = 0; leaf <= last; leaf++) {
        identify(leaf, 0, out);
        if (leaf == 1) {
            // The local APIC number follows the processor the thread runs on.
            out[1] &= 0x00ffffff;
        }
        // Leaves that describe the current processor's place or state are left out.
        if (leaf != 0xb && leaf != 0x1f && leaf != 0xd && leaf != 0x1a && leaf != 0x6 && leaf != 4) {
            hash = hash * 31 + digest(out, sizeof out);
        }
    }
    return hash;
}

// Programs enumerate the subleaves of a leaf until one is marked as the last.
static unsigned subleaves_of(uint32_t leaf, unsigned mask_of_eax, unsigned mask_of_ecx) {
    uint32_t out[4];
    identify(leaf & 0x80000000, 0, out);
    if (leaf > out[0]) {
        return 0;
    }
    for (uint32_t subleaf = 0; subleaf < 64; subleaf++) {
        identify(leaf, subleaf, out);
        if (!(out[0] & mask_of_eax) && !(out[2] & mask_of_ecx)) {
            return subleaf;
        }
    }
    return ~0u;
}

int main(void) {
    uint32_t out[4];
    identify(0, 0, out);
    char vendor[13] = {0};
    memcpy(vendor, &out[1], 4);
    memcpy(vendor + 4, &out[3], 4);
    memcpy(vendor + 8, &out[2], 4);
    uint64_t hash = all_leaves();
    CHECK(hash == all_leaves());
    identify(0x80000000, 0, out);
    say("%s, %u leaves, extended to %x, digest %016lx\n", vendor, out[0], out[0], (unsigned long)hash);
    unsigned caches = subleaves_of(4, 0x1f, 0), other_caches = subleaves_of(0x8000001d, 0x1f, 0), levels = subleaves_of(0xb, 0, 0xff00);
    CHECK(caches < 64 && other_caches < 64 && levels < 64);
    say("%u and %u caches, %u levels of cores\n", caches, other_caches, levels);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(all_leaves() == hash ? 0 : 1);
    }
    expect_exit(child, 0);
    return 0;
}
