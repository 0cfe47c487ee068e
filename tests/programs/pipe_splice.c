// Moving bytes between pipes and files inside the kernel: splice, tee and vmsplice.
// output: same
#include "check.h"
#include <sys/uio.h>

int main(void) {
    int first[2];
    int second[2];
    CHECK(pipe(first) == 0 && pipe(second) == 0);
    int file = file_with("data", "spliced through a pipe");
    loff_t offset = 8;
    CHECK(splice(file, &offset, first[1], NULL, 7, 0) == 7 && offset == 15);
    CHECK(tee(first[0], second[1], 100, 0) == 7);
    char text[40] = {0};
    CHECK(read(second[0], text, sizeof text) == 7 && memcmp(text, "through", 7) == 0);
    CHECK(splice(first[0], NULL, second[1], NULL, 100, SPLICE_F_MOVE) == 7);
    loff_t target = 100;
    CHECK(splice(second[0], NULL, file, &target, 7, 0) == 7 && target == 107);
    CHECK(pread(file, text, 7, 100) == 7);
    struct iovec parts[2] = {{"some ", 5}, {"memory", 6}};
    CHECK(vmsplice(first[1], parts, 2, 0) == 11);
    char into[20] = {0};
    struct iovec space = {into, sizeof into};
    CHECK(vmsplice(first[0], &space, 1, 0) == 11);
    CHECK(strcmp(into, "some memory") == 0);
    CHECK_FAILS(splice(file, NULL, file, NULL, 1, 0), EINVAL);
    CHECK_FAILS(tee(first[0], second[1], 1, SPLICE_F_NONBLOCK), EAGAIN);
    say("%.7s %s\n", text, into);
    return 0;
}
