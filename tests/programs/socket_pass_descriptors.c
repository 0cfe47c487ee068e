// Descriptors and credentials are sent over a socket to a child.
#include "check.h"
#include <sys/socket.h>

static void receive(int from, int parent) {
    char data[4];
    char control[200];
    memset(control, 0x11, sizeof control);
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 3);
    int files[2] = {-1, -1};
    struct ucred sender = {0};
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_type == SCM_RIGHTS) {
            CHECK(part->cmsg_len == CMSG_LEN(sizeof files));
            memcpy(files, CMSG_DATA(part), sizeof files);
        } else if (part->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&sender, CMSG_DATA(part), sizeof sender);
        }
    }
    char text[8] = {0};
    CHECK(read(files[0], text, 7) == 7 && strcmp(text, "content") == 0);
    CHECK(fcntl(files[0], F_GETFD) == FD_CLOEXEC && write(files[1], "back", 4) == 4);
    CHECK(sender.pid == parent);
    say("received %d and %d from %d, %zu control bytes\n", files[0], files[1], sender.pid, (size_t)message.msg_controllen);
    _exit(0);
}

int main(void) {
    guard();
    int ends[2];
    int answer[2];
    int on = 1;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        receive(ends[1], parent);
    }
    CHECK(pipe(answer) == 0);
    int files[2] = {file_with("data", "content"), answer[1]};
    char control[CMSG_SPACE(sizeof files)] __attribute__((aligned(8))) = {0};
    struct iovec part = {"abc", 3};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof files), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), files, sizeof files);
    CHECK(sendmsg(ends[0], &message, 0) == 3);
    char text[4];
    CHECK(read(answer[0], text, 4) == 4 && memcmp(text, "back", 4) == 0);
    expect_exit(child, 0);
    return 0;
}
