// POSIX message queues: priorities, attributes, time-outs.
// needs: mqueue
#include "check.h"
#include <mqueue.h>
#include <time.h>

int main(void) {
    guard();
    char name[64];
    snprintf(name, sizeof name, "/retake-test-%d", getpid());
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64};
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    CHECK(queue >= 0 && mq_unlink(name) == 0);
    CHECK(mq_send(queue, "low", 3, 1) == 0 && mq_send(queue, "high", 4, 9) == 0);
    char text[64];
    unsigned priority = 0;
    CHECK_FAILS(mq_receive(queue, text, 10, &priority), EMSGSIZE);
    memset(text, '#', sizeof text);
    CHECK(mq_receive(queue, text, sizeof text, &priority) == 4 && priority == 9 && memcmp(text, "high#", 5) == 0);
    CHECK(mq_getattr(queue, &attributes) == 0 && attributes.mq_curmsgs == 1);
    CHECK(mq_receive(queue, text, sizeof text, NULL) == 3);
    struct timespec until;
    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    CHECK_FAILS(mq_timedreceive(queue, text, sizeof text, NULL, &until), ETIMEDOUT);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(mq_send(queue, "child", 5, 0) == 0);
        _exit(0);
    }
    CHECK(mq_receive(queue, text, sizeof text, NULL) == 5);
    expect_exit(child, 0);
    CHECK(mq_close(queue) == 0);
    say("%s\n", name);
    return 0;
}
