// Anonymous memory shared with a child; a pipe makes them take turns.
#include "check.h"
#include <sys/mman.h>

struct board { int turns; pid_t writer; uint64_t sum; };

int main(void) {
    guard();
    struct board *board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int to_child[2];
    int to_parent[2];
    CHECK(board != MAP_FAILED && pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    int receive = child == 0 ? to_child[0] : to_parent[0];
    int send = child == 0 ? to_parent[1] : to_child[1];
    for (int round = 0; round < 100; round++) {
        char token = 0;
        if (child == 0) {
            CHECK(read(receive, &token, 1) == 1 && board->turns == 2 * round + 1);
        } else {
            CHECK(round == 0 || read(receive, &token, 1) == 1);
            CHECK(board->turns == 2 * round);
        }
        board->turns++;
        board->writer = getpid();
        board->sum = board->sum * 31 + (child == 0);
        CHECK(write(send, &token, 1) == 1);
    }
    if (child == 0) {
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(board->turns == 200 && board->writer == child);
    say("last writer %d, %016lx\n", board->writer, (unsigned long)board->sum);
    return 0;
}
