// A process ends while its threads print: replay prints the output that came out.
// modes: record replay slow
// flags: -pthread
#include "check.h"
#include <pthread.h>

#define CHILDREN 30

static volatile int printed;

static void *prints(void *letter) {
    for (;;) {
        CHECK(write(STDOUT_FILENO, letter, 2) == 2);
        printed++;
    }
}

int main(void) {
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            static char letters[3][3] = {"a\n", "b\n", "c\n"};
            pthread_t thread;
            for (int at = 0; at < 3; at++) {
                CHECK(pthread_create(&thread, NULL, prints, letters[at]) == 0);
            }
            while (printed < i) {
                __asm__ volatile("");
            }
            _exit(3);
        }
        expect_exit(child, 3);
    }
    return 0;
}
