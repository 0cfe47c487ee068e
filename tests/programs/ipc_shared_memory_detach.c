// After shmdt a System V segment is unmapped: touching it faults, even where it lay in two parts.
// output: same
#include "check.h"
#include <setjmp.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

static sigjmp_buf back;

static void on_fault(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    siglongjmp(back, 1);
}

static int faults(volatile char *address) {
    if (sigsetjmp(back, 1)) {
        return 1;
    }
    (void)*address;
    return 0;
}

int main(void) {
    handle(SIGSEGV, on_fault, 0);
    int id = shmget(IPC_PRIVATE, 3 * 4096, IPC_CREAT | 0600);
    CHECK(id >= 0);
    char *segment = shmat(id, NULL, 0);
    CHECK(segment != (char *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    strcpy(segment, "kept");
    CHECK(munmap(segment + 4096, 4096) == 0);
    CHECK(!faults(segment) && faults(segment + 4096) && !faults(segment + 2 * 4096));
    CHECK(shmdt(segment) == 0);
    CHECK(faults(segment) && faults(segment + 2 * 4096));
    say("detached\n");
    return 0;
}
