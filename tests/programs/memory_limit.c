// RLIMIT_AS of 300 MB: malloc fails when it must, and nothing else does.
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

int main(void) {
    struct rlimit limit = {300 << 20, 300 << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(mmap(NULL, 400 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(malloc(400 << 20) == NULL);
    char *area = malloc(50 << 20);
    CHECK(area);
    memset(area, 1, 1 << 20);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(malloc(20 << 20));
        _exit(0);
    }
    expect_exit(child, 0);
    int blocks = 0;
    while (blocks < 1000 && mmap(NULL, 10 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
        blocks++;
    }
    CHECK(blocks > 5 && blocks < 30);
    // How many blocks fit depends on all other mappings, and replay must repeat it.
    say("%d blocks of 10 MB\n", blocks);
    return 0;
}
