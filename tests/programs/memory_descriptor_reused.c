// A descriptor of an ordinary file comes to lead to a mapped file, in every possible way: writes through it show in the mapping.
// group: memory
// output: same
// flags: -pthread
#include "check.h"
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

static volatile char *shown;
static int other;

static int open_mapped(void) {
    int file = open("mapped", O_WRONLY);
    CHECK(file >= 0);
    return file;
}

// `other` leads to an unmapped file, and has been written to.
static void use_other(void) {
    int file = open("other", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    if (other < 0)
        other = file;
    CHECK(file == other && write(other, "x", 1) == 1 && write(other, "y", 1) == 1);
}

static void write_mapped(char mark) {
    CHECK(pwrite(other, &mark, 1, 7) == 1 && shown[7] == mark);
    say("%c", shown[7]);
    CHECK(close(other) == 0);
}

// The thread has its own table of descriptors: the other thread does not know what is closed and opened here.
static void *apart(void *unused UNUSED) {
    CHECK(unshare(CLONE_FILES) == 0);
    use_other();
    char mark = 'h';
    CHECK(close(other) == 0 && open_mapped() == other);
    CHECK(pwrite(other, &mark, 1, 7) == 1 && shown[7] == mark);
    say("%c", shown[7]);
    return NULL;
}

int main(void) {
    guard();
    int mapped = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(mapped >= 0 && ftruncate(mapped, 4096) == 0);
    shown = mmap(NULL, 4096, PROT_READ, MAP_SHARED, mapped, 0);
    CHECK(shown != MAP_FAILED);
    other = -1;

    use_other();
    CHECK(close(other) == 0 && open_mapped() == other);
    write_mapped('a');
    use_other();
    CHECK(dup2(mapped, other) == other);
    write_mapped('b');
    use_other();
    CHECK(dup3(mapped, other, O_CLOEXEC) == other);
    write_mapped('c');
    use_other();
    CHECK(close_range((unsigned)other, (unsigned)other, 0) == 0 && fcntl(mapped, F_DUPFD, other) == other);
    write_mapped('d');
    use_other();
    CHECK(close_range((unsigned)other, ~0U, CLOSE_RANGE_UNSHARE) == 0 && dup(mapped) == other);
    write_mapped('e');

    // The file is mapped only now.
    use_other();
    int again = open("other", O_RDWR);
    CHECK(again >= 0);
    volatile char *late = mmap(NULL, 4096, PROT_READ, MAP_SHARED, again, 0);
    CHECK(late != MAP_FAILED && pwrite(other, "f", 1, 1) == 1 && late[1] == 'f');
    say("%c", late[1]);
    CHECK(close(again) == 0 && close(other) == 0);

    use_other();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(mapped, other) == other);
        write_mapped('g');
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(close(other) == 0);

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, apart, NULL) == 0 && pthread_join(thread, NULL) == 0);
    use_other();
    CHECK(dup2(mapped, other) == other);
    write_mapped('i');
    say("\n");
    return 0;
}
