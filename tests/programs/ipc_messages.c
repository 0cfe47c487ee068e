// System V message queues: types, sizes, and a child that answers.
#include "check.h"
#include <sys/ipc.h>
#include <sys/msg.h>

struct message { long type; char text[32]; };

int main(void) {
    guard();
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    CHECK(id >= 0);
    struct message out = {.type = 5, .text = "five"};
    CHECK(msgsnd(id, &out, 4, 0) == 0);
    out = (struct message){.type = 3, .text = "three"};
    CHECK(msgsnd(id, &out, 5, IPC_NOWAIT) == 0);
    struct message in;
    memset(&in, '#', sizeof in);
    CHECK(msgrcv(id, &in, sizeof in.text, 3, 0) == 5 && in.type == 3 && memcmp(in.text, "three#", 6) == 0);
    CHECK_FAILS(msgrcv(id, &in, 2, 0, 0), E2BIG);
    CHECK(msgrcv(id, &in, 2, 0, MSG_NOERROR) == 2 && in.type == 5);
    CHECK_FAILS(msgrcv(id, &in, sizeof in.text, 0, IPC_NOWAIT), ENOMSG);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        out = (struct message){.type = getpid(), .text = "done"};
        CHECK(msgrcv(id, &in, sizeof in.text, 1, 0) == 8 && msgsnd(id, &out, 4, 0) == 0);
        _exit(0);
    }
    out = (struct message){.type = 1, .text = "question"};
    CHECK(msgsnd(id, &out, 8, 0) == 0 && msgrcv(id, &in, sizeof in.text, child, 0) == 4 && in.type == child);
    expect_exit(child, 0);
    struct msqid_ds status;
    CHECK(msgctl(id, IPC_STAT, &status) == 0 && status.msg_qnum == 0 && status.msg_lspid == child);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
    say("id %d answer from %ld\n", id, in.type);
    return 0;
}
