// A failing socketpair has already written the descriptors that it reserved.
#include "check.h"
#include <sys/socket.h>

int main(void) {
    int ends[2] = {-7, -7};
    CHECK_FAILS(socketpair(AF_UNIX, SOCK_STREAM, -1, ends), EPROTONOSUPPORT);
    say("%d %d\n", ends[0], ends[1]);
    CHECK_FAILS(socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)8), EFAULT);
    return 0;
}
