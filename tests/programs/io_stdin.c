// Standard input, read in pieces and to its end.
// stdin: first line of input, followed by nothing
// output: same
#include "check.h"

int main(void) {
    char text[100];
    ssize_t length = read(STDIN_FILENO, text, 5);
    CHECK(length == 5 && memcmp(text, "first", 5) == 0);
    ssize_t rest = read(STDIN_FILENO, text + length, sizeof text - length);
    CHECK(rest > 0);
    length += rest;
    CHECK(read(STDIN_FILENO, text, 0) == 0);
    char byte;
    CHECK(read(STDIN_FILENO, &byte, 1) == 0);
    say("%zd bytes: %.*s\n", length, (int)length, text);
    return 0;
}
