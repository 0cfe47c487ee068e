// System calls while the stack pointer is invalid as a stack: at a page's first byte, zero, and unaligned.
// output: same
#include "check.h"
#include <sys/mman.h>

static long call_on(uint64_t stack_pointer) {
    long result = SYS_getpid;
    __asm__ volatile("mov %%rsp, %%r12\n mov %[target], %%rsp\n syscall\n mov %%r12, %%rsp"
                     : "+a"(result)
                     : [target] "r"(stack_pointer)
                     : "rcx", "r11", "r12", "memory");
    return result;
}

int main(void) {
    int pid = getpid();
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memset(page, 0x5c, 4096);
    // The kernel ignores the stack pointer, and so must the runtime.
    CHECK(call_on((uintptr_t)page) == pid);
    CHECK(call_on(0) == pid);
    CHECK(call_on((uintptr_t)page + 1001) == pid);
    CHECK(call_on(0xffff800000000000) == pid);
    for (int index = 0; index < 4096; index++) {
        CHECK(page[index] == 0x5c);
    }
    say("the stack pointer does not matter\n");
    return 0;
}
