//! Signals to the supervisor itself: what the terminal sends reaches the program anyway; what
//! somebody sends to us alone is passed on.

use std::sync::atomic::{AtomicI32, Ordering};

static PASS_TO: AtomicI32 = AtomicI32::new(0);
/// The last signal that came and asks to end; 0: none.
static ASKED_TO_END: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(
    number: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a valid siginfo to an SA_SIGINFO handler.
    let code = unsafe { (*info).si_code };
    if !matches!(number, libc::SIGUSR1 | libc::SIGUSR2) {
        ASKED_TO_END.store(number, Ordering::Relaxed);
    }
    let target = PASS_TO.load(Ordering::Relaxed);
    const FROM_KERNEL: i32 = 0x80; // the terminal sends to the whole group
    if target > 0 && code != FROM_KERNEL {
        // SAFETY: kill is safe in a handler.
        unsafe { libc::kill(target, number) };
    }
}

/// From now on SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 sent to this process go to
/// `pid`, and those of the terminal to nobody twice.
pub fn pass_to(pid: i32) {
    PASS_TO.store(pid, Ordering::Relaxed);
    for number in
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2]
    {
        // SAFETY: the action is fully initialised, and its handler only makes one system call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
    }
    for number in [libc::SIGTSTP, libc::SIGTTOU, libc::SIGTTIN] {
        // SAFETY: ignoring a signal involves no memory.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// From now on there is nobody to pass signals to: its number may soon be another process's.
pub fn pass_to_nobody() {
    PASS_TO.store(0, Ordering::Relaxed);
}

/// The signal that asked this process to end (SIGINT, SIGTERM, SIGHUP or SIGQUIT), since
/// [`pass_to`] was called first.
pub fn asked_to_end() -> Option<i32> {
    Some(ASKED_TO_END.load(Ordering::Relaxed)).filter(|&number| number != 0)
}

/// What [`interrupt`] sends; programs have no use for this one.
fn interruption() -> i32 {
    libc::SIGRTMAX() - 3
}

/// Makes [`interrupt`] harmless but for the call that it cuts short.
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

/// Cuts short the call that a thread of this process waits in. It may be just before it: repeat
/// this until it shows.
pub fn interrupt(tid: i32) {
    // SAFETY: plain system calls on ourselves.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, interruption()) };
}

/// The number of the calling thread.
pub fn own_tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// From now on what the terminal sends with Ctrl-C and Ctrl-\ is not for this process, but for the
/// one it runs in the foreground.
pub fn leave_to_children() {
    extern "C" fn nothing(_number: libc::c_int) {}
    for number in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the action is fully initialised, and its handler does nothing. A handler, because
        // ignoring would be inherited.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
    }
}

/// From now on writing beyond the limit on file sizes is an error of the write, not the end of this
/// process. Programs started from here meet the limit as always.
pub fn survive_file_limit() {
    extern "C" fn nothing(_number: libc::c_int) {}
    // SAFETY: both structures are fully initialised, and the handler does nothing. A handler,
    // because ignoring would be inherited.
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

/// Which signals this process ignores, and which it blocks, as bit sets (bit n − 1 for signal n):
/// what a program started from here inherits. SIGPIPE does not count as ignored: the language's
/// start-up code did that.
pub fn inherited() -> (u64, u64) {
    let mut ignored = 0;
    for number in (1..=64).filter(|&n| n != libc::SIGPIPE) {
        // SAFETY: asking for an action writes one structure of that type.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(number, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                ignored |= 1 << (number - 1);
            }
        }
    }
    let mut blocked = 0u64;
    // SAFETY: asking for the mask writes 8 bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, 0, 0, &mut blocked, 8) };
    (ignored, blocked)
}

/// Ends this process as a child with this wait status ended.
pub fn end_as(status: i32) -> ! {
    if libc::WIFSIGNALED(status) {
        let number = libc::WTERMSIG(status);
        // SAFETY: plain system calls on ourselves; no core, the program has left its own.
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
