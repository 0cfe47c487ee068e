// Coroutines by makecontext and swapcontext, each with its own stack and its own system calls.
#include "check.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { ROUTINES = 4, ROUNDS = 25 };

static ucontext_t main_context;
static ucontext_t contexts[ROUTINES];
static int progress[ROUTINES];
static int ends[2];

static void routine(int self) {
    for (int round = 0; round < ROUNDS; round++) {
        char letter = 'a' + self;
        CHECK(write(ends[1], &letter, 1) == 1);
        progress[self]++;
        CHECK(swapcontext(&contexts[self], &main_context) == 0);
    }
}

int main(void) {
    CHECK(pipe(ends) == 0);
    for (int index = 0; index < ROUTINES; index++) {
        void *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack != MAP_FAILED && getcontext(&contexts[index]) == 0);
        contexts[index].uc_stack.ss_sp = stack;
        contexts[index].uc_stack.ss_size = 65536;
        contexts[index].uc_link = &main_context;
        makecontext(&contexts[index], (void (*)(void))routine, 1, index);
        say("stack %p\n", stack);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int index = 0; index < ROUTINES; index++) {
            CHECK(swapcontext(&main_context, &contexts[index]) == 0);
            char letter;
            CHECK(read(ends[0], &letter, 1) == 1 && letter == 'a' + index && progress[index] == round + 1);
        }
    }
    return 0;
}
