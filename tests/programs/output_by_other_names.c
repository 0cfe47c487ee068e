// Standard output and error reached through descriptors other than 1 and 2: replay must print that, too, and nothing else.
#include "check.h"
#include <sys/socket.h>

enum { HIGH = 700, KEPT = 900 };

static void put(int descriptor, const char *text) {
    ssize_t length = (ssize_t)strlen(text);
    CHECK(write(descriptor, text, (size_t)length) == length);
}

static void by_path(const char *path, const char *text) {
    int descriptor = open(path, O_WRONLY | O_APPEND);
    CHECK(descriptor >= 0);
    put(descriptor, text);
    CHECK(close(descriptor) == 0);
}

static void pass(int socket, int descriptor) {
    char control[CMSG_SPACE(sizeof descriptor)] __attribute__((aligned(8))) = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof descriptor), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive(int socket) {
    char data;
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec part = {&data, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control}};
    CHECK(recvmmsg(socket, &message, 1, 0, NULL) == 1);
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message.msg_hdr)), sizeof descriptor);
    return descriptor;
}

int main(int argc, char **argv) {
    guard();
    if (argc > 1) {
        put(KEPT, "kept over exec\n");
        return 0;
    }
    by_path("/proc/self/fd/1", "output by its path\n");
    by_path("/dev/stderr", "error by its path\n");
    int nowhere = open("/dev/null", O_WRONLY);
    CHECK(nowhere >= 0);
    put(nowhere, "never seen\n");
    CHECK(fcntl(STDOUT_FILENO, F_DUPFD, HIGH) == HIGH);
    put(HIGH, "a high descriptor\n");
    CHECK(dup2(nowhere, HIGH) == HIGH);
    put(HIGH, "never seen\n");
    CHECK(dup2(STDERR_FILENO, HIGH) == HIGH && close(HIGH) == 0 && dup2(nowhere, HIGH) == HIGH);
    put(HIGH, "never seen\n");
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pass(ends[0], STDOUT_FILENO);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(STDOUT_FILENO) == 0);
        put(receive(ends[1]), "a received descriptor\n");
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(dup2(STDOUT_FILENO, KEPT) == KEPT && close(STDOUT_FILENO) == 0);
    execl("/proc/self/exe", argv[0], "again", NULL);
    return 1;
}
