// As in browsers, processes with threads exchange a descriptor of memory, and one maps it read-only while the other writes it.
// flags: -pthread -O0
// group: sharing
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { LAST = 30000, CALL_EVERY = 512, MEMORY_BYTES = 4096 };

static void *idle(void *argument) {
    char byte;
    CHECK(read(*(int *)argument, &byte, 1) == 0);
    return NULL;
}

static void send_descriptor(int socket, int descriptor) {
    char byte = 1;
    struct iovec vector = {&byte, 1};
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = {.room = {0}};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive_descriptor(int socket) {
    char byte;
    int descriptor;
    struct iovec vector = {&byte, 1};
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(socket, &message, 0) == 1 && control.header.cmsg_type == SCM_RIGHTS);
    memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return descriptor;
}

static uint64_t look(int socket) {
    int memory = receive_descriptor(socket);
    volatile uint64_t *words = mmap(NULL, MEMORY_BYTES, PROT_READ, MAP_SHARED, memory, 0);
    CHECK(words != MAP_FAILED);
    uint64_t seen = 0;
    for (int round = 0; words[0] < LAST; round++) {
        seen = seen * 31 + words[0];
        if (round % CALL_EVERY == 0) {
            sched_yield();
        }
    }
    return seen;
}

static void show(int socket) {
    int memory = memfd_create("board", MFD_CLOEXEC);
    CHECK(memory >= 0 && ftruncate(memory, MEMORY_BYTES) == 0);
    volatile uint64_t *words = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    CHECK(words != MAP_FAILED);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    int read_only = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(read_only >= 0);
    send_descriptor(socket, read_only);
    for (int round = 0; round < LAST; round++) {
        words[0]++;
        if (round % CALL_EVERY == 0) {
            sched_yield();
        }
    }
}

int main(void) {
    guard();
    int sockets[2], pipes[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid_t child = fork();
    CHECK(child >= 0 && pipe(pipes) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, idle, &pipes[0]) == 0);
    if (child == 0) {
        say("seen %016lx\n", (unsigned long)look(sockets[1]));
    } else {
        show(sockets[0]);
    }
    CHECK(close(pipes[1]) == 0 && pthread_join(thread, NULL) == 0);
    if (child == 0) {
        _exit(0);
    }
    expect_exit(child, 0);
    return 0;
}
