// EFAULT: buffers and paths the kernel cannot reach fail the call, not the program.
// output: same
#include "check.h"
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

int main(void) {
    int file = file_with("data", "0123456789");
    char *nowhere = (char *)16;
    CHECK_FAILS(read(file, nowhere, 4), EFAULT);
    CHECK_FAILS(write(file, nowhere, 4), EFAULT);
    CHECK_FAILS(open(nowhere, O_RDONLY), EFAULT);
    CHECK_FAILS(syscall(SYS_stat, "data", nowhere), EFAULT);
    CHECK_FAILS(syscall(SYS_pipe, nowhere), EFAULT);
    CHECK_FAILS(syscall(SYS_clock_gettime, CLOCK_REALTIME, nowhere), EFAULT);
    CHECK_FAILS(syscall(SYS_rt_sigaction, SIGUSR1, nowhere, NULL, 8), EFAULT);
    CHECK_FAILS(syscall(SYS_writev, file, nowhere, 2), EFAULT);
    CHECK_FAILS(syscall(SYS_getcwd, nowhere, 100), EFAULT);
    // An address above user space, and a buffer that wraps around.
    CHECK_FAILS(read(file, (char *)0xffff800000000000ul, 4), EFAULT);
    CHECK_FAILS(read(file, (char *)-2l, 4), EFAULT);

    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);
    // A path that runs beyond its page fails; one that ends exactly there is good.
    memcpy(page + 4091, "data", 5);
    CHECK(access(page + 4091, F_OK) == 0);
    memset(page + 4000, 'a', 96);
    CHECK_FAILS(access(page + 4000, F_OK), EFAULT);
    struct iovec parts[2] = {{page, 4}, {nowhere, 4}};
    // The kernel writes the part that can be written, and counts it.
    ssize_t moved = writev(ends[1], parts, 2);
    CHECK(moved == 4 || (moved == -1 && errno == EFAULT));
    mprotect(page, 4096, PROT_READ);
    CHECK_FAILS(read(file, page, 4), EFAULT);
    say("all refused\n");
    return 0;
}
