// TCP over IPv6 with a non-blocking connect: EINPROGRESS, poll, SO_ERROR; and a refused connection.
// needs: ipv6
#include "check.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

int main(void) {
    guard();
    int server = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    CHECK(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 1) == 0);
    socklen_t length = sizeof address;
    CHECK(getsockname(server, (struct sockaddr *)&address, &length) == 0 && length == sizeof address);
    int client = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int result = connect(client, (struct sockaddr *)&address, sizeof address);
    CHECK(result == 0 || errno == EINPROGRESS);
    struct pollfd set = {client, POLLOUT, 0};
    CHECK(poll(&set, 1, 5000) == 1);
    int error = -1;
    length = sizeof error;
    CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
    int connection = accept(server, NULL, NULL);
    CHECK(connection >= 0 && write(connection, "six", 3) == 3);
    char text[4] = {0};
    set.events = POLLIN;
    CHECK(poll(&set, 1, 5000) == 1 && read(client, text, 4) == 3);
    CHECK(close(server) == 0);
    int refused = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK_FAILS(connect(refused, (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
    say("%s port %d\n", text, ntohs(address.sin6_port));
    return 0;
}
