// TCP over the loopback: a port chosen by the kernel, a child as the client, and 200 KB through it.
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { BYTES = 200000 };

static void client(struct sockaddr_in address) {
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(connection, (struct sockaddr *)&address, sizeof address) == 0);
    int on = 1;
    CHECK(setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    static unsigned char data[BYTES];
    for (int index = 0; index < BYTES; index++) {
        data[index] = index * 7 + index / 256;
    }
    for (size_t sent = 0; sent < BYTES;) {
        ssize_t part = send(connection, data + sent, BYTES - sent, 0);
        CHECK(part > 0);
        sent += part;
    }
    CHECK(shutdown(connection, SHUT_WR) == 0);
    uint64_t answer;
    CHECK(recv(connection, &answer, sizeof answer, MSG_WAITALL) == sizeof answer && answer == digest(data, BYTES));
    _exit(0);
}

int main(void) {
    guard();
    int server = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 1) == 0);
    socklen_t length = sizeof address;
    CHECK(getsockname(server, (struct sockaddr *)&address, &length) == 0 && address.sin_port != 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        client(address);
    }
    struct sockaddr_in peer;
    length = sizeof peer;
    int connection = accept(server, (struct sockaddr *)&peer, &length);
    CHECK(connection >= 0 && length == sizeof peer);
    static unsigned char data[BYTES];
    size_t total = 0;
    int reads = 0;
    ssize_t got;
    for (; (got = recv(connection, data + total, BYTES - total + 1, 0)) > 0; reads++) {
        total += got;
    }
    CHECK(got == 0 && total == BYTES);
    uint64_t answer = digest(data, BYTES);
    CHECK(send(connection, &answer, sizeof answer, 0) == sizeof answer);
    expect_exit(child, 0);
    say("ports %d %d, %d reads\n", ntohs(address.sin_port), ntohs(peer.sin_port), reads);
    return 0;
}
