// A hundred thousand small calls.
#include "check.h"

int main(void) {
    int parent = getppid();
    for (int round = 0; round < 100000; round++) {
        CHECK(syscall(SYS_getppid) == parent);
    }
    int file = open("/dev/null", O_RDWR);
    char byte = 0;
    for (int round = 0; round < 20000; round++) {
        CHECK(write(file, &byte, 1) == 1);
    }
    say("parent %d\n", parent);
    return 0;
}
