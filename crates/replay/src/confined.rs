//! The system calls that replayed processes may make directly: those that the runtime, and the
//! debugger in its place, need to lay out memory, to wait and to end. All of them concern the
//! process itself and the processes confined with it. All other calls go to the `warden`.

use retake_kernel::confinement::filter::{Check, Rule, is};
use retake_model::table::number;

/// Calls that are allowed with any arguments: they change and reveal nothing but the caller.
const FREE: &[i64] = &[
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_shmdt,
    number::MSEAL as i64,
    libc::SYS_pkey_mprotect,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    libc::SYS_brk,
    // Waiting.
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_wait4,
    // The end.
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signal handling.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Its own IDs and clocks.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcpu,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_getrlimit,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    // Its own descriptors.
    libc::SYS_close,
];

const PR_SET_SYSCALL_USER_DISPATCH: u32 = 59;
const ARCH_SET_GS: u32 = 0x1001;
const ARCH_SET_FS: u32 = 0x1002;
const ARCH_GET_FS: u32 = 0x1003;
const ARCH_SET_CPUID: u32 = 0x1012;
const PAGEMAP_SCAN: u32 = 0xc060_6610;
const PROCMAP_QUERY: u32 = 0xc068_6611;
/// The user supplies standard input, output and error. Processes may not read or map those.
const HIGHEST_STANDARD: u32 = 2;
/// The part of clone's flags that holds the exit signal.
const END_SIGNAL: u32 = 0xff;
/// The flags that a clone may have: what the child shares with its parent, but no new namespace and
/// nothing that notifies others.
const CHILD_FLAGS: u32 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_VFORK
    | libc::CLONE_PARENT
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_CHILD_CLEARTID) as u32;

/// The rules of a replay whose processes execute the file of the descriptor `host`.
pub(crate) fn rules(host: u32) -> Vec<Rule> {
    let rule = |number: i64, ways: Vec<Vec<Check>>| Rule { number: number as u32, ways };
    let one_of = |argument: u8, values: &[u32]| -> Vec<Vec<Check>> {
        values.iter().map(|&value| vec![is(argument, value)]).collect()
    };
    let own_file = |argument: u8| vec![Check::Above { argument, limit: HIGHEST_STANDARD }];
    let only = |argument: u8, flags: u32| Check::Masked { argument, mask: !flags, value: 0 };
    let ended_by =
        |signal: i32| Check::Masked { argument: 0, mask: END_SIGNAL, value: signal as u32 };
    let child = |signal: i32| vec![only(0, CHILD_FLAGS | END_SIGNAL), ended_by(signal)];
    let print = || one_of(0, &[libc::STDOUT_FILENO as u32, libc::STDERR_FILENO as u32]);
    let conditional = [
        rule(libc::SYS_write, print()),
        rule(libc::SYS_writev, print()),
        rule(libc::SYS_read, vec![own_file(0)]),
        rule(libc::SYS_pread64, vec![own_file(0)]),
        rule(libc::SYS_pwrite64, vec![own_file(0)]),
        rule(libc::SYS_ftruncate, vec![own_file(0)]),
        rule(libc::SYS_mmap, vec![own_file(4)]),
        rule(libc::SYS_msync, one_of(2, &[libc::MS_ASYNC as u32])),
        rule(libc::SYS_ioctl, one_of(1, &[PAGEMAP_SCAN, PROCMAP_QUERY])),
        rule(libc::SYS_clone, vec![child(libc::SIGCHLD), child(0)]),
        rule(libc::SYS_execveat, vec![vec![is(0, host), is(4, libc::AT_EMPTY_PATH as u32)]]),
        rule(libc::SYS_prctl, one_of(0, &[PR_SET_SYSCALL_USER_DISPATCH, libc::PR_SET_TSC as u32])),
        rule(
            libc::SYS_arch_prctl,
            one_of(0, &[ARCH_SET_GS, ARCH_SET_FS, ARCH_GET_FS, ARCH_SET_CPUID]),
        ),
        rule(libc::SYS_prlimit64, vec![vec![is(0, 0), is(1, libc::RLIMIT_STACK)]]),
        rule(libc::SYS_sched_setaffinity, vec![vec![is(0, 0)]]),
    ];
    let free = FREE.iter().map(|&number| rule(number, Vec::new()));
    free.chain(conditional).collect()
}
