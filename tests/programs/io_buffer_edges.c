// Buffers and strings of all small sizes that end where memory ends, buffers larger than the staging area, and buffers that cannot be read or written.
#include "check.h"
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>

enum { PAGE = 4096, MOST = 200, LARGE = 300000 };

static unsigned char *end; // nothing is mapped from here on
static unsigned long sum;

static void add(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sum = sum * 31 + bytes[i];
    }
}

static void small(int out, int in) {
    for (size_t count = 0; count <= MOST; count++) {
        for (size_t i = 0; i < count; i++) {
            end[-(long)count + (long)i] = (unsigned char)(count + 7 * i);
        }
        CHECK(write(out, end - count, count) == (ssize_t)count);
        memset(end - count, 0, count);
        CHECK(count == 0 || read(in, end - count, count) == (ssize_t)count);
        for (size_t i = 0; i < count; i++) {
            CHECK(end[-(long)count + (long)i] == (unsigned char)(count + 7 * i));
        }
        CHECK(count == 0 || getrandom(end - count, count, 0) == (ssize_t)count);
        add(end - count, count);
    }
}

static void messages(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    for (size_t count = 1; count <= MOST; count++) {
        memset(end - count, (int)count, count);
        CHECK(sendto(pair[0], end - count, count, 0, NULL, 0) == (ssize_t)count);
        CHECK(recvfrom(pair[1], end - MOST, MOST, 0, NULL, NULL) == (ssize_t)count);
        CHECK(end[-MOST] == count && end[-MOST + (long)count - 1] == count);
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        CHECK(send(pair[1], end - count, count, 0) == (ssize_t)count);
        CHECK(recvfrom(pair[0], end - MOST, MOST, 0, (struct sockaddr *)&address, &bytes) == (ssize_t)count);
    }
    CHECK_FAILS(recvfrom(pair[0], end - 1, 1, MSG_DONTWAIT, NULL, NULL), EAGAIN);
}

static void strings(void) {
    for (size_t length = 1; length < 60; length++) {
        char *text = (char *)end - length - 1;
        memset(text, '/', length);
        text[length] = 0;
        CHECK(access(text, F_OK) == 0);
        text[length - 1] = 'x';
        CHECK_FAILS(access(text, F_OK), ENOENT);
    }
    memset(end - 64, '/', 64);
    for (size_t length = 0; length <= 64; length++) {
        CHECK_FAILS(access((char *)end - length, F_OK), EFAULT);
    }
}

static void unreadable(int out, int in) {
    CHECK_FAILS(write(out, end, 1), EFAULT);
    CHECK(write(out, "ten bytes", 10) == 10);
    CHECK_FAILS(read(in, end, 10), EFAULT);
    CHECK(read(in, end - 10, 10) == 10 && strcmp((char *)end - 10, "ten bytes") == 0);
}

static void large(void) {
    unsigned char *bytes = malloc(LARGE);
    int file = memfd_create("large", 0);
    CHECK(bytes && file >= 0 && getrandom(bytes, LARGE, 0) == LARGE);
    add(bytes, LARGE);
    CHECK(write(file, bytes, LARGE) == LARGE);
    for (size_t count = LARGE; count > 30000; count -= 33333) {
        memset(bytes, 0, LARGE);
        CHECK(pread(file, bytes, count, 0) == (ssize_t)count);
        add(bytes, count);
    }
}

int main(void) {
    guard();
    unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 2 * PAGE, PAGE) == 0);
    end = pages + 2 * PAGE;
    int ends[2];
    CHECK(pipe(ends) == 0);
    small(ends[1], ends[0]);
    messages();
    strings();
    unreadable(ends[1], ends[0]);
    large();
    say("sum %lx\n", sum);
    return 0;
}
