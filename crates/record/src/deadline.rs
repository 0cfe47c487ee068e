//! Ending a process tree. A tree that exceeds its time gets SIGTERM first, so that its recording
//! shows how each process ended.

use retake_kernel::process;
use retake_kernel::shared::{self, Header};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A process that has not stopped within this time is in a call that cannot be interrupted.
const LONGEST_TO_STOP: Duration = Duration::from_millis(500);

/// The time at which a tree must have ended.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Cell<Option<Instant>>,
    /// Whether this is the user's timeout, rather than a request to end.
    is_timeout: Cell<bool>,
    passed: Cell<bool>,
}

impl Deadline {
    pub fn new(timeout: Option<Duration>) -> Self {
        let at = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let is_timeout = Cell::new(at.is_some());
        Self { at: Cell::new(at), is_timeout, passed: Cell::new(false) }
    }

    /// Whether processes were ended because the user's timeout expired.
    pub fn has_passed(&self) -> bool {
        self.passed.get() && self.is_timeout.get()
    }

    /// Sets the deadline to now, unless it has already passed.
    pub fn end_now(&self) {
        if !self.is_over() {
            self.at.set(Some(Instant::now()));
            self.is_timeout.set(false);
        }
    }

    /// Returns how many milliseconds to wait until the next look: until the deadline, `most` at
    /// most.
    pub fn wait_ms(&self, most: i32) -> i32 {
        let Some(at) = self.at.get().filter(|_| !self.passed.get()) else { return most };
        let left = at.saturating_duration_since(Instant::now()).as_millis();
        i32::try_from(left).unwrap_or(most).clamp(1, most)
    }

    /// Whether the deadline has passed.
    pub fn is_over(&self) -> bool {
        self.at.get().is_some_and(|at| Instant::now() >= at)
    }

    /// Ends all live processes if the deadline has passed: SIGTERM first, SIGKILL after [`GRACE`].
    pub fn enforce(&self, header: &Header) {
        let Some(at) = self.at.get() else { return };
        let now = Instant::now();
        if now < at {
            return;
        }
        if !self.passed.replace(true) {
            end_all(header, libc::SIGTERM);
        } else if now >= at + GRACE {
            end_all(header, libc::SIGKILL);
        }
    }
}

/// Sends a signal to all live processes while all of them are stopped, so that no process sees
/// another one end before it gets the signal itself. A process stopped in a call has left the call.
/// When it continues, it gets the signal before it repeats the call.
fn end_all(header: &Header, signal: i32) {
    let living = live_processes(header);
    let send = |signal| {
        for &pid in &living {
            process::kill(pid, signal);
        }
    };
    send(libc::SIGSTOP);
    let since = Instant::now();
    let is_still = |pid: &i32| matches!(process::state(*pid), None | Some('T' | 't' | 'Z' | 'X'));
    while since.elapsed() < LONGEST_TO_STOP && !living.iter().all(is_still) {
        std::thread::sleep(Duration::from_millis(1));
    }
    send(signal);
    send(libc::SIGCONT);
}

/// The recorded processes that have not ended.
pub(crate) fn live_processes(header: &Header) -> BTreeSet<i32> {
    let live =
        header.used_slots().iter().filter(|slot| slot.state.load(Acquire) == shared::SLOT_LIVE);
    live.map(|slot| slot.pid.load(Relaxed) as i32).collect()
}

/// The guardian checks at most this often whether a process still lives.
const GUARDIAN_LOOKS: u32 = 500;
/// For this many checks it waits for children that have not named themselves yet. Some of them may
/// have been killed before they could.
const UNBORN_LOOKS: u32 = 50;

/// Kills all live processes and marks the session as stopping. The guardian calls this when the
/// supervisor was killed; the drain calls it when it can no longer write.
pub(crate) fn end_everything(header: &Header) {
    kill_everything(header);
    header.stopping.store(1, Release);
}

/// Kills all live processes, and waits until they are gone.
pub(crate) fn kill_everything(header: &Header) {
    // Stop all first: no process may see that another one was killed before it.
    for pid in live_processes(header) {
        process::kill(pid, libc::SIGSTOP);
    }
    for look in 0..GUARDIAN_LOOKS {
        let (mut alive, mut unborn) = (false, false);
        for slot in header.used_slots() {
            let pid = slot.pid.load(Relaxed) as i32;
            match slot.state.load(Acquire) {
                shared::SLOT_CLAIMED if pid == 0 => unborn = true,
                shared::SLOT_CLAIMED | shared::SLOT_LIVE | shared::SLOT_DYING if pid > 0 => {
                    alive |= process::kill(pid, libc::SIGKILL) && !process::is_gone(pid)
                }
                _ => {}
            }
        }
        if !alive && (!unborn || look >= UNBORN_LOOKS) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
