// A process ends while its other threads wait in calls that write memory, compute, or sleep.
// flags: -pthread
// group: threads
// status: 3
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BYTES = 5000, ROUNDS = 200 };

static int pipes[2], sockets[2];
static volatile unsigned long computed;

static void *reads(void *argument UNUSED) {
    char bytes[BYTES];
    while (read(pipes[0], bytes, sizeof bytes) > 0)
        ;
    return NULL;
}

static _Noreturn void *receives(void *argument UNUSED) {
    static char bytes[2][BYTES];
    char control[64];
    struct sockaddr_storage name;
    struct iovec parts[2] = {{bytes[0], BYTES}, {bytes[1], BYTES}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    for (;;) {
        message.msg_name = &name;
        message.msg_namelen = sizeof name;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        CHECK(recvmsg(sockets[0], &message, 0) > 0);
    }
}

static _Noreturn void *computes(void *argument UNUSED) {
    for (unsigned long value = 1;; value = value * 31 + 1)
        computed = value;
}

static _Noreturn void *polls(void *argument UNUSED) {
    struct pollfd looked[2] = {{pipes[0], POLLIN, 0}, {sockets[0], POLLIN, 0}};
    for (;;)
        poll(looked, 2, 1);
}

static _Noreturn void *waits(void *argument UNUSED) {
    int group = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, events[8];
    CHECK(epoll_ctl(group, EPOLL_CTL_ADD, pipes[0], &event) == 0);
    for (;;)
        epoll_wait(group, events, 8, 1);
}

int main(void) {
    static void *(*const bodies[])(void *) = {reads, reads, receives, computes, polls, waits};
    char bytes[BYTES];
    pthread_t thread;
    CHECK(pipe(pipes) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
    for (unsigned i = 0; i < sizeof bodies / sizeof *bodies; i++)
        CHECK(pthread_create(&thread, NULL, bodies[i], NULL) == 0);
    memset(bytes, 'b', sizeof bytes);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        CHECK(write(pipes[1], bytes, round * 7 % BYTES) > 0);
        send(sockets[1], bytes, round * 13 % BYTES + 1, MSG_DONTWAIT);
    }
    puts("ends");
    fflush(stdout);
    exit(3);
}
