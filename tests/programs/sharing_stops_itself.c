// A process that stops itself, by any call, does not block the others that share memory with it.
// output: same
// calls: varies
#include "check.h"
#include <sys/mman.h>

static volatile int *shared;

static void by_kill(int number) {
    CHECK(kill(getpid(), number) == 0);
}
static void by_thread(int number) {
    CHECK(syscall(SYS_tgkill, getpid(), gettid(), number) == 0);
}
static void by_thread_alone(int number) {
    CHECK(syscall(SYS_tkill, gettid(), number) == 0);
}
static void by_group(int number) {
    CHECK(setpgid(0, 0) == 0 && kill(0, number) == 0);
}
static void by_queue(int number) {
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), number, &info) == 0);
}
static void by_queue_of_thread(int number) {
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, &info) == 0);
}

static void stopped(void (*stop)(int), int number) {
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        stop(number);
        _exit(*shared);
    }
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == number);
    // It is stopped now.
    *shared = 3;
    CHECK(kill(child, SIGCONT) == 0);
    expect_exit(child, 3);
    *shared = 0;
}

int main(void) {
    alarm(60);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    void (*const ways[])(int) = {by_kill, by_thread, by_thread_alone, by_group, by_queue, by_queue_of_thread};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        stopped(ways[i], SIGSTOP);
    }
    say("stopped and continued\n");
    return 0;
}
