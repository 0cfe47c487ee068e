// An abstract Unix name chosen by the kernel, with datagrams from a connected and an unconnected sender.
#include "check.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(void) {
    guard();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int receiver = socket(AF_UNIX, SOCK_DGRAM, 0);
    // Binding with the family alone requests a free name.
    CHECK(bind(receiver, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0);
    socklen_t length = sizeof address;
    CHECK(getsockname(receiver, (struct sockaddr *)&address, &length) == 0);
    CHECK(length == offsetof(struct sockaddr_un, sun_path) + 6 && address.sun_path[0] == 0);
    say("name %.5s\n", address.sun_path + 1);
    int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(sendto(sender, "to", 2, 0, (struct sockaddr *)&address, length) == 2);
    CHECK(connect(sender, (struct sockaddr *)&address, length) == 0 && write(sender, "connected", 9) == 9);
    char text[20];
    struct sockaddr_un from;
    socklen_t from_length = sizeof from;
    CHECK(recvfrom(receiver, text, sizeof text, 0, (struct sockaddr *)&from, &from_length) == 2);
    CHECK(from_length == 0);
    CHECK(recvfrom(receiver, text, 4, 0, NULL, NULL) == 4 && memcmp(text, "conn", 4) == 0);
    return 0;
}
