//! The protocol's own numbers for signals.

use gdbstub::common::Signal;

/// The protocol's number for a signal of the kernel.
pub(super) fn signal(number: i32) -> Signal {
    const NAMED: [(i32, Signal); 30] = [
        (libc::SIGHUP, Signal::SIGHUP),
        (libc::SIGINT, Signal::SIGINT),
        (libc::SIGQUIT, Signal::SIGQUIT),
        (libc::SIGILL, Signal::SIGILL),
        (libc::SIGTRAP, Signal::SIGTRAP),
        (libc::SIGABRT, Signal::SIGABRT),
        (libc::SIGBUS, Signal::SIGBUS),
        (libc::SIGFPE, Signal::SIGFPE),
        (libc::SIGKILL, Signal::SIGKILL),
        (libc::SIGUSR1, Signal::SIGUSR1),
        (libc::SIGSEGV, Signal::SIGSEGV),
        (libc::SIGUSR2, Signal::SIGUSR2),
        (libc::SIGPIPE, Signal::SIGPIPE),
        (libc::SIGALRM, Signal::SIGALRM),
        (libc::SIGTERM, Signal::SIGTERM),
        (libc::SIGCHLD, Signal::SIGCHLD),
        (libc::SIGCONT, Signal::SIGCONT),
        (libc::SIGSTOP, Signal::SIGSTOP),
        (libc::SIGTSTP, Signal::SIGTSTP),
        (libc::SIGTTIN, Signal::SIGTTIN),
        (libc::SIGTTOU, Signal::SIGTTOU),
        (libc::SIGURG, Signal::SIGURG),
        (libc::SIGXCPU, Signal::SIGXCPU),
        (libc::SIGXFSZ, Signal::SIGXFSZ),
        (libc::SIGVTALRM, Signal::SIGVTALRM),
        (libc::SIGPROF, Signal::SIGPROF),
        (libc::SIGWINCH, Signal::SIGWINCH),
        (libc::SIGIO, Signal::SIGIO),
        (libc::SIGPWR, Signal::SIGPWR),
        (libc::SIGSYS, Signal::SIGSYS),
    ];
    /// Real-time signals: 33 to 63 are consecutive; 32 and 64 were added later.
    const REAL_TIME_33: u8 = 45;
    const REAL_TIME_32: u8 = 77;
    const REAL_TIME_64: u8 = 78;
    match number {
        32 => Signal(REAL_TIME_32),
        33..=63 => Signal(REAL_TIME_33 + (number - 33) as u8),
        64 => Signal(REAL_TIME_64),
        _ => NAMED
            .iter()
            .find(|(known, _)| *known == number)
            .map_or(Signal::UNKNOWN, |(_, signal)| *signal),
    }
}
