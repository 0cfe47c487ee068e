// Socket pairs: streams, datagrams and packets, peeking, shutting down, and waiting in a child.
#include "check.h"
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void) {
    guard();
    int ends[2];
    char text[20] = {0};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    CHECK(send(ends[0], "stream", 6, MSG_NOSIGNAL) == 6);
    CHECK(recv(ends[1], text, 3, MSG_PEEK) == 3 && recv(ends[1], text, 20, 0) == 6);
    CHECK(memcmp(text, "stream", 6) == 0);
    int waiting = -1;
    CHECK(ioctl(ends[1], FIONREAD, &waiting) == 0 && waiting == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(recv(ends[1], text, 8, MSG_WAITALL) == 8 && memcmp(text, "inpieces", 8) == 0);
        CHECK(shutdown(ends[1], SHUT_WR) == 0);
        _exit(0);
    }
    CHECK(write(ends[0], "in", 2) == 2);
    usleep(5000);
    CHECK(write(ends[0], "pieces", 6) == 6);
    CHECK(read(ends[0], text, 1) == 0);
    expect_exit(child, 0);
    CHECK(close(ends[1]) == 0);
    CHECK_FAILS(send(ends[0], "x", 1, MSG_NOSIGNAL), EPIPE);

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    CHECK(send(ends[0], "packet", 6, 0) == 6);
    // The rest of a packet that does not fit is lost, and MSG_TRUNC returns the full length.
    CHECK(recv(ends[1], text, 3, MSG_TRUNC) == 6);
    CHECK_FAILS(recv(ends[1], text, 20, MSG_DONTWAIT), EAGAIN);
    say("child %d\n", child);
    return 0;
}
