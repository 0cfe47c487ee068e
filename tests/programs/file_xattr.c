// Extended attributes by path, by link and by descriptor.
// needs: xattr
// output: same
#include "check.h"
#include <sys/xattr.h>

int main(void) {
    int file = file_with("data", "x");
    CHECK(setxattr("data", "user.colour", "blue", 4, 0) == 0);
    CHECK_FAILS(setxattr("data", "user.colour", "red", 3, XATTR_CREATE), EEXIST);
    CHECK(fsetxattr(file, "user.shape", "\0\1\2", 3, XATTR_CREATE) == 0);
    char value[16] = "################";
    CHECK(getxattr("data", "user.colour", NULL, 0) == 4);
    CHECK(getxattr("data", "user.colour", value, sizeof value) == 4);
    CHECK(memcmp(value, "blue#", 5) == 0);
    CHECK_FAILS(fgetxattr(file, "user.colour", value, 2), ERANGE);
    CHECK(lgetxattr("data", "user.shape", value, sizeof value) == 3);
    CHECK_FAILS(getxattr("data", "user.none", value, sizeof value), ENODATA);
    char names[200];
    ssize_t length = listxattr("data", names, sizeof names);
    CHECK(length >= 23);
    CHECK(flistxattr(file, NULL, 0) == length);
    CHECK(removexattr("data", "user.colour") == 0 && fremovexattr(file, "user.shape") == 0);
    CHECK_FAILS(removexattr("data", "user.colour"), ENODATA);
    say("%.4s\n", "done");
    return 0;
}
