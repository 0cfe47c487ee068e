// Reads of a file that is large enough to be logged by reference: all calls that read, file positions that other processes move,
// descriptors that change meanwhile, and writers between the reads.
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define WORDS 0x80000UL // 4 MB
#define PIECE 0x10000UL

static uint64_t buffer[PIECE / 8 + 2];

static uint64_t word_at(uint64_t index, uint64_t seed) {
    uint64_t value = (index + seed) * 0x9e3779b97f4a7c15UL;
    return value ^ value >> 29;
}

static void make(const char *name, uint64_t seed) {
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (uint64_t done = 0; done < WORDS; done += PIECE / 8) {
        for (uint64_t i = 0; i < PIECE / 8; i++)
            buffer[i] = word_at(done + i, seed);
        CHECK(write(file, buffer, PIECE) == PIECE);
    }
    CHECK(close(file) == 0);
}

static void check_bytes(const void *bytes, uint64_t offset, uint64_t count, uint64_t seed) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = word_at((offset + i) / 8, seed);
        CHECK(((const unsigned char *)bytes)[i] == (unsigned char)(word >> (offset + i) % 8 * 8));
    }
}

static int opened(const char *name) {
    int file = open(name, O_RDONLY);
    CHECK(file >= 0);
    return file;
}

static void by_position(int file, uint64_t count, uint64_t seed) {
    uint64_t offset = lseek(file, 0, SEEK_CUR);
    CHECK(read(file, buffer, count) == (ssize_t)count);
    check_bytes(buffer, offset, count, seed);
}

static void at_offset(int file, uint64_t offset, uint64_t seed) {
    CHECK(pread(file, buffer, PIECE, offset) == PIECE);
    check_bytes(buffer, offset, PIECE, seed);
}

static void every_call(void) {
    int file = opened("a");
    for (int i = 0; i < 8; i++)
        by_position(file, PIECE - i, 1);
    // Two descriptors that share a position.
    int again = dup2(file, 50);
    for (int i = 0; i < 4; i++)
        by_position(i % 2 ? file : again, PIECE - 9, 1);
    CHECK(lseek(again, 0, SEEK_CUR) == lseek(file, 0, SEEK_CUR) && close(again) == 0);
    CHECK(lseek(file, 12345, SEEK_SET) == 12345);
    by_position(file, 0x4000, 1);
    at_offset(file, 77777, 1);
    struct iovec pieces[4] = {{buffer, 100}, {(char *)buffer + 100, 0}, {(char *)buffer + 100, 30000}, {(char *)buffer + 30100, 3}};
    uint64_t offset = lseek(file, 0, SEEK_CUR);
    CHECK(readv(file, pieces, 4) == 30103);
    check_bytes(buffer, offset, 30103, 1);
    CHECK(preadv(file, pieces, 4, 1001) == 30103);
    check_bytes(buffer, 1001, 30103, 1);
    offset = lseek(file, 0, SEEK_CUR);
    CHECK(preadv2(file, pieces, 4, -1, 0) == 30103);
    check_bytes(buffer, offset, 30103, 1);
    // Reads up to the end of the file, and beyond it.
    CHECK(pread(file, buffer, PIECE, WORDS * 8 - 20000) == 20000);
    check_bytes(buffer, WORDS * 8 - 20000, 20000, 1);
    CHECK(pread(file, buffer, PIECE, WORDS * 8) == 0);
    // Reads the whole file at once, and a part that was not read before.
    make("b", 2);
    char *all = malloc(WORDS * 8 + 1);
    int other = opened("b");
    CHECK(read(other, all, WORDS * 8 + 1) == WORDS * 8);
    check_bytes(all, 0, WORDS * 8, 2);
    free(all);
    // A buffer whose end cannot be written.
    char *short_one = mmap(NULL, 2 * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(short_one != MAP_FAILED && mprotect(short_one + PIECE, PIECE, PROT_READ) == 0);
    ssize_t got = pread(file, short_one, 2 * PIECE, 4096);
    CHECK(got == PIECE);
    check_bytes(short_one, 4096, got, 1);
    CHECK(munmap(short_one, 2 * PIECE) == 0);
    CHECK(close(file) == 0 && close(other) == 0);
}

// Two processes share a position.
static void with_a_child(void) {
    int file = opened("a"), ends[2];
    by_position(file, PIECE, 1);
    by_position(file, PIECE, 1);
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++)
            CHECK(read(file, buffer, PIECE) == PIECE);
        CHECK(write(ends[1], "x", 1) == 1);
        by_position(file, 0x4000, 1);
        _exit(0);
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    CHECK(wait_for(child) == 0);
    CHECK(lseek(file, 0, SEEK_CUR) == 7 * PIECE + 0x4000);
    by_position(file, PIECE, 1);
    CHECK(close(file) == 0);
}

// The same in parallel: the order of the pieces is open, but each piece is from the file.
static void beside_a_child(void) {
    int file = opened("a"), status;
    uint64_t pieces = 0;
    at_offset(file, 0, 1);
    pid_t child = fork();
    for (int rounds = 0; rounds < 5; rounds++) {
        while (read(file, buffer, 0x4000) == 0x4000) {
            uint64_t piece = 0;
            while (piece < WORDS / 0x800 && buffer[0] != word_at(piece * 0x800, 1))
                piece++;
            CHECK(piece < WORDS / 0x800);
            check_bytes(buffer, piece * 0x4000, 0x4000, 1);
            pieces = pieces * 31 + piece;
        }
        CHECK(lseek(file, 0, SEEK_SET) == 0);
    }
    // The output shows what this process got, and replay compares the output.
    say("%s %lx\n", child ? "parent" : "child", pieces);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0 && close(file) == 0);
}

static int changing;
static volatile int goes_on = 1;

static void *change(void *unused UNUSED) {
    int files[2] = {opened("a"), opened("b")};
    for (int i = 0; goes_on; i++)
        CHECK(dup2(files[i % 2], changing) == changing);
    close(files[0]);
    close(files[1]);
    return NULL;
}

// Another thread points the descriptor to one file and then to another: each read is from one of them.
static void with_a_thread(void) {
    changing = opened("a");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, change, NULL) == 0);
    unsigned counts[3] = {0};
    uint64_t order = 0;
    for (int i = 0; i < 200; i++) {
        CHECK(pread(changing, buffer, PIECE, i * 4096) == PIECE);
        uint64_t seed = buffer[0] == word_at(i * 512, 1) ? 1 : 2;
        check_bytes(buffer, i * 4096, PIECE, seed);
        counts[seed]++;
        order = order * 31 + seed;
    }
    goes_on = 0;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(counts[1] + counts[2] == 200 && close(changing) == 0);
    say("%u %u %lx\n", counts[1], counts[2], order);
}

// Reads see what a writer wrote.
static void with_writers(void) {
    int file = opened("a");
    at_offset(file, 0, 1);
    at_offset(file, PIECE, 1);
    int writer = open("a", O_RDWR | O_NONBLOCK);
    CHECK(writer >= 0);
    uint64_t changed = 5;
    CHECK(pwrite(writer, &changed, 8, 8) == 8);
    CHECK(pread(file, buffer, PIECE, 0) == PIECE && buffer[1] == 5 && buffer[2] == word_at(2, 1));
    uint64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
    CHECK(shared != MAP_FAILED && close(writer) == 0);
    for (uint64_t i = 0; i < 100; i++) {
        shared[3] = i;
        CHECK(pread(file, buffer, PIECE, 0) == PIECE && buffer[3] == i);
    }
    CHECK(munmap(shared, 4096) == 0);
    CHECK(truncate("a", WORDS * 4) == 0 && truncate("a", WORDS * 8) == 0);
    CHECK(pread(file, buffer, PIECE, WORDS * 4) == PIECE && buffer[0] == 0);
    // From here on no process has the file open for writing.
    for (uint64_t i = 0; i < WORDS * 8 / PIECE * 3; i++)
        CHECK(pread(file, buffer, PIECE, i * PIECE % (WORDS * 8)) == PIECE);
    CHECK(close(open("a", O_RDONLY | O_TRUNC)) == 0);
    CHECK(pread(file, buffer, PIECE, 0) == 0);
    make("c", 3);
    CHECK(rename("c", "a") == 0);
    CHECK(pread(file, buffer, PIECE, 0) == 0 && close(file) == 0);
    file = opened("a");
    at_offset(file, 0, 3);
    at_offset(file, 4096, 3);
    CHECK(unlink("a") == 0);
    at_offset(file, 8192, 3);
    CHECK(close(file) == 0);
}

int main(void) {
    make("a", 1);
    every_call();
    with_a_child();
    beside_a_child();
    with_a_thread();
    with_writers();
    say("done\n");
    return 0;
}
