/* Does one kind of operation as often as the second argument says. The cost of one is the
 * difference between two counts, measured from outside, so that a replay can be timed, too. A third
 * argument arms system-call dispatch with all addresses allowed.
 *
 *     operations NAME COUNT [armed] */
#define _GNU_SOURCE
#include <cpuid.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { PIECE = 65536, PIECES = 256 };

static int zero, null, file, pipe_ends[2], pair[2], epoll, folder;
static char buffer[PIECE];
static char *page;
static volatile uint64_t sink;
static const char *own_path;

static void require(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static void do_getppid(void) { sink += (uint64_t)syscall(SYS_getppid); }
static void do_read(void) { sink += (uint64_t)read(zero, buffer, 64); }
static void do_write(void) { sink += (uint64_t)write(null, buffer, 64); }
static void do_pread(void) { sink += (uint64_t)pread(file, buffer, 64, 0); }
static void do_lseek(void) { sink += (uint64_t)lseek(file, 0, SEEK_SET); }
static void do_open_close(void) { close(open("/dev/null", O_RDONLY | O_CLOEXEC)); }
static void do_fstat(void) { struct stat status; sink += (uint64_t)fstat(file, &status); }
static void do_stat(void) { struct stat status; sink += (uint64_t)stat("/dev/null", &status); }
static void do_access(void) { sink += (uint64_t)access("/dev/null", R_OK); }
static void do_readlink(void) { sink += (uint64_t)readlink("/proc/self/exe", buffer, 4096); }
static void do_getdents(void) { lseek(folder, 0, SEEK_SET); sink += (uint64_t)syscall(SYS_getdents64, folder, buffer, PIECE); }
static void do_brk(void) { sink += (uint64_t)syscall(SYS_brk, 0); }
static void do_mprotect(void) { sink += (uint64_t)mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void do_sigprocmask(void) { sigset_t set; sink += (uint64_t)sigprocmask(SIG_BLOCK, NULL, &set); }
static void do_sigaction(void) { struct sigaction action; sink += (uint64_t)sigaction(SIGUSR2, NULL, &action); }
static void do_ioctl(void) { int count; sink += (uint64_t)ioctl(pipe_ends[0], FIONREAD, &count); }
static void do_fcntl(void) { sink += (uint64_t)fcntl(file, F_GETFL); }
static void do_poll(void) { struct pollfd one = {.fd = pipe_ends[0], .events = POLLIN}; sink += (uint64_t)poll(&one, 1, 0); }
static void do_epoll_wait(void) { struct epoll_event event; sink += (uint64_t)epoll_wait(epoll, &event, 1, 0); }
static void do_futex(void) { static uint32_t word; sink += (uint64_t)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
static void do_getrandom(void) { sink += (uint64_t)getrandom(buffer, 16, 0); }
static void do_clock(void) { struct timespec time; sink += (uint64_t)clock_gettime(CLOCK_MONOTONIC, &time); }
static void do_rdtsc(void) { sink += __rdtsc(); }

static void do_cpuid(void)
{
    unsigned a, b, c, d;
    __cpuid(0, a, b, c, d);
    sink += a + b + c + d;
}

static void do_map(void)
{
    void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(place != MAP_FAILED, "mmap");
    munmap(place, 4096);
}

static void do_send_receive(void)
{
    sink += (uint64_t)send(pair[0], buffer, 64, 0);
    sink += (uint64_t)recv(pair[1], buffer, 64, 0);
}

static void on_signal(int number) { sink += (uint64_t)number; }
static void do_signal(void) { raise(SIGUSR1); }

static void wait_for(pid_t process)
{
    int status;
    require(process > 0 && waitpid(process, &status, 0) == process && status == 0, "a child");
}

static void do_fork(void)
{
    pid_t process = fork();
    if (process == 0)
        _exit(0);
    wait_for(process);
}

static void do_exec(void)
{
    pid_t process = vfork();
    if (process == 0) {
        execl(own_path, own_path, "nothing", "0", NULL);
        _exit(127);
    }
    wait_for(process);
}

static void *in_thread(void *unused) { return unused; }

static void do_thread(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, in_thread, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

static void do_read_piece(void)
{
    static unsigned place;
    sink += (uint64_t)pread(file, buffer, PIECE, (off_t)(place++ % PIECES) * PIECE);
}

static void do_write_piece(void) { sink += (uint64_t)write(null, buffer, PIECE); }
static void do_nothing(void) {}

/* Fills the file to read, with incompressible bytes or with lines like those of a log. */
static void fill(int as_text)
{
    uint64_t state = 88172645463325252ull;
    for (int piece = 0; piece < PIECES; piece++) {
        for (size_t place = 0; place < PIECE; place += 64) {
            char line[80];
            for (int word = 0; word < 8; word++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                memcpy(line + 8 * word, &state, 8);
            }
            if (as_text)
                snprintf(line, sizeof line, "%08u connection from 10.0.%03u.%03u closed after %06u bytes\n", (unsigned)(place / 64),
                         (unsigned)(state % 256), (unsigned)(state / 256 % 256), (unsigned)(state / 65536 % 100000));
            memcpy(buffer + place, line, 64);
        }
        require(pwrite(file, buffer, PIECE, (off_t)piece * PIECE) == PIECE, "pwrite");
    }
}

static const struct operation {
    const char *name;
    void (*work)(void);
} operations[] = {
    {"getppid", do_getppid}, {"read", do_read}, {"write", do_write}, {"pread64", do_pread}, {"lseek", do_lseek},
    {"open-close", do_open_close}, {"fstat", do_fstat}, {"stat", do_stat}, {"access", do_access}, {"readlink", do_readlink},
    {"getdents64", do_getdents}, {"brk", do_brk}, {"mprotect", do_mprotect}, {"mmap-munmap", do_map}, {"sigprocmask", do_sigprocmask},
    {"sigaction", do_sigaction}, {"ioctl", do_ioctl}, {"fcntl", do_fcntl}, {"poll", do_poll}, {"epoll_wait", do_epoll_wait},
    {"send-recv", do_send_receive}, {"futex", do_futex}, {"getrandom", do_getrandom}, {"clock_gettime", do_clock}, {"rdtsc", do_rdtsc},
    {"cpuid", do_cpuid}, {"signal", do_signal}, {"fork", do_fork}, {"exec", do_exec}, {"thread", do_thread},
    {"payload-in", do_read_piece}, {"payload-text", do_read_piece}, {"payload-out", do_write_piece}, {"nothing", do_nothing},
};

static void set_up(const char *name)
{
    struct sigaction action = {.sa_handler = on_signal};
    zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    file = memfd_create("file", MFD_CLOEXEC);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(zero >= 0 && null >= 0 && folder >= 0 && file >= 0 && epoll >= 0 && page != MAP_FAILED, "set up");
    require(pipe2(pipe_ends, O_CLOEXEC) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "set up");
    sigaction(SIGUSR1, &action, NULL);
    require(pwrite(file, buffer, 4096, 0) == 4096, "pwrite");
    if (strncmp(name, "payload-", 8) == 0)
        fill(strcmp(name, "payload-text") == 0);
}

/* All addresses are in the allowed range, so the cost is that of the kernel's check at each entry.
 */
static void arm(void)
{
    require(prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0ul, ~0ul, NULL) == 0, "prctl");
}

int main(int argc, char **argv)
{
    const struct operation *operation = NULL;
    for (size_t index = 0; argc >= 3 && index < sizeof operations / sizeof *operations; index++)
        if (strcmp(argv[1], operations[index].name) == 0)
            operation = &operations[index];
    if (operation == NULL) {
        fprintf(stderr, "operations NAME COUNT [armed]\n");
        return 2;
    }
    if (operation->work == do_nothing)
        return 0;
    own_path = argv[0];
    set_up(argv[1]);
    if (argc > 3)
        arm();
    long count = atol(argv[2]);
    for (long index = 0; index < count; index++)
        operation->work();
    printf("%s %ld\n", argv[1], count);
    return 0;
}
