// Calls that cannot be recorded fail as on a kernel without them, so that programs fall back (docs/LIMITS.md).
// modes: record replay slow
#include "check.h"
#include <asm/prctl.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

// Numbers of calls that the headers may lack.
enum {
    CALL_IO_URING_SETUP = 425,
    CALL_IO_URING_ENTER = 426,
    CALL_IO_URING_REGISTER = 427,
    CALL_PROCESS_MADVISE = 440,
    CALL_MEMFD_SECRET = 447,
    CALL_MAP_SHADOW_STACK = 453,
    CALL_GETXATTRAT = 464,
};

static char page[4096] __attribute__((aligned(4096)));

/* The kernel writes the results of both into memory without a call. */
static void asynchronous(void) {
    unsigned long context = 0;
    CHECK_FAILS(syscall(CALL_IO_URING_SETUP, 4, page), ENOSYS);
    CHECK_FAILS(syscall(CALL_IO_URING_ENTER, 0, 0, 0, 0, NULL, 0), ENOSYS);
    CHECK_FAILS(syscall(CALL_IO_URING_REGISTER, 0, 0, NULL, 0), ENOSYS);
    CHECK_FAILS(syscall(SYS_io_setup, 4, &context), ENOSYS);
    CHECK(context == 0);
    CHECK_FAILS(syscall(334 /* rseq */, page, 32, 0, 0x53053053), ENOSYS);
}

static void memory_of_the_kernel(void) {
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .config = PERF_COUNT_SW_CPU_CLOCK};
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    CHECK_FAILS(syscall(SYS_userfaultfd, O_CLOEXEC), EPERM);
    CHECK_FAILS(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0), EACCES);
    CHECK_FAILS(syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map), EPERM);
    CHECK_FAILS(syscall(CALL_MEMFD_SECRET, 0), ENOSYS);
}

/* Neither a child nor the parent, which is recorded, too, may be written to. */
static void tracing(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_FAILS(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
        pause();
    }
    CHECK_FAILS(ptrace(PTRACE_ATTACH, child, NULL, NULL), EPERM);
    CHECK_FAILS(ptrace(PTRACE_SEIZE, child, NULL, NULL), EPERM);
    char byte = 'x';
    struct iovec local = {&byte, 1}, remote = {page, 1};
    CHECK_FAILS(syscall(SYS_process_vm_writev, child, &local, 1, &remote, 1, 0), EPERM);
    CHECK(syscall(SYS_process_vm_readv, child, &local, 1, &remote, 1, 0) == 1 && byte == 0);
    CHECK(kill(child, SIGKILL) == 0);
    expect_killed(child, SIGKILL);
    CHECK_FAILS(syscall(SYS_process_vm_writev, child, &local, 1, &remote, 1, 0), ESRCH);
    CHECK_FAILS(syscall(SYS_process_vm_writev, -1, &local, 1, &remote, 1, 0), ESRCH);
}

static void futexes(void) {
    unsigned word = 0, other = 0;
    struct timespec soon = {0, 1000};
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_REQUEUE_PI, 0, &soon, &other, 0), ENOSYS);
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE_PI, 1, NULL, &other, 0), ENOSYS);
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, NULL, &other, 0), ENOSYS);
}

static void rights_and_segments(void) {
    unsigned long base = 0;
    CHECK_FAILS(syscall(SYS_pkey_alloc, 0, 0), ENOSPC);
    CHECK_FAILS(syscall(SYS_modify_ldt, 0, page, sizeof page), ENOSYS);
    CHECK_FAILS(syscall(SYS_set_thread_area, page), ENOSYS);
    CHECK_FAILS(syscall(SYS_arch_prctl, ARCH_SET_GS, page), EPERM);
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base != 0);
    CHECK_FAILS(syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18), EOPNOTSUPP);
    CHECK_FAILS(syscall(SYS_arch_prctl, 0x5001 /* ARCH_SHSTK_ENABLE */, 1), EOPNOTSUPP);
    CHECK_FAILS(syscall(CALL_MAP_SHADOW_STACK, 0, sizeof page, 0), EOPNOTSUPP);
    CHECK_FAILS(prctl(PR_SET_TSC, PR_TSC_SIGSEGV), EINVAL);
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    CHECK_FAILS(prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, NULL), EINVAL);
    CHECK_FAILS(syscall(SYS_remap_file_pages, page, sizeof page, 0, 0, 0), EINVAL);
}

/* Commands whose structures point to further memory, for hardware that this machine has. */
static void commands(void) {
    uint64_t scan[12] = {sizeof scan, 0, (uintptr_t)page, (uintptr_t)page + sizeof page};
    struct { char name[16]; void *data; } interface = {"lo", (uint32_t[]){0xa /* ETHTOOL_GLINK */, 0}};
    int pages = open("/proc/self/pagemap", O_RDONLY), socket = (int)syscall(SYS_socket, 2, 2, 0);
    CHECK(pages >= 0 && socket >= 0);
    CHECK_FAILS(ioctl(pages, 0xc0606610 /* PAGEMAP_SCAN */, scan), ENOTTY);
    CHECK_FAILS(ioctl(socket, 0x8946 /* SIOCETHTOOL */, &interface), EOPNOTSUPP);
}

static void others(void) {
    struct iovec part = {page, sizeof page};
    CHECK_FAILS(syscall(CALL_PROCESS_MADVISE, -1, &part, 1, 0, 0), ENOSYS);
    CHECK_FAILS(syscall(CALL_GETXATTRAT, AT_FDCWD, "/", 0, "user.none", page, 16), ENOSYS);
    CHECK_FAILS(syscall(9999), ENOSYS);
}

int main(void) {
    guard();
    asynchronous();
    memory_of_the_kernel();
    tracing();
    futexes();
    rights_and_segments();
    commands();
    others();
    say("process %d\n", getpid());
    return 0;
}
