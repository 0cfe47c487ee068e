//! Processes, signals, time and the rest: names in the order in which they are printed. Flags of
//! several bits come before their parts.

use crate::flags::FlagSet;

/// Timers of setitimer.
pub static ITIMER: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[(0, "ITIMER_REAL"), (1, "ITIMER_VIRTUAL"), (2, "ITIMER_PROF")],
    bits: &[],
};

/// Flags of getrandom.
pub static GETRANDOM: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "GRND_NONBLOCK"), (2, "GRND_RANDOM"), (4, "GRND_INSECURE")],
};

/// Flags of clone, unshare and setns.
pub static CLONE: FlagSet = FlagSet {
    field_mask: 0xff,
    fields: &[(0x11, "SIGCHLD"), (0x80, "CLONE_NEWTIME")],
    bits: &[
        (0x100, "CLONE_VM"),
        (0x200, "CLONE_FS"),
        (0x400, "CLONE_FILES"),
        (0x800, "CLONE_SIGHAND"),
        (0x1000, "CLONE_PIDFD"),
        (0x2000, "CLONE_PTRACE"),
        (0x4000, "CLONE_VFORK"),
        (0x8000, "CLONE_PARENT"),
        (0x10000, "CLONE_THREAD"),
        (0x20000, "CLONE_NEWNS"),
        (0x40000, "CLONE_SYSVSEM"),
        (0x80000, "CLONE_SETTLS"),
        (0x100000, "CLONE_PARENT_SETTID"),
        (0x200000, "CLONE_CHILD_CLEARTID"),
        (0x400000, "CLONE_DETACHED"),
        (0x800000, "CLONE_UNTRACED"),
        (0x1000000, "CLONE_CHILD_SETTID"),
        (0x2000000, "CLONE_NEWCGROUP"),
        (0x4000000, "CLONE_NEWUTS"),
        (0x8000000, "CLONE_NEWIPC"),
        (0x10000000, "CLONE_NEWUSER"),
        (0x20000000, "CLONE_NEWPID"),
        (0x40000000, "CLONE_NEWNET"),
        (0x80000000, "CLONE_IO"),
    ],
};

/// Flags of wait4 and waitid.
pub static WAIT: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "WNOHANG"),
        (2, "WUNTRACED"),
        (4, "WEXITED"),
        (8, "WCONTINUED"),
        (0x1000000, "WNOWAIT"),
        (0x20000000, "__WNOTHREAD"),
        (0x40000000, "__WALL"),
        (0x80000000, "__WCLONE"),
    ],
};

/// Kinds of IDs of waitid.
pub static WAITID: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[(0, "P_ALL"), (1, "P_PID"), (2, "P_PGID"), (3, "P_PIDFD")],
    bits: &[],
};

/// Operations of rt_sigprocmask.
pub static SIGPROCMASK: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[(0, "SIG_BLOCK"), (1, "SIG_UNBLOCK"), (2, "SIG_SETMASK")],
    bits: &[],
};

/// Flags in a `struct sigaction`.
pub static SIGACTION: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "SA_NOCLDSTOP"),
        (2, "SA_NOCLDWAIT"),
        (4, "SA_SIGINFO"),
        (0x4000000, "SA_RESTORER"),
        (0x8000000, "SA_ONSTACK"),
        (0x10000000, "SA_RESTART"),
        (0x40000000, "SA_NODEFER"),
        (0x80000000, "SA_RESETHAND"),
    ],
};

/// Resources of getrlimit.
pub static RLIMIT: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "RLIMIT_CPU"),
        (1, "RLIMIT_FSIZE"),
        (2, "RLIMIT_DATA"),
        (3, "RLIMIT_STACK"),
        (4, "RLIMIT_CORE"),
        (5, "RLIMIT_RSS"),
        (6, "RLIMIT_NPROC"),
        (7, "RLIMIT_NOFILE"),
        (8, "RLIMIT_MEMLOCK"),
        (9, "RLIMIT_AS"),
        (0xa, "RLIMIT_LOCKS"),
        (0xb, "RLIMIT_SIGPENDING"),
        (0xc, "RLIMIT_MSGQUEUE"),
        (0xd, "RLIMIT_NICE"),
        (0xe, "RLIMIT_RTPRIO"),
        (0xf, "RLIMIT_RTTIME"),
    ],
    bits: &[],
};

/// Policies of sched_setscheduler.
pub static SCHED_POLICY: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "SCHED_OTHER"),
        (1, "SCHED_FIFO"),
        (2, "SCHED_RR"),
        (3, "SCHED_BATCH"),
        (5, "SCHED_IDLE"),
        (6, "SCHED_DEADLINE"),
        (7, "SCHED_EXT"),
    ],
    bits: &[],
};

/// Flags of timer_settime and clock_nanosleep.
pub static TIMER: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "TIMER_ABSTIME"), (2, "TFD_TIMER_CANCEL_ON_SET")],
};

/// Clocks.
pub static CLOCK: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "CLOCK_REALTIME"),
        (1, "CLOCK_MONOTONIC"),
        (2, "CLOCK_PROCESS_CPUTIME_ID"),
        (3, "CLOCK_THREAD_CPUTIME_ID"),
        (4, "CLOCK_MONOTONIC_RAW"),
        (5, "CLOCK_REALTIME_COARSE"),
        (6, "CLOCK_MONOTONIC_COARSE"),
        (7, "CLOCK_BOOTTIME"),
        (8, "CLOCK_REALTIME_ALARM"),
        (9, "CLOCK_BOOTTIME_ALARM"),
        (0xb, "CLOCK_TAI"),
    ],
    bits: &[],
};

/// Flags of semget, shmget and msgget.
pub static IPC: FlagSet = FlagSet {
    field_mask: 0x1ff,
    fields: &[],
    bits: &[
        (0x200, "IPC_CREAT"),
        (0x400, "IPC_EXCL"),
        (0x800, "IPC_NOWAIT"),
        (0x1000, "SHM_NORESERVE"),
    ],
};

/// Flags of seccomp.
pub static SECCOMP: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "SECCOMP_FILTER_FLAG_TSYNC"),
        (2, "SECCOMP_FILTER_FLAG_LOG"),
        (4, "SECCOMP_FILTER_FLAG_SPEC_ALLOW"),
        (8, "SECCOMP_FILTER_FLAG_NEW_LISTENER"),
        (0x10, "SECCOMP_FILTER_FLAG_TSYNC_ESRCH"),
        (0x20, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"),
    ],
};
