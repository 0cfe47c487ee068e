// Transfers of no bytes: they succeed, touch nothing, and accept bad addresses.
// output: same
#include "check.h"
#include <sys/socket.h>
#include <sys/uio.h>

int main(void) {
    int file = file_with("data", "abc");
    char byte = '!';
    CHECK(read(file, &byte, 0) == 0 && byte == '!');
    CHECK(read(file, NULL, 0) == 0);
    CHECK(write(file, NULL, 0) == 0);
    CHECK(pread(file, NULL, 0, 1) == 0);
    CHECK(readv(file, NULL, 0) == 0);
    CHECK(lseek(file, 0, SEEK_CUR) == 0);

    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    CHECK(send(ends[0], NULL, 0, 0) == 0);
    CHECK(recv(ends[1], &byte, 1, MSG_DONTWAIT) == 0 && byte == '!');
    CHECK_FAILS(recv(ends[1], &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_FAILS(read(-1, NULL, 0), EBADF);
    say("nothing moved\n");
    return 0;
}
