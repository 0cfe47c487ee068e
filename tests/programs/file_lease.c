// A truncate waits until another process gives up its lease on the file. The two share memory, so they take turns.
// output: same
// calls: varies
#include "check.h"
#include <sys/mman.h>
#include <time.h>

static void truncating(const int ready[2]) {
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(truncate("leased", 0) == 0);
    _exit(5);
}

int main(void) {
    alarm(40); // the kernel breaks leases after 45 s
    volatile int *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGIO) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    close(file_with("leased", "some bytes"));
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        truncating(ready);
    }
    int file = open("leased", O_RDONLY);
    CHECK(file >= 0 && fcntl(file, F_SETLEASE, F_RDLCK) == 0);
    CHECK(write(ready[1], "x", 1) == 1);
    CHECK(sigwaitinfo(&set, NULL) == SIGIO);
    ++*counter;
    struct stat status;
    CHECK(fstat(file, &status) == 0 && status.st_size == 10);
    CHECK(fcntl(file, F_SETLEASE, F_UNLCK) == 0);
    expect_exit(child, 5);
    CHECK(fstat(file, &status) == 0 && status.st_size == 0);
    say("truncated after the lease was given up\n");
    return 0;
}
