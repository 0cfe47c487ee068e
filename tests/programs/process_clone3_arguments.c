// clone3 refuses what the kernel refuses, accepts a longer structure that ends in zeros, and sets the numbers of children that share memory.
// output: same
#include "check.h"
#include <linux/sched.h>
#include <sys/mman.h>

static long clone3(const void *arguments, size_t bytes) {
    long child = syscall(SYS_clone3, arguments, bytes);
    if (child == 0) {
        _exit(21);
    }
    return child;
}

static void refused(struct clone_args arguments) {
    CHECK_FAILS(clone3(&arguments, sizeof arguments), EINVAL);
}

static void fields(void) {
    static char stack[65536];
    const uint64_t place = (uintptr_t)stack;
    pid_t number = 1;
    refused((struct clone_args){.exit_signal = SIGCHLD, .stack = place});
    refused((struct clone_args){.exit_signal = SIGCHLD, .stack_size = sizeof stack});
    refused((struct clone_args){.exit_signal = SIGCHLD, .stack = place, .stack_size = ~0ul});
    refused((struct clone_args){.exit_signal = 65});
    refused((struct clone_args){.exit_signal = 0x100 | SIGCHLD});
    // Among the flags of clone this signal would be CLONE_VM and CLONE_VFORK.
    refused((struct clone_args){.flags = CLONE_VM | CLONE_VFORK, .exit_signal = 0x4100});
    refused((struct clone_args){.flags = 1ul << 40, .exit_signal = SIGCHLD});
    refused((struct clone_args){.flags = SIGCHLD});
    refused((struct clone_args){.flags = CLONE_SIGHAND | CLONE_VM | CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD});
    refused((struct clone_args){.flags = CLONE_PARENT, .exit_signal = SIGCHLD});
    refused((struct clone_args){.exit_signal = SIGCHLD, .set_tid_size = 1});
    refused((struct clone_args){.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number});
    refused((struct clone_args){.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 33});
    refused((struct clone_args){.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = 1ul << 31});
}

static void sizes(void) {
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 2 * 4096, 4096) == 0);
    struct clone_args *arguments = (void *)(pages + 2 * 4096 - sizeof *arguments);
    arguments->exit_signal = SIGCHLD;
    CHECK_FAILS(clone3(arguments, sizeof *arguments + 1), EFAULT);
    CHECK_FAILS(clone3(arguments, 4097), E2BIG);
    CHECK_FAILS(clone3(arguments, 63), EINVAL);
    CHECK_FAILS(clone3(pages + 2 * 4096, 64), EFAULT);
    arguments = (void *)pages;
    arguments->exit_signal = SIGCHLD;
    pages[4095] = 1;
    CHECK_FAILS(clone3(arguments, 4096), E2BIG);
    expect_exit((pid_t)clone3(arguments, 4095), 21);
    expect_exit((pid_t)clone3(arguments, 64), 21);
}

// A child that shares memory, with a chosen number: it ends at once.
static long sharing(const struct clone_args *arguments) {
    long child = SYS_clone3;
    __asm__ volatile("syscall; test %%rax, %%rax; jnz 1f; mov $60, %%eax; mov $21, %%edi; syscall; 1:"
                     : "+a"(child) : "D"(arguments), "S"(sizeof *arguments) : "rcx", "r11", "memory");
    return child;
}

static void chosen_number(void) {
    for (int attempt = 0; attempt < 100; attempt++) {
        pid_t number = fork();
        if (number == 0) {
            _exit(0);
        }
        expect_exit(number, 0);
        struct clone_args arguments = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD,
                                       .set_tid = (uintptr_t)&number, .set_tid_size = 1};
        long child = sharing(&arguments);
        if (child == -EPERM) {
            return;
        }
        if (child != -EEXIST) {
            CHECK(child == number);
            expect_exit(number, 21);
            return;
        }
    }
    CHECK(!"a number was free");
}

int main(void) {
    guard();
    fields();
    sizes();
    chosen_number();
    say("refused as by the kernel\n");
    return 0;
}
