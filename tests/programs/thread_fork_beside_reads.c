// fork while calls of other threads write memory: the child has what was written by then.
// flags: -pthread
// group: threads
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BYTES = 20000, CHILDREN = 100 };

static unsigned char plain[BYTES], first[BYTES / 2], second[BYTES / 2], received[BYTES];
static volatile int stop;
static int ends[2];

static void *reads(void *argument UNUSED) {
    int noise = open("/dev/urandom", O_RDONLY);
    while (!stop)
        CHECK(read(noise, plain, sizeof plain) > 0);
    return NULL;
}

static void *reads_parts(void *argument UNUSED) {
    int noise = open("/dev/urandom", O_RDONLY);
    struct iovec parts[2] = {{first, sizeof first}, {second, sizeof second}};
    while (!stop)
        CHECK(readv(noise, parts, 2) > 0);
    return NULL;
}

static void *sends(void *argument UNUSED) {
    static unsigned char bytes[BYTES];
    for (unsigned round = 0; !stop; round++) {
        memset(bytes, (int)round, sizeof bytes);
        CHECK(send(ends[0], bytes, sizeof bytes, 0) > 0);
        usleep(100);
    }
    shutdown(ends[0], SHUT_WR);
    return NULL;
}

static void *receives(void *argument UNUSED) {
    struct iovec part = {received, sizeof received};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    while (recvmsg(ends[1], &message, 0) > 0)
        ;
    return NULL;
}

static unsigned long sum_of(const unsigned char *bytes, size_t count, unsigned long sum) {
    for (size_t i = 0; i < count; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

int main(void) {
    void *(*const work[])(void *) = {reads, reads_parts, sends, receives};
    pthread_t threads[4];
    guard();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
    for (int number = 0; number < CHILDREN; number++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            unsigned long sum = sum_of(plain, sizeof plain, 0);
            sum = sum_of(second, sizeof second, sum_of(first, sizeof first, sum));
            say("child %d has %lx\n", number, sum_of(received, sizeof received, sum));
            _exit(number % 9);
        }
        expect_exit(child, number % 9);
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
