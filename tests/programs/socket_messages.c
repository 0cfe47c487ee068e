// sendmmsg and recvmmsg: several datagrams at once, with lengths, flags and addresses written back.
#include "check.h"
#include <netinet/in.h>
#include <sys/socket.h>

enum { COUNT = 4 };

int main(void) {
    guard();
    int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    CHECK(bind(receiver, (struct sockaddr *)&address, length) == 0);
    CHECK(getsockname(receiver, (struct sockaddr *)&address, &length) == 0);
    int sender = socket(AF_INET, SOCK_DGRAM, 0);
    struct mmsghdr messages[COUNT] = {0};
    struct iovec parts[COUNT];
    char texts[COUNT][10] = {"one", "three", "fourteen", "x"};
    for (int index = 0; index < COUNT; index++) {
        parts[index] = (struct iovec){texts[index], strlen(texts[index])};
        messages[index].msg_hdr = (struct msghdr){.msg_name = &address, .msg_namelen = sizeof address,
                                                  .msg_iov = &parts[index], .msg_iovlen = 1};
    }
    CHECK(sendmmsg(sender, messages, COUNT, 0) == COUNT && messages[2].msg_len == 8);
    struct sockaddr_in from[COUNT];
    for (int index = 0; index < COUNT; index++) {
        memset(texts[index], '.', 10);
        parts[index].iov_len = 6;
        messages[index].msg_hdr.msg_name = &from[index];
        messages[index].msg_len = 99;
    }
    CHECK(recvmmsg(receiver, messages, COUNT - 1, MSG_DONTWAIT, NULL) == COUNT - 1);
    CHECK(messages[0].msg_len == 3 && messages[1].msg_len == 5 && messages[2].msg_len == 6);
    CHECK((messages[2].msg_hdr.msg_flags & MSG_TRUNC) && messages[3].msg_len == 99);
    struct timespec wait = {1, 0};
    CHECK(recvmmsg(receiver, messages, COUNT, MSG_WAITFORONE, &wait) == 1 && texts[0][0] == 'x');
    say("%.10s %.10s from port %d\n", texts[1], texts[2], ntohs(from[0].sin_port));
    return 0;
}
