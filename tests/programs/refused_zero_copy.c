// Receiving without a copy is refused as by a kernel without it, and the data are still there to be read.
// modes: record replay slow
// stdout: ^refused, then hello$
#include "check.h"
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <sys/socket.h>

int main(void) {
    int listening = socket(AF_INET, SOCK_STREAM, 0), sending = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    CHECK(bind(listening, (struct sockaddr *)&address, size) == 0 && listen(listening, 1) == 0);
    CHECK(getsockname(listening, (struct sockaddr *)&address, &size) == 0);
    CHECK(connect(sending, (struct sockaddr *)&address, size) == 0);
    int receiving = accept(listening, NULL, NULL);
    CHECK(write(sending, "hello", 5) == 5);
    char copied[64] = "";
    struct tcp_zerocopy_receive wanted = {.copybuf_address = (unsigned long)copied, .copybuf_len = sizeof copied};
    size = sizeof wanted;
    CHECK_FAILS(getsockopt(receiving, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &wanted, &size), ENOPROTOOPT);
    CHECK(read(receiving, copied, sizeof copied) == 5);
    say("refused, then %s\n", copied);
    return 0;
}
