// Reading and setting socket options: integers, structures, time-outs, short buffers and errors.
#include "check.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

static int get(int made, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(getsockopt(made, level, name, &value, &length) == 0 && length == sizeof value);
    return value;
}

int main(void) {
    int made = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    CHECK(get(made, SOL_SOCKET, SO_TYPE) == SOCK_STREAM && get(made, SOL_SOCKET, SO_DOMAIN) == AF_INET);
    CHECK(get(made, SOL_SOCKET, SO_ACCEPTCONN) == 0 && get(made, SOL_SOCKET, SO_REUSEADDR) == 0);
    CHECK(setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && get(made, SOL_SOCKET, SO_REUSEADDR) == 1);
    CHECK(setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0);
    struct linger linger = {1, 7};
    CHECK(setsockopt(made, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    struct { struct linger value; char rest[8]; } read_back;
    memset(&read_back, 0x33, sizeof read_back);
    socklen_t length = sizeof read_back;
    CHECK(getsockopt(made, SOL_SOCKET, SO_LINGER, &read_back, &length) == 0 && length == sizeof linger);
    CHECK(read_back.value.l_linger == 7 && read_back.rest[0] == 0x33);
    // A buffer of one byte gets one byte.
    length = 1;
    int narrow = 0x44444444;
    CHECK(getsockopt(made, SOL_SOCKET, SO_TYPE, &narrow, &length) == 0 && length == 1);
    CHECK(narrow == 0x44444400 + SOCK_STREAM);
    struct timeval wait = {2, 500000};
    CHECK(setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) == 0);
    struct tcp_info info;
    length = sizeof info;
    CHECK(getsockopt(made, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length > 0);
    char name[32] = {0};
    length = sizeof name;
    CHECK(getsockopt(made, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0);
    say("buffers %d %d, congestion %s\n", get(made, SOL_SOCKET, SO_SNDBUF), get(made, SOL_SOCKET, SO_RCVBUF), name);
    CHECK_FAILS(setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, 1), EINVAL);
    CHECK_FAILS(getsockopt(made, SOL_SOCKET, 9999, &on, &length), ENOPROTOOPT);
    CHECK_FAILS(getpeername(made, (struct sockaddr *)&info, &length), ENOTCONN);
    return 0;
}
