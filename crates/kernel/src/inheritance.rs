//! What this process inherited and changes for itself. Programs that it starts for its user get it
//! as it was.

use crate::resource;
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

/// Each thread's own arena, which the C library would give it, takes 64 MB of addresses.
fn save_address_space() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only sets a number.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Limits as they were inherited.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// By resource, the soft and the hard one.
    inherited: [(u32, (u64, u64)); 2],
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
            let (soft, hard) = own_limit(resource);
            if soft < wanted {
                were_widened = true;
                // The hard one only with a privilege.
                if !set(resource, (wanted, hard.max(wanted))) {
                    set(resource, (wanted.min(hard), hard));
                }
            }
            if resource == libc::RLIMIT_AS && hard != libc::RLIM_INFINITY {
                save_address_space();
            }
            (resource, (soft, hard))
        });
        Self { inherited, were_widened }
    }

    /// What this process may have too little of to record anything.
    pub fn shortage() -> Option<Shortage> {
        [
            (libc::RLIMIT_NOFILE, 1, "descriptors", "-n", 32),
            (libc::RLIMIT_AS, 1024, "KB of memory", "-v", 98_304),
        ]
        .into_iter()
        .map(|(resource, unit, what, option, needed)| {
            let allowed = own_limit(resource).0 / unit;
            Shortage { what, option, allowed, needed }
        })
        .find(|shortage| shortage.allowed < shortage.needed)
    }

    /// The limits of addresses, the soft and the hard one; `None`: there are none.
    pub fn of_addresses(&self) -> Option<(u64, u64)> {
        let (_, limits) = self.inherited.iter().find(|(known, _)| *known == libc::RLIMIT_AS)?;
        (limits.0 != libc::RLIM_INFINITY || limits.1 != libc::RLIM_INFINITY).then_some(*limits)
    }

    /// The same with more addresses: the soft limit by `more` bytes, below a hard limit that is
    /// higher by `at_most`, as far as that may be.
    #[must_use]
    pub fn with_more_addresses(&self, more: u64, at_most: u64) -> Self {
        let mut limits = *self;
        for (resource, (soft, hard)) in &mut limits.inherited {
            if *resource == libc::RLIMIT_AS && *soft != libc::RLIM_INFINITY {
                if !is_short_of_addresses() {
                    *hard = hard.saturating_add(at_most);
                }
                *soft = soft.saturating_add(more).min(*hard);
            }
        }
        limits
    }

    /// Sets them for the calling process. Safe after a fork.
    fn restore(&self) {
        for (resource, limit) in self.inherited {
            set(resource, limit);
        }
    }
}

/// Whether this process, and all that it starts, cannot have as many addresses as there are.
pub fn is_short_of_addresses() -> bool {
    own_limit(libc::RLIMIT_AS).1 != libc::RLIM_INFINITY
}

fn own_limit(resource: u32) -> (u64, u64) {
    resource::limit(0, resource).unwrap_or((libc::RLIM_INFINITY, libc::RLIM_INFINITY))
}

/// Whether the calling process may have this soft and this hard limit: then it has.
fn set(resource: u32, (soft, hard): (u64, u64)) -> bool {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the kernel reads one structure of that type.
    unsafe { libc::setrlimit(resource, &limit) == 0 }
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
