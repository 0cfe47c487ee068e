// System V shared memory: made, attached twice, seen by a child, removed.
#include "check.h"
#include <sys/ipc.h>
#include <sys/shm.h>

int main(void) {
    guard();
    int id = shmget(IPC_PRIVATE, 10000, IPC_CREAT | 0600);
    CHECK(id >= 0);
    char *first = shmat(id, NULL, 0);
    char *second = shmat(id, NULL, SHM_RDONLY);
    CHECK(first != (void *)-1 && second != (void *)-1 && first != second);
    CHECK(first[9999] == 0);
    strcpy(first, "shared");
    CHECK(strcmp(second, "shared") == 0);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        strcpy(first, "by the child");
        CHECK(shmdt(first) == 0);
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(strcmp(second, "by the child") == 0);
    struct shmid_ds status;
    CHECK(shmctl(id, IPC_STAT, &status) == 0 && status.shm_segsz == 10000 && status.shm_nattch == 2);
    CHECK(shmdt(second) == 0 && shmdt(first) == 0);
    CHECK_FAILS(shmdt(first), EINVAL);
    CHECK(shmat(id, NULL, 0) == (void *)-1);
    say("id %d at %p and %p\n", id, (void *)first, (void *)second);
    return 0;
}
