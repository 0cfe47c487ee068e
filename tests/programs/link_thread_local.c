// Thread-local storage: initial values, alignment, and a copy in each forked process.
#include "check.h"

static __thread int counter = 41;
static __thread char block[1000];
static __thread long aligned __attribute__((aligned(64))) = 7;

int main(void) {
    CHECK(counter == 41 && aligned == 7 && ((uintptr_t)&aligned & 63) == 0 && block[999] == 0);
    counter++;
    memset(block, 'b', sizeof block);
    errno = 77;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(counter == 42 && block[999] == 'b');
        counter = 0;
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(counter == 42);
    uintptr_t self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    say("thread area %lx counter %p\n", (unsigned long)self, (void *)&counter);
    return 0;
}
