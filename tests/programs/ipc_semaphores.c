// System V semaphores: values, waiting, time-outs, and undoing at exit.
#include "check.h"
#include <sys/ipc.h>
#include <sys/sem.h>
#include <time.h>

union semun { int val; struct semid_ds *buf; unsigned short *array; };

int main(void) {
    guard();
    int id = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
    CHECK(id >= 0);
    unsigned short values[4] = {1, 0, 7, 99};
    CHECK(semctl(id, 0, SETALL, (union semun){.array = values}) == 0);
    struct sembuf take = {0, -1, IPC_NOWAIT | SEM_UNDO};
    CHECK(semop(id, &take, 1) == 0);
    CHECK_FAILS(semop(id, &take, 1), EAGAIN);
    struct sembuf wait_step = {1, -1, 0};
    struct timespec wait = {0, 3000000};
    CHECK_FAILS(semtimedop(id, &wait_step, 1, &wait), EAGAIN);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // The kernel undoes this one when the child is gone.
        struct sembuf undone = {2, 5, SEM_UNDO};
        struct sembuf give = {1, 1, 0};
        CHECK(semop(id, &undone, 1) == 0 && semop(id, &give, 1) == 0);
        _exit(0);
    }
    CHECK(semop(id, &wait_step, 1) == 0);
    expect_exit(child, 0);
    memset(values, 0xff, sizeof values);
    CHECK(semctl(id, 0, GETALL, (union semun){.array = values}) == 0);
    CHECK(values[0] == 0 && values[1] == 0 && values[2] == 7 && values[3] == 0xffff);
    CHECK(semctl(id, 1, GETPID) == getpid());
    struct semid_ds status;
    CHECK(semctl(id, 0, IPC_STAT, (union semun){.buf = &status}) == 0 && status.sem_nsems == 3);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
    CHECK_FAILS(semctl(id, 0, GETVAL), EINVAL);
    say("id %d child %d\n", id, child);
    return 0;
}
