//! Signals to the supervisor itself. The program gets the terminal's signals anyway; signals sent
//! to the supervisor alone are passed on to it.

use crate::shared::{self, Header};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

static PASS_TO: AtomicI32 = AtomicI32::new(0);
/// The header that lists the recorded processes, whose signals are not passed on. Set only while
/// [`passing_to`] runs.
static RECORDED: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
/// The last signal that asked this process to end; 0 if none did.
static ASKED_TO_END: AtomicI32 = AtomicI32::new(0);

/// The signal that is kept back, if it is not 0, and how often it came.
static KEPT_BACK: AtomicI32 = AtomicI32::new(0);
static KEPT_BACK_TIMES: AtomicU32 = AtomicU32::new(0);

extern "C" fn pass_on(
    number: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a valid siginfo to an SA_SIGINFO handler. For its own signals the
    // sender's field has another meaning, which does no harm.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    if number == KEPT_BACK.load(Ordering::Relaxed) {
        KEPT_BACK_TIMES.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if ASK_TO_END.contains(&number) {
        ASKED_TO_END.store(number, Ordering::Relaxed);
    }
    let target = PASS_TO.load(Ordering::Relaxed);
    const FROM_KERNEL: i32 = 0x80; // the terminal signals the whole group
    let is_meant = number == libc::SIGALRM || code != FROM_KERNEL;
    // SAFETY: no arguments. A process that aborts signals itself.
    let is_own = unsafe { libc::getpid() } == sender;
    if target > 0 && is_meant && !is_own && !is_recorded(sender) {
        // SAFETY: kill is safe in a handler.
        unsafe { libc::kill(target, number) };
    }
}

/// Whether a process is recorded. Signals that it sends to its parent are not meant for it.
fn is_recorded(pid: i32) -> bool {
    // SAFETY: null, or the header that `passing_to` borrows while it is stored here.
    let Some(header) = (unsafe { RECORDED.load(Ordering::Acquire).as_ref() }) else { return false };
    header.used_slots().iter().any(|slot| {
        let state = slot.state.load(Ordering::Acquire);
        matches!(state, shared::SLOT_LIVE | shared::SLOT_DYING)
            && slot.pid.load(Ordering::Relaxed) as i32 == pid
    })
}

/// As [`pass_to`] while `work` runs; signals that ask to stop go to `pid`, too. Signals from the
/// processes of `recorded` to their parent are not passed on.
pub fn passing_to<T>(pid: i32, recorded: Option<&Header>, work: impl FnOnce() -> T) -> T {
    struct Passing;
    impl Drop for Passing {
        fn drop(&mut self) {
            // The number may soon belong to another process.
            PASS_TO.store(0, Ordering::Relaxed);
            RECORDED.store(ptr::null_mut(), Ordering::Release);
        }
    }
    RECORDED.store(
        recorded.map_or(ptr::null_mut(), |header| ptr::from_ref(header).cast_mut()),
        Ordering::Release,
    );
    let _passing = Passing;
    pass_to(pid);
    ASK_TO_STOP.into_iter().for_each(handle);
    work()
}

/// The signals that ask a process to end.
const ASK_TO_END: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Other signals that a sender means for the program. Without this, the program's own signals to
/// its whole process group would end the supervisor.
const PASSED_ON: [i32; 13] = [
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSYS,
    libc::SIGURG,
];
/// The signals that ask a process to stop. A program may handle them; the supervisor stops when the
/// program does.
const ASK_TO_STOP: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// From now on, signals that ask to end, and those of [`PASSED_ON`], are passed to `pid` if they
/// are sent to this process alone. Signals from the terminal reach the whole group anyway and are
/// not passed on. Signals that ask to stop are ignored.
pub fn pass_to(pid: i32) {
    PASS_TO.store(pid, Ordering::Relaxed);
    let real_time =
        (libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|&number| number != interruption());
    for number in ASK_TO_END.into_iter().chain(PASSED_ON).chain(real_time) {
        // What the shell's `nohup` or `&` ignores stays ignored, but for SIGINT and SIGTERM.
        if matches!(number, libc::SIGINT | libc::SIGTERM) || !is_ignored(number) {
            handle(number);
        }
    }
    for number in ASK_TO_STOP {
        // SAFETY: ignoring a signal involves no memory.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// Keeps a signal of this number for this process, which only counts it.
pub fn keep_back(number: i32) {
    KEPT_BACK.store(number, Ordering::Relaxed);
    handle(number);
}

/// How often the signal of [`keep_back`] came.
pub fn kept_back_times() -> u32 {
    KEPT_BACK_TIMES.load(Ordering::Relaxed)
}

fn handle(number: i32) {
    // SAFETY: the action is fully initialised, and its handler only makes one system call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = pass_on as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(number, &action, std::ptr::null_mut());
    }
}

fn is_ignored(number: i32) -> bool {
    // SAFETY: asking for an action writes one structure of that type.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(number, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Returns the last signal that asked this process to end (SIGINT, SIGTERM, SIGHUP or SIGQUIT)
/// since the first call of [`pass_to`].
pub fn asked_to_end() -> Option<i32> {
    Some(ASKED_TO_END.load(Ordering::Relaxed)).filter(|&number| number != 0)
}

/// The signal that [`interrupt`] sends. Programs do not use it.
fn interruption() -> i32 {
    libc::SIGRTMAX() - 3
}

/// Makes [`interrupt`] only interrupt a call, without other effects.
pub fn allow_interruption() {
    extern "C" fn nothing(_number: libc::c_int) {}
    // SAFETY: the action is fully initialised, and its handler does nothing. Without SA_RESTART the
    // interrupted call returns.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(interruption(), &action, std::ptr::null_mut());
    }
}

/// Interrupts the call in which a thread of this process waits. The thread may be just before the
/// call, so repeat this until it has an effect.
pub fn interrupt(tid: i32) {
    // SAFETY: plain system calls on ourselves.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, interruption()) };
}

/// Returns the ID of the calling thread.
pub fn own_tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Makes this process survive Ctrl-C and Ctrl-\, which are meant for its foreground child.
pub fn leave_to_children() {
    extern "C" fn nothing(_number: libc::c_int) {}
    for number in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the action is fully initialised, and its handler does nothing. Children
        // would inherit an ignored signal, but not a handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
    }
}

/// Makes a write beyond the file-size limit return an error instead of ending this process.
/// Programs started from here meet the limit as usual.
pub fn survive_file_limit() {
    extern "C" fn nothing(_number: libc::c_int) {}
    // SAFETY: both structures are fully initialised, and the handler does nothing.
    // Children would inherit an ignored signal, but not a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_DFL
        {
            action.sa_sigaction = nothing as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGXFSZ, &action, std::ptr::null_mut());
        }
    }
}

/// Returns the signals that this process ignores and blocks, as bit sets (bit n − 1 for signal n).
/// A program started from here inherits them. SIGPIPE does not count as ignored: Rust's start-up
/// code did that.
pub fn inherited() -> (u64, u64) {
    let mut ignored = 0;
    for number in (1..=64).filter(|&number| number != libc::SIGPIPE && is_ignored(number)) {
        ignored |= 1 << (number - 1);
    }
    let mut blocked = 0u64;
    // SAFETY: asking for the mask writes 8 bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, 0, 0, &mut blocked, 8) };
    (ignored, blocked)
}

/// Ends this process in the way in which a child with this wait status ended.
pub fn end_as(status: i32) -> ! {
    if libc::WIFSIGNALED(status) {
        let number = libc::WTERMSIG(status);
        // SAFETY: plain system calls on ourselves. No core file: the program has left its own.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(number, libc::SIG_DFL);
            let empty = 0u64;
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &empty, 0, 8);
            libc::raise(number);
        }
        std::process::exit(128 + number);
    }
    std::process::exit(libc::WEXITSTATUS(status));
}
