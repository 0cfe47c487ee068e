/* Runs `retake record` or `retake replay`, and counts the system calls of the supervisor and those
 * of the program's processes, or of the runtime in them. Prints names and numbers.
 *
 *     count_calls RETAKE ARGUMENTS
 *
 * While recording, a filter (seccomp) reports each call of the whole tree to this process, which
 * lets all of them go on: the supervisor traces processes that execute a program, and a process can
 * have only one tracer. While replaying it is the other way round: the supervisor has such a
 * filter, of which there can be only one, and traces no process, so this process does. A call that
 * is dispatched to the runtime is not counted; the call that the runtime makes for it is. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of these calls depends on how fast other processes are, so they count for none. */
static const int waits[] = {
    SYS_futex,     SYS_sched_yield,     SYS_poll,  SYS_ppoll,  SYS_epoll_wait,     SYS_epoll_pwait,
    SYS_nanosleep, SYS_clock_nanosleep, SYS_wait4, SYS_waitid, SYS_restart_syscall,
};

enum { PROGRAM, SUPERVISOR, WHO_COUNT };
enum { NOT_YET = -2 };

static const char *const who_names[] = {"program", "supervisor"};
static char retake[4096];
static long calls[WHO_COUNT];

static void require(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static int is_wait(int number)
{
    for (size_t index = 0; index < sizeof waits / sizeof *waits; index++)
        if (waits[index] == number)
            return 1;
    return 0;
}

/* Until a process that the supervisor has forked executes another program, its calls count as the
 * supervisor's. */
static int who_is(pid_t thread)
{
    char path[64], program[sizeof retake] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", thread);
    ssize_t length = readlink(path, program, sizeof program - 1);
    program[length < 0 ? 0 : length] = 0;
    return strcmp(program, retake) == 0 ? SUPERVISOR : PROGRAM;
}

/* Installs the filter. Returns the descriptor of its listener, or -1. */
static int listen_here(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
    struct sock_fprog filter = {.len = 1, .filter = all};
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
}

/* Starts the command under the filter. Until it executes the program it shares our descriptors, so
 * we have the listener, too. */
static pid_t start(char **command, int *listener)
{
    int access = PROT_READ | PROT_WRITE;
    int *shared = mmap(NULL, sizeof *shared, access, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED, "mmap");
    *shared = NOT_YET;
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        __atomic_store_n(shared, listen_here(), __ATOMIC_RELEASE);
        execv(command[0], command);
        _exit(127);
    }
    require(child > 0, "clone");
    while ((*listener = __atomic_load_n(shared, __ATOMIC_ACQUIRE)) == NOT_YET)
        require(waitpid(child, NULL, WNOHANG) == 0, "the child ended early");
    errno = EPERM;
    require(*listener >= 0, "seccomp: no filter that tells of calls");
    return child;
}

/* Lets all calls go on, and counts them, until no process is left under the filter. */
static void listen_to_all(int listener)
{
    for (;;) {
        struct pollfd one = {.fd = listener, .events = POLLIN};
        struct seccomp_notif told = {0};
        require(poll(&one, 1, -1) == 1, "poll");
        if (one.revents & POLLHUP)
            return;
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &told) != 0) {
            require(errno == ENOENT || errno == EINTR, "receive");
            continue;
        }
        calls[who_is((pid_t)told.pid)] += !is_wait(told.data.nr);
        struct seccomp_notif_resp answer = {.id = told.id};
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        /* A process that was killed meanwhile needs no answer. */
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0)
            require(errno == ENOENT, "answer");
    }
}

/* The page faults of an ended process and of those it has waited for. */
static void print_faults(pid_t process)
{
    char path[64], text[1024];
    long own, others;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    require(file != NULL, path);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *behind_name = strrchr(text, ')');
    const char *format = ") %*c %*d %*d %*d %*d %*d %*u %ld %ld";
    require(behind_name != NULL && sscanf(behind_name, format, &own, &others) == 2, path);
    printf("faults.supervisor %ld\nfaults.program %ld\n", own, others);
}

/* The result of waiting for an ended process. */
struct end {
    int status;
    struct rusage usage;
};

static pid_t start_traced(char **command)
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        execv(command[0], command);
        _exit(127);
    }
    require(child > 0 && waitpid(child, NULL, 0) == child, "fork");
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
    require(ptrace(PTRACE_SETOPTIONS, child, NULL, options) == 0, "options");
    require(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0, "trace");
    return child;
}

static void count_entry(pid_t thread)
{
    struct __ptrace_syscall_info info;
    long bytes = ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
    if (bytes > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY)
        calls[who_is(thread)] += !is_wait((int)info.entry.nr);
}

/* Counts until no process is left. */
static void trace_all(pid_t child, struct end *end)
{
    struct rusage usage;
    int status;
    for (;;) {
        pid_t thread = wait4(-1, &status, __WALL, &usage);
        if (thread < 0 && errno == ECHILD)
            return;
        require(thread > 0, "wait4");
        if (!WIFSTOPPED(status)) {
            if (thread == child)
                *end = (struct end){status, usage};
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (signal == (SIGTRAP | 0x80))
            count_entry(thread);
        if (event == PTRACE_EVENT_EXIT && thread == child)
            print_faults(child);
        /* New processes begin with a stop of their own. */
        long passed = event || signal == (SIGTRAP | 0x80) || signal == SIGSTOP ? 0 : signal;
        ptrace(PTRACE_SYSCALL, thread, NULL, passed);
    }
}

/* Runs the command, and counts its calls and page faults. */
static struct end run_listening(char **command, int output)
{
    int listener;
    siginfo_t ended;
    struct end end;
    pid_t child = start(command, &listener);
    listen_to_all(listener);
    require(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) == 0, "waitid");
    fflush(stdout);
    require(dup2(output, STDOUT_FILENO) == STDOUT_FILENO, "dup2");
    print_faults(child);
    require(wait4(child, &end.status, 0, &end.usage) == child, "wait4");
    return end;
}

static struct end run_traced(char **command, int output)
{
    struct end end = {0};
    pid_t child = start_traced(command);
    require(dup2(output, STDOUT_FILENO) == STDOUT_FILENO, "dup2");
    trace_all(child, &end);
    return end;
}

int main(int argc, char **argv)
{
    require(argc > 2 && realpath(argv[1], retake) != NULL, "count_calls RETAKE ARGUMENTS");
    /* The program's output is not part of ours. */
    int output = dup(STDOUT_FILENO);
    require(output >= 0 && freopen("/dev/null", "w", stdout) != NULL, "/dev/null");
    int is_replay = strcmp(argv[2], "replay") == 0;
    struct end end = (is_replay ? run_traced : run_listening)(argv + 1, output);
    for (int who = 0; who < WHO_COUNT; who++)
        printf("calls.%s %ld\n", who_names[who], calls[who]);
    printf("peak_kb %ld\n", end.usage.ru_maxrss);
    if (end.status != 0)
        fprintf(stderr, "retake ended with %x\n", (unsigned)end.status);
    return end.status != 0;
}
