// UDP over the loopback: sendto, recvfrom, connected sockets, refused datagrams, time-outs.
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

static int bound(struct sockaddr_in *address) {
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof *address;
    CHECK(made >= 0 && bind(made, (struct sockaddr *)address, length) == 0);
    CHECK(getsockname(made, (struct sockaddr *)address, &length) == 0);
    return made;
}

int main(void) {
    guard();
    struct sockaddr_in first_address;
    struct sockaddr_in second_address;
    int first = bound(&first_address);
    int second = bound(&second_address);
    CHECK(sendto(first, "datagram", 8, 0, (struct sockaddr *)&second_address, sizeof second_address) == 8);
    char text[20] = "....................";
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    CHECK(recvfrom(second, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 8 && text[8] == '.');
    CHECK(from.sin_port == first_address.sin_port && length == sizeof from);
    struct timeval wait = {0, 10000};
    CHECK(setsockopt(second, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0);
    CHECK_FAILS(recv(second, text, sizeof text, 0), EAGAIN);
    CHECK(connect(first, (struct sockaddr *)&second_address, sizeof second_address) == 0);
    CHECK(close(second) == 0);
    CHECK(send(first, "x", 1, 0) == 1);
    CHECK_FAILS(recv(first, text, 1, 0), ECONNREFUSED);
    say("ports %d %d\n", ntohs(first_address.sin_port), ntohs(second_address.sin_port));
    return 0;
}
