//! Signal numbers of x86-64 Linux, and the contents of a siginfo.

use std::borrow::Cow;

use crate::ids::Pid;

/// The size of the kernel's siginfo.
pub const SIGINFO_BYTES: usize = 128;

/// The highest signal number.
pub const MAXIMUM: u16 = 64;

/// The names of signals from number 1 on.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The first real-time signal in the kernel's numbering.
const FIRST_REAL_TIME: u16 = 32;

/// Returns a signal's name: `SIGTERM` for 15, `SIGRT_2` for 34; the number if there is no such
/// signal.
pub fn name(number: u16) -> Cow<'static, str> {
    match number {
        1..FIRST_REAL_TIME => Cow::Borrowed(NAMES[usize::from(number - 1)]),
        FIRST_REAL_TIME..=MAXIMUM => match number - FIRST_REAL_TIME {
            0 => Cow::Borrowed("SIGRTMIN"),
            further => Cow::Owned(format!("SIGRT_{further}")),
        },
        _ => Cow::Owned(number.to_string()),
    }
}

/// Returns the number of a signal: 15 for `SIGTERM` or `TERM`, in upper or lower case.
pub fn by_name(text: &str) -> Option<u16> {
    let upper = text.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(real_time) = short.strip_prefix("RT_") {
        let number = real_time.parse::<u16>().ok()?.checked_add(FIRST_REAL_TIME)?;
        return (number <= MAXIMUM).then_some(number);
    }
    (1..=MAXIMUM).find(|number| name(*number)[3..] == *short)
}

/// A siginfo in the kernel's layout: number, error and code of 4 bytes each, then a union from byte
/// 16 on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SiginfoRef<'log>(&'log [u8; SIGINFO_BYTES]);

impl std::fmt::Debug for SiginfoRef<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.describe())
    }
}

impl<'log> SiginfoRef<'log> {
    /// Uses the first [`SIGINFO_BYTES`] bytes.
    pub fn new(bytes: &'log [u8]) -> Option<Self> {
        bytes.first_chunk().map(Self)
    }

    pub fn bytes(&self) -> &'log [u8; SIGINFO_BYTES] {
        self.0
    }

    pub fn signal(&self) -> i32 {
        self.word(0) as i32
    }

    pub fn error(&self) -> i32 {
        self.word(4) as i32
    }

    /// Returns the code, which tells the source: 0 for `kill`, -6 for `tkill`, above 0 for the
    /// kernel.
    pub fn code(&self) -> i32 {
        self.word(8) as i32
    }

    /// Returns the process ID of the sender, or of the child for SIGCHLD.
    pub fn pid(&self) -> Pid {
        Pid(self.word(16) as i32)
    }

    /// Returns the user ID of the sender, or of the child for SIGCHLD.
    pub fn uid(&self) -> u32 {
        self.word(20)
    }

    /// For SIGCHLD: returns the exit status or signal of the child.
    pub fn status(&self) -> i32 {
        self.word(24) as i32
    }

    /// As [`SiginfoRef::status`], by name if a signal ended or stopped the child.
    fn child_status(&self) -> Cow<'static, str> {
        const CLD_EXITED: i32 = 1;
        match u16::try_from(self.status()) {
            Ok(number) if self.code() != CLD_EXITED => name(number),
            _ => Cow::Owned(self.status().to_string()),
        }
    }

    /// For faults: returns the address.
    pub fn address(&self) -> u64 {
        u64::from(self.word(16)) | u64::from(self.word(20)) << 32
    }

    /// For timers and queued signals: returns their value.
    pub fn value(&self) -> u64 {
        u64::from(self.word(24)) | u64::from(self.word(28)) << 32
    }

    /// Whether the processor caused the signal, so that the union holds an address.
    pub fn is_fault(&self) -> bool {
        let synchronous = matches!(self.signal(), 4 | 5 | 7 | 8 | 11);
        synchronous && self.code() > 0 && self.code() != 0x80
    }

    /// Formats the siginfo: `{si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10}`.
    pub fn describe(&self) -> String {
        let number = u16::try_from(self.signal()).unwrap_or(0);
        let head = format!("si_signo={}, si_code={}", name(number), self.code_name());
        let tail = if self.is_fault() {
            format!("si_addr={:#x}", self.address())
        } else if self.signal() == 17 && self.code() > 0 {
            let times =
                format!("si_utime={}, si_stime={}", ticks(self.word(32)), ticks(self.word(40)));
            format!(
                "si_pid={}, si_uid={}, si_status={}, {times}",
                self.pid(),
                self.uid(),
                self.child_status()
            )
        } else if self.code() == -2 {
            format!(
                "si_timerid={}, si_overrun={}, si_value={:#x}",
                self.word(16),
                self.word(20),
                self.value()
            )
        } else {
            format!("si_pid={}, si_uid={}", self.pid(), self.uid())
        };
        format!("{{{head}, {tail}}}")
    }

    /// Returns the name of the code, such as `SI_USER`, `SEGV_MAPERR` or `CLD_EXITED`, or else its
    /// number.
    pub fn code_name(&self) -> Cow<'static, str> {
        let general = match self.code() {
            0 => "SI_USER",
            0x80 => "SI_KERNEL",
            -1 => "SI_QUEUE",
            -2 => "SI_TIMER",
            -3 => "SI_MESGQ",
            -4 => "SI_ASYNCIO",
            -5 => "SI_SIGIO",
            -6 => "SI_TKILL",
            code if code > 0 => self.positive_code(code),
            _ => "",
        };
        if general.is_empty() {
            Cow::Owned(self.code().to_string())
        } else {
            Cow::Borrowed(general)
        }
    }

    fn positive_code(&self, code: i32) -> &'static str {
        let names: &[&'static str] = match self.signal() {
            4 => &[
                "ILL_ILLOPC",
                "ILL_ILLOPN",
                "ILL_ILLADR",
                "ILL_ILLTRP",
                "ILL_PRVOPC",
                "ILL_PRVREG",
                "ILL_COPROC",
                "ILL_BADSTK",
            ],
            5 => &["TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT"],
            7 => &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"],
            8 => &[
                "FPE_INTDIV",
                "FPE_INTOVF",
                "FPE_FLTDIV",
                "FPE_FLTOVF",
                "FPE_FLTUND",
                "FPE_FLTRES",
                "FPE_FLTINV",
                "FPE_FLTSUB",
            ],
            11 => &["SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"],
            17 => &[
                "CLD_EXITED",
                "CLD_KILLED",
                "CLD_DUMPED",
                "CLD_TRAPPED",
                "CLD_STOPPED",
                "CLD_CONTINUED",
            ],
            29 => &["POLL_IN", "POLL_OUT", "POLL_MSG", "POLL_ERR", "POLL_PRI", "POLL_HUP"],
            31 => &["SYS_SECCOMP", "SYS_USER_DISPATCH"],
            _ => &[],
        };
        let index = usize::try_from(code - 1).unwrap_or(usize::MAX);
        names.get(index).copied().unwrap_or("")
    }

    /// Reads a word. `offset` must be a constant below 124.
    fn word(&self, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[offset..offset + 4]);
        u32::from_le_bytes(bytes)
    }
}

/// Formats a count of clock ticks, a hundred per second: `5 /* 0.05 s */`.
fn ticks(count: u32) -> String {
    if count == 0 {
        "0".to_owned()
    } else {
        format!("{count} /* {}.{:02} s */", count / 100, count % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_both_ways() {
        for number in 1..=MAXIMUM {
            assert_eq!(by_name(&name(number)), Some(number), "{number}");
        }
        assert_eq!(name(15), "SIGTERM");
        assert_eq!((name(32).as_ref(), name(34).as_ref()), ("SIGRTMIN", "SIGRT_2"));
        assert_eq!(name(65), "65");
        assert_eq!(name(0), "0");
        assert_eq!(by_name("hup"), Some(1));
        assert_eq!(by_name("SIGRT_33"), None);
        assert_eq!(by_name("NONSENSE"), None);
        assert_eq!(by_name(""), None);
    }

    fn siginfo(words: &[i32]) -> Vec<u8> {
        let mut bytes = vec![0; SIGINFO_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn siginfo_is_described_by_its_kind() {
        let cases = [
            (
                vec![15, 0, 0, 0, 77, 1000],
                "{si_signo=SIGTERM, si_code=SI_USER, si_pid=77, si_uid=1000}",
            ),
            (vec![11, 0, 1, 0, 0x10, 0], "{si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10}"),
            (
                vec![17, 0, 1, 0, 9, 0, 3],
                "{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=9, si_uid=0, \
                 si_status=3, si_utime=0, si_stime=0}",
            ),
            (vec![-1, 0, i32::MIN], "{si_signo=0, si_code=-2147483648, si_pid=0, si_uid=0}"),
        ];
        for (words, text) in cases {
            assert_eq!(SiginfoRef::new(&siginfo(&words)).unwrap().describe(), text);
        }
        assert!(SiginfoRef::new(&[0; 127]).is_none());
    }
}
