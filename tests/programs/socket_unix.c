// A server on a Unix socket with a name: bind, listen, accept4, names and credentials of the peer.
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(void) {
    guard();
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(server >= 0 && bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 4) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
        CHECK(write(client, "hello", 5) == 5);
        char byte;
        CHECK(read(client, &byte, 1) == 1);
        _exit(byte);
    }
    struct sockaddr_un peer;
    memset(&peer, 0x55, sizeof peer);
    socklen_t length = sizeof peer;
    int connection = accept4(server, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC);
    CHECK(connection >= 0 && length == 2);
    struct ucred credentials;
    length = sizeof credentials;
    CHECK(getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0);
    CHECK(length == sizeof credentials && credentials.pid == child);
    length = sizeof peer;
    CHECK(getsockname(connection, (struct sockaddr *)&peer, &length) == 0);
    CHECK(length == 2 + strlen("socket") + 1 && strcmp(peer.sun_path, "socket") == 0);
    // A short buffer is filled in part; the returned length is the full one.
    length = 4;
    memset(&peer, 0x55, sizeof peer);
    CHECK(getsockname(connection, (struct sockaddr *)&peer, &length) == 0 && length == 9);
    CHECK(memcmp(peer.sun_path, "soUU", 4) == 0);
    char text[5];
    CHECK(read(connection, text, 5) == 5 && write(connection, "\7", 1) == 1);
    expect_exit(child, 7);
    say("peer pid %d uid %u\n", credentials.pid, credentials.uid);
    CHECK_FAILS(connect(connection, (struct sockaddr *)&address, sizeof address), EISCONN);
    return 0;
}
