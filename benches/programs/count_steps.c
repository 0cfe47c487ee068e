/* Runs `retake record` or `retake replay` of the program `counted`, and counts by single steps how
 * many instructions it executes from mark to mark. Prints the name and the number for each stretch.
 *
 *     count_steps RETAKE record -o RECORDING -- ./counted
 *     count_steps RETAKE replay RECORDING
 *
 * A recorded process has a tracer only while it executes a program, and a replayed one never has.
 * So the counter attaches later, while the program waits: recorded or replayed, it writes to a full
 * pipe. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIPE_BYTES = 4096, POLL_US = 2000, MOST_POLLS = 10000, MOST_CALLS = 32 };
enum { CALL_OVER = -1, ALL_OVER = -2 };
enum { NO_CALL = -1 };
enum { PUSH_FLAGS = 0x9c, TRAP_FLAG = 0x100 };

/* The program's message about itself. */
static char said[1024];
static char *names[MOST_CALLS];
static unsigned long long mark;

static void require(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

/* Returns whether the process waits in a write to its standard output, and that is our pipe. */
static int waits_at(pid_t process, ino_t pipe_number)
{
    char path[64], call[32] = "";
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/fd/1", process);
    if (stat(path, &status) != 0 || status.st_ino != pipe_number || !S_ISFIFO(status.st_mode))
        return 0;
    snprintf(path, sizeof path, "/proc/%d/syscall", process);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    int is_read = fgets(call, sizeof call, file) != NULL;
    fclose(file);
    return is_read && strncmp(call, "1 0x1 ", 6) == 0;
}

/* Returns the process that waits, once there is one. */
static pid_t find(pid_t retake, ino_t pipe_number)
{
    for (int poll = 0; poll < MOST_POLLS; poll++) {
        DIR *folder = opendir("/proc");
        pid_t found = 0;
        for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
            pid_t process = atoi(entry->d_name);
            if (process > 0 && waits_at(process, pipe_number))
                found = process;
        }
        closedir(folder);
        if (found)
            return found;
        require(waitpid(retake, NULL, WNOHANG) == 0, "retake ended early");
        usleep(POLL_US);
    }
    fprintf(stderr, "the program does not wait at the pipe\n");
    exit(1);
}

static pid_t start(char **command, int output)
{
    pid_t retake = fork();
    if (retake == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(output, STDOUT_FILENO);
        execv(command[0], command);
        _exit(127);
    }
    require(retake > 0, "fork");
    close(output);
    return retake;
}

/* Parses the program's message: the address of its mark, and names. */
static void understand(void)
{
    int count = 0;
    char *rest = said;
    mark = strtoull(strsep(&rest, " "), NULL, 16);
    for (char *name; count < MOST_CALLS && (name = strsep(&rest, " \n")) != NULL && *name;)
        names[count++] = name;
    require(mark != 0 && count > 0, "what the program says");
}

/* Makes one step, and reads the registers after it. At first `registers` holds those of the step
 * before. The flags that `pushfq` stores contain our trap flag, which the runtime would take for
 * the program's own. */
static void step(pid_t process, struct user_regs_struct *registers)
{
    int status;
    long code = registers->rip ? ptrace(PTRACE_PEEKTEXT, process, registers->rip, NULL) : 0;
    int stores_flags = (code & 0xff) == PUSH_FLAGS;
    require(ptrace(PTRACE_SINGLESTEP, process, NULL, NULL) == 0, "step");
    require(waitpid(process, &status, __WALL) == process, "wait");
    if (!WIFSTOPPED(status) || status >> 8 != SIGTRAP) {
        fprintf(stderr, "the program stops otherwise than after a step: %x\n", (unsigned)status);
        exit(1);
    }
    require(ptrace(PTRACE_GETREGS, process, NULL, registers) == 0, "registers");
    if (stores_flags) {
        long flags = ptrace(PTRACE_PEEKDATA, process, registers->rsp, NULL) & ~TRAP_FLAG;
        require(ptrace(PTRACE_POKEDATA, process, registers->rsp, flags) == 0, "flags");
    }
}

static void count(pid_t process, int input)
{
    struct user_regs_struct registers = {0};
    long call = NO_CALL, steps = 0;
    size_t length = 0;
    require(fcntl(input, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    for (;;) {
        step(process, &registers);
        steps++;
        if (mark == 0) {
            ssize_t got = read(input, said + length, sizeof said - 1 - length);
            length += got > 0 ? (size_t)got : 0;
            if (length > 0 && said[length - 1] == '\n')
                understand();
        }
        if (mark == 0 || registers.rip != mark)
            continue;
        long what = (long)registers.rdi;
        if (what == ALL_OVER)
            return;
        if (what == CALL_OVER && call != NO_CALL)
            printf("%s %ld\n", names[call], steps);
        require(what < MOST_CALLS && (what < 0 || names[what] != NULL), "a mark");
        call = what < 0 ? NO_CALL : what;
        steps = 0;
    }
}

int main(int argc, char **argv)
{
    static char filling[PIPE_BYTES];
    int ends[2], status;
    struct stat pipe_status;
    require(argc > 1 && pipe2(ends, O_CLOEXEC) == 0, "count_steps RETAKE ARGUMENTS");
    require(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) == PIPE_BYTES, "the size of a pipe");
    require(write(ends[1], filling, PIPE_BYTES) == PIPE_BYTES, "write");
    require(fstat(ends[0], &pipe_status) == 0, "fstat");
    pid_t retake = start(argv + 1, ends[1]);
    pid_t process = find(retake, pipe_status.st_ino);
    require(ptrace(PTRACE_SEIZE, process, NULL, PTRACE_O_EXITKILL) == 0, "seize");
    require(ptrace(PTRACE_INTERRUPT, process, NULL, NULL) == 0, "interrupt");
    require(waitpid(process, &status, __WALL) == process && WIFSTOPPED(status), "stop");
    require(read(ends[0], filling, PIPE_BYTES) == PIPE_BYTES, "read");
    count(process, ends[0]);
    require(ptrace(PTRACE_DETACH, process, NULL, NULL) == 0, "detach");
    require(waitpid(retake, &status, 0) == retake, "wait for retake");
    if (status != 0)
        fprintf(stderr, "retake ended with %x\n", (unsigned)status);
    return status != 0;
}
