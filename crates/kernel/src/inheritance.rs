//! What this process inherits and changes for itself. The programs that it starts for its user get
//! the inherited values.

use crate::resource;
use std::sync::atomic::{AtomicU32, Ordering};

/// The standard descriptors that were closed when this process began, as bits. Rust's start-up code
/// opens them.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Notes the closed descriptors. Runs before Rust's start-up code.
extern "C" fn note_closed() {
    for descriptor in 0..=2 {
        // SAFETY: plain system call without memory.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

// SAFETY: the C library calls the functions in this section before `main`. This one needs nothing
// that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Whether a standard descriptor was closed when this process began.
pub fn was_closed(descriptor: i32) -> bool {
    (0..=2).contains(&descriptor) && CLOSED.load(Ordering::Relaxed) >> descriptor & 1 != 0
}

/// As many descriptors as a recorder needs.
const DESCRIPTORS: u64 = 1024;

/// A limit that is too low for a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The limited resource and its unit.
    pub what: &'static str,
    /// The option of the shell's `ulimit` that sets it.
    pub option: &'static str,
    /// The present limit.
    pub allowed: u64,
    /// The least limit with which recording can begin.
    pub needed: u64,
}

/// Prevents the C library from giving each thread its own arena, which takes 64 MB of address
/// space.
fn save_address_space() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only sets a number.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Resource limits as this process inherited them.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The soft and the hard limit of each resource.
    inherited: [(u32, (u64, u64)); 2],
    /// Whether this process has raised some of them.
    were_widened: bool,
}

impl Limits {
    /// Raises the limits of descriptors and of address space for this process, as far as it may.
    pub fn widen() -> Self {
        let resources =
            [(libc::RLIMIT_NOFILE, DESCRIPTORS), (libc::RLIMIT_AS, libc::RLIM_INFINITY)];
        let mut were_widened = false;
        let inherited = resources.map(|(resource, wanted)| {
            let (soft, hard) = own_limit(resource);
            if soft < wanted {
                were_widened = true;
                // Raising the hard limit needs a privilege.
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

    /// Returns a limit that is too low for any recording, if there is one.
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

    /// Returns the soft and the hard limit of address space; `None` if it is unlimited.
    pub fn of_addresses(&self) -> Option<(u64, u64)> {
        let (_, limits) = self.inherited.iter().find(|(known, _)| *known == libc::RLIMIT_AS)?;
        (limits.0 != libc::RLIM_INFINITY || limits.1 != libc::RLIM_INFINITY).then_some(*limits)
    }

    /// Returns the limits with more address space: a soft limit higher by `more` bytes and a hard
    /// limit higher by `at_most`, as far as that is allowed.
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

    /// Sets these limits for the calling process. Safe after a fork.
    fn restore(&self) {
        for (resource, limit) in self.inherited {
            set(resource, limit);
        }
    }
}

/// Whether the address space of this process, and of all that it starts, is limited.
pub fn is_short_of_addresses() -> bool {
    own_limit(libc::RLIMIT_AS).1 != libc::RLIM_INFINITY
}

fn own_limit(resource: u32) -> (u64, u64) {
    resource::limit(0, resource).unwrap_or((libc::RLIM_INFINITY, libc::RLIM_INFINITY))
}

/// Sets the soft and the hard limit. Returns whether the kernel allowed it.
fn set(resource: u32, (soft, hard): (u64, u64)) -> bool {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the kernel reads one structure of that type.
    unsafe { libc::setrlimit(resource, &limit) == 0 }
}

/// Whether a new process would inherit something else than this process did.
pub(crate) fn has_changed(limits: &Limits) -> bool {
    limits.were_widened || CLOSED.load(Ordering::Relaxed) != 0
}

/// Called in a new process: restores what this process inherited.
pub(crate) fn hand_on(limits: &Limits) {
    limits.restore();
    for descriptor in (0..=2).filter(|descriptor| was_closed(*descriptor)) {
        // SAFETY: this process does not use what the start-up code opened.
        unsafe { libc::close(descriptor) };
    }
}

/// Whether this process is recorded itself. Its recorder uses syscall user dispatch to catch calls,
/// and makes this request fail.
pub fn is_recorded() -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    const PR_SYS_DISPATCH_OFF: libc::c_ulong = 0;
    // SAFETY: switching off what is off changes nothing.
    unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) != 0 }
}
