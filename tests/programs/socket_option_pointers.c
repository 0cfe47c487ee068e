// Socket options for which the kernel writes more than the given number of bytes: filters are counted in steps.
// output: same
#include "check.h"
#include <linux/filter.h>
#include <sys/socket.h>

int main(void) {
    int plain = socket(AF_INET, SOCK_DGRAM, 0);
    struct sock_filter steps[3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 7),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {3, steps};
    CHECK(setsockopt(plain, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
    struct sock_filter got[8];
    memset(got, 0x55, sizeof got);
    socklen_t count = 0;
    CHECK(getsockopt(plain, SOL_SOCKET, SO_GET_FILTER, NULL, &count) == 0 && count == 3);
    count = 8;
    CHECK(getsockopt(plain, SOL_SOCKET, SO_GET_FILTER, got, &count) == 0 && count == 3);
    CHECK(memcmp(got, steps, sizeof steps) == 0);
    say("%llx\n", (unsigned long long)digest(got, sizeof got));
    return 0;
}
