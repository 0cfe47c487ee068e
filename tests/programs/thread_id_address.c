// The word that the kernel clears when a thread ends: queried, set anew, and cleared for pthread_join.
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/prctl.h>

static void *body(void *argument UNUSED) {
    int *word = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &word) == 0) { // a kernel may be built without it
        CHECK(*word == gettid());
        CHECK(syscall(SYS_set_tid_address, NULL) == gettid());
        CHECK(syscall(SYS_set_tid_address, word) == gettid());
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0 && pthread_join(thread, NULL) == 0);
    body(NULL);
    say("process %d\n", getpid());
    return 0;
}
