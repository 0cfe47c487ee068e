// Data that the kernel copies to the standard output past the program would be missing at replay: such calls fail (docs/LIMITS.md), and the
// usual way works.
// modes: record replay slow
// stdout: ^read and written$
#include "check.h"
#include <sys/sendfile.h>

static void nothing_goes_to(int output) {
    int file = file_with("data", "copied by the kernel\n");
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "copied by the kernel\n", 21) == 21);
    CHECK_FAILS(sendfile(output, file, NULL, 21), EINVAL);
    CHECK_FAILS(splice(ends[0], NULL, output, NULL, 21, 0), EINVAL);
    CHECK_FAILS(copy_file_range(file, NULL, output, NULL, 21, 0), EINVAL);
    CHECK_FAILS(tee(ends[0], output, 21, 0), EINVAL);
    CHECK(close(file) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

int main(void) {
    guard();
    // A new descriptor without O_APPEND, which would make the kernel refuse all of these calls.
    int output = open("/proc/self/fd/1", O_WRONLY), errors = open("/proc/self/fd/2", O_WRONLY);
    CHECK(output >= 0 && errors >= 0);
    nothing_goes_to(output);
    nothing_goes_to(errors);
    int other = open("other", O_WRONLY | O_CREAT, 0600), file = file_with("data", "to a file\n");
    CHECK(other >= 0 && sendfile(other, file, NULL, 10) == 10);
    CHECK(write(STDOUT_FILENO, "read and written\n", 17) == 17);
    return 0;
}
