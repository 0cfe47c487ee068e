//! What this process got from whoever started it and changes for itself. Programs that it starts
//! for its user get it as it was.

use std::sync::atomic::{AtomicU32, Ordering};

/// Standard descriptors that were closed when this process began, as bits. The language's start-up
/// code opens them.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Runs before the start-up code.
extern "C" fn note_closed() {
    for descriptor in 0..=2 {
        // SAFETY: plain system call without memory.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

// SAFETY: the C library calls what lies in this section before `main`; the function needs nothing
// that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Whether a descriptor was closed when this process began.
pub fn was_closed(descriptor: i32) -> bool {
    (0..=2).contains(&descriptor) && CLOSED.load(Ordering::Relaxed) >> descriptor & 1 != 0
}

/// So many descriptors are enough for a recorder.
const DESCRIPTORS: u64 = 1024;

/// A limit that leaves a recorder too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// Of what, and in which unit.
    pub what: &'static str,
    /// The option by which the shell's `ulimit` sets it.
    pub option: &'static str,
    /// So much may be used.
    pub allowed: u64,
    /// With less, recording cannot even begin.
    pub needed: u64,
}

impl Shortage {
    fn of(what: &'static str, option: &'static str) -> Self {
        Self { what, option, allowed: 0, needed: 0 }
    }
}

/// Each thread's own arena, which the C library would give it, takes 64 MB of addresses.
fn save_address_space() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only sets a number.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Limits as they were inherited.
#[derive(Clone, Copy)]
pub struct Limits {
    inherited: [(libc::__rlimit_resource_t, libc::rlimit); 2],
    /// Some of them are wider now.
    were_widened: bool,
}

impl Limits {
    /// Takes as many descriptors and as much address space as this process may have. What it may
    /// not have is left as it is.
    pub fn widen() -> Self {
        let resources =
            [(libc::RLIMIT_NOFILE, DESCRIPTORS), (libc::RLIMIT_AS, libc::RLIM_INFINITY)];
        let mut were_widened = false;
        let inherited = resources.map(|(resource, wanted)| {
            let mut limit =
                libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the kernel writes one structure of that type, and reads others.
            unsafe {
                libc::getrlimit(resource, &mut limit);
                if limit.rlim_cur < wanted {
                    were_widened = true;
                    let hard = limit.rlim_max.max(wanted);
                    let privileged = libc::rlimit { rlim_cur: wanted, rlim_max: hard };
                    let most = libc::rlimit {
                        rlim_cur: wanted.min(limit.rlim_max),
                        rlim_max: limit.rlim_max,
                    };
                    if libc::setrlimit(resource, &privileged) != 0 {
                        libc::setrlimit(resource, &most);
                    }
                }
            }
            if resource == libc::RLIMIT_AS && limit.rlim_max != libc::RLIM_INFINITY {
                save_address_space();
            }
            (resource, limit)
        });
        Self { inherited, were_widened }
    }

    /// What this process may have too little of to record anything.
    pub fn shortage() -> Option<Shortage> {
        let all = [
            (libc::RLIMIT_NOFILE, 1, Shortage { needed: 32, ..Shortage::of("descriptors", "-n") }),
            (
                libc::RLIMIT_AS,
                1024,
                Shortage { needed: 98_304, ..Shortage::of("KB of memory", "-v") },
            ),
        ];
        all.into_iter().find_map(|(resource, unit, shortage)| {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the kernel writes one structure of that type.
            unsafe { libc::getrlimit(resource, &mut limit) };
            let allowed = limit.rlim_cur / unit;
            (allowed < shortage.needed).then_some(Shortage { allowed, ..shortage })
        })
    }

    /// Sets them for the calling process. Safe after a fork.
    pub(crate) fn restore(&self) {
        for (resource, limit) in &self.inherited {
            // SAFETY: the kernel reads one structure of that type.
            unsafe { libc::setrlimit(*resource, limit) };
        }
    }
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_list()
            .entries(self.inherited.iter().map(|(_, limit)| limit.rlim_cur))
            .finish()
    }
}

/// Whether a new process would get something else than this one got.
pub(crate) fn has_changed(limits: &Limits) -> bool {
    limits.were_widened || CLOSED.load(Ordering::Relaxed) != 0
}

/// In a new process: gives it what this one got.
pub(crate) fn hand_on(limits: &Limits) {
    limits.restore();
    for descriptor in (0..=2).filter(|descriptor| was_closed(*descriptor)) {
        // SAFETY: what the start-up code opened is used by nobody in this process.
        unsafe { libc::close(descriptor) };
    }
}

/// Whether this process is recorded itself: a recorder keeps syscall user dispatch, by which it
/// catches calls, to itself.
pub fn is_recorded() -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    const PR_SYS_DISPATCH_OFF: libc::c_ulong = 0;
    // SAFETY: switching off what is off changes nothing.
    unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) != 0 }
}
