// Copies inside the kernel: sendfile and copy_file_range, with and without offsets.
// output: same
#include "check.h"
#include <sys/sendfile.h>

int main(void) {
    int from = file_with("from", "the quick brown fox");
    int to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(sendfile(to, from, NULL, 4) == 4 && lseek(from, 0, SEEK_CUR) == 4);
    off_t offset = 10;
    CHECK(sendfile(to, from, &offset, 100) == 9 && offset == 19);
    CHECK(lseek(from, 0, SEEK_CUR) == 4);
    off64_t start = 4;
    off64_t target = 50;
    ssize_t copied = copy_file_range(from, &start, to, &target, 5, 0);
    CHECK(copied == 5 && start == 9 && target == 55);
    CHECK(copy_file_range(from, NULL, to, NULL, 100, 0) == 15);
    char text[60] = {0};
    CHECK(pread(to, text, sizeof text, 0) == 55);
    say("%.28s|%.5s\n", text, text + 50);
    int ends[2];
    CHECK(pipe(ends) == 0);
    offset = 0;
    CHECK(sendfile(ends[1], from, &offset, 9) == 9);
    CHECK(read(ends[0], text, sizeof text) == 9 && memcmp(text, "the quick", 9) == 0);
    CHECK_FAILS(copy_file_range(from, NULL, ends[1], NULL, 1, 0), EINVAL);
    return 0;
}
