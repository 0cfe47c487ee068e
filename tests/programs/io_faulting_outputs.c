// Calls that fail because their output runs into unmapped memory: what they wrote before that counts.
// output: same
#include "check.h"
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/utsname.h>

int main(void) {
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    char *edge = pages + 4096 - 100;
    CHECK_FAILS(uname((void *)edge), EFAULT);
    say("uname %d\n", edge[0] != 0);
    struct stat *status = (void *)(pages + 4096 - 40);
    CHECK_FAILS(syscall(SYS_newfstatat, AT_FDCWD, "/", status, 0), EFAULT);
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    CHECK(send(ends[0], "a datagram that goes into two pieces", 36, 0) == 36);
    struct iovec pieces[2] = {{pages, 10}, {pages + 4096, 100}};
    CHECK_FAILS(readv(ends[1], pieces, 2), EFAULT);
    say("datagram %.10s\n", pages);
    unsigned char residency[3] = {7, 7, 7};
    CHECK_FAILS(mincore(pages, 3 * 4096, residency), ENOMEM);
    say("mincore %d %d %d\n", residency[0] & 1, residency[1], residency[2]);
    return 0;
}
