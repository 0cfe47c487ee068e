//! Notices that a replay cannot go on: every thread waits for something that no thread will do.
//!
//! A recording that was cut off (its recorder was killed, or a part is damaged) ends this way in
//! replay. Its streams stop at different moments, so that a thread that has events left waits for
//! turns of one that has none. In a whole recording it is a divergence.

use crate::windows::{self, Windows};
use retake_kernel::process;
use retake_kernel::shared::{self, Header, Slot};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// How long no thread may move.
const PATIENCE: Duration = Duration::from_millis(600);
/// The same where a part is known to be missing. It is long enough to let threads that wait to
/// print go on first.
const PATIENCE_AT_CUT: Duration = windows::PATIENCE.saturating_add(Duration::from_millis(150));
/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(50);
/// The CPU time that waiting threads use to check now and then: all of them at first, and each of
/// them as a part of the time that it waits. A thread that waits for an operation looks often.
const IDLE_TIME: Duration = Duration::from_millis(5);
const IDLE_PART: u32 = 50;

/// Calls in which a thread may wait for the reader of the program's output.
const WRITES: [i64; 3] = [libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64];

/// The kernel's name for the runtime that replayed processes execute.
const EXECUTED: &[u8] = b"/memfd:retake-replay";

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// The turn with this number.
    Turn(u64),
    /// The end of operation number `count` of another stream's thread.
    Operation { stream: u32, count: u64 },
}

impl Awaited {
    /// Reads the words of a thread's slot. `stream` is the number of a stream plus one, or 0 if the
    /// thread waits for a turn.
    fn of(stream: u64, count: u64, turn: u64) -> Self {
        match stream.checked_sub(1) {
            None => Self::Turn(turn),
            Some(stream) => Self::Operation { stream: stream as u32, count },
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(turn) => write!(f, "turn {turn}"),
            Self::Operation { stream, count } => write!(f, "operation {count} of stream {stream}"),
        }
    }
}

/// A thread that waits for others when no thread moves any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its process's number in the recording.
    pub pid: u32,
    /// Its stream.
    pub stream: u32,
    /// The number of events that it has consumed.
    pub event: u64,
    pub awaits: Awaited,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, stream, event, awaits } = self;
        write!(f, "stream {stream} of process {pid}, at event {event}, waits for {awaits}")
    }
}

/// Where the replay of a recording that was cut off ends: the threads that had events left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CutOff {
    /// The threads that wait for their turns, the next turn first.
    pub waiting: Vec<Waiting>,
}

impl CutOff {
    /// The wait status of the first process. When a recorder is killed, its guardian kills the
    /// recorded processes with this signal.
    pub const STATUS: i32 = libc::SIGKILL;
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the recording was cut off, and its replay ends here")?;
        match &self.waiting[..] {
            [] => Ok(()),
            [first, rest @ ..] => {
                write!(f, ": {first}")?;
                if let Awaited::Turn(_) = first.awaits {
                    write!(
                        f,
                        " of threads that share memory, and the turn before is not in the recording"
                    )?;
                }
                match rest.len() {
                    0 => Ok(()),
                    1 => write!(f, "; another thread waits for a later one"),
                    others => write!(f, "; {others} others wait for later ones"),
                }
            }
        }
    }
}

/// The state of all threads at one moment.
#[derive(Debug, PartialEq, Eq)]
struct Picture {
    done_bytes: u64,
    printed: u64,
    /// For each slot: its state, its stream, the turn that it waits for, and the number of
    /// operations that it had ended when it last waited for another thread's.
    threads: Vec<(u32, u32, u64, u64)>,
}

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub(crate) struct Standstill {
    looked: Option<Instant>,
    since: Option<(Instant, Picture, Duration)>,
}

/// The result of a look.
pub(crate) enum Found {
    /// The slot with the next turn, and how long no thread has moved.
    Stuck(usize, Duration),
    CutOff(CutOff),
}

impl Standstill {
    /// Looks if the period is over. Callers call this again and again.
    pub fn look(&mut self, windows: &Windows) -> Option<Found> {
        if self.looked.is_some_and(|at| at.elapsed() < PERIOD) {
            return None;
        }
        self.looked = Some(Instant::now());
        let header = windows.session.header();
        let is_cut = windows.recording().is_cut_off();
        // A debugger holds threads for as long as it likes, and lets copies take their places.
        let is_debugged = header.options.load(Relaxed) & shared::OPTION_DEBUG != 0;
        if (is_debugged && !is_cut) || !all_wait(header) {
            self.since = None;
            return None;
        }
        let picture = Picture::of(windows);
        let computed = computed(header);
        let Some((since, _, _)) = self.since.as_ref().filter(|(since, before, computed_before)| {
            let idle = since.elapsed() / IDLE_PART * picture.threads.len() as u32;
            *before == picture && computed.saturating_sub(*computed_before) < IDLE_TIME + idle
        }) else {
            self.since = Some((Instant::now(), picture, computed));
            return None;
        };
        let elapsed = since.elapsed();
        if elapsed < if is_cut { PATIENCE_AT_CUT } else { PATIENCE } {
            return None;
        }
        self.since = None;
        let waiting = waiting(header);
        if is_cut {
            let waiting = waiting.into_iter().map(|(_, waiting)| waiting).collect();
            return Some(Found::CutOff(CutOff { waiting }));
        }
        waiting.first().map(|(index, _)| Found::Stuck(*index, elapsed))
    }
}

impl Picture {
    fn of(windows: &Windows) -> Self {
        let header = windows.session.header();
        let threads = header.used_slots().iter().map(|slot| {
            let (state, stream) = (slot.state.load(Acquire), slot.stream.load(Relaxed));
            let operations = slot.baton.operations.load(Relaxed);
            (state, stream, slot.baton.turn.load(Relaxed), operations)
        });
        Self {
            done_bytes: windows.done_bytes(),
            printed: header.console_printed.load(Acquire),
            threads: threads.collect(),
        }
    }
}

/// The threads that wait, the one with the next turn first.
pub(crate) fn waiting(header: &Header) -> Vec<(usize, Waiting)> {
    let mut waiting: Vec<_> = (header.used_slots().iter().enumerate())
        .filter(|(_, slot)| waits_for_turn(slot))
        .map(|(index, slot)| {
            let waiting = Waiting {
                pid: slot.recorded_pid.load(Relaxed),
                stream: slot.stream.load(Relaxed),
                event: slot.divergence.event.load(Relaxed),
                awaits: awaited(slot),
            };
            (index, waiting)
        })
        .collect();
    waiting.sort_by_key(|(_, waiting)| waiting.awaits);
    waiting
}

/// Tells the threads that wait for turns that these never come.
pub(crate) fn end_waits(header: &Header) {
    for slot in header.used_slots().iter().filter(|slot| waits_for_turn(slot)) {
        if let Awaited::Turn(turn) = awaited(slot) {
            slot.baton.never.store(turn, Release);
        }
    }
}

fn awaited(slot: &Slot) -> Awaited {
    let baton = &slot.baton;
    Awaited::of(
        baton.awaited_stream.load(Relaxed),
        baton.awaited.load(Relaxed),
        baton.turn.load(Relaxed),
    )
}

fn waits_for_turn(slot: &Slot) -> bool {
    slot.state.load(Acquire) == shared::SLOT_LIVE
        && slot.baton.state.load(Acquire) == shared::BATON_WAITING
}

/// Whether there are threads, and all of them wait.
fn all_wait(header: &Header) -> bool {
    let mut live = header.used_slots().iter().filter(|slot| {
        matches!(slot.state.load(Acquire), shared::SLOT_CLAIMED | shared::SLOT_LIVE)
    });
    let mut some = false;
    live.all(|slot| {
        some = true;
        // The request is being answered, or a debugger holds the thread.
        let asks = slot.request.kind.load(Acquire) != 0 && slot.request.reply.load(Acquire) == 0;
        !asks && waits(slot) && !waits_for_an_end(header, slot)
    }) && some
}

/// Whether a thread waits for a process whose threads have all ended. The kernel still cleans up
/// after them, which takes long on a busy machine; then this thread goes on.
fn waits_for_an_end(header: &Header, slot: &Slot) -> bool {
    let process = match slot.console.waiting.load(Acquire) {
        0 => 0,
        _ => slot.console.process.load(Acquire),
    };
    let is_of_it = |other: &Slot| {
        matches!(other.state.load(Acquire), shared::SLOT_CLAIMED | shared::SLOT_LIVE)
            && other.pid.load(Relaxed) == process
    };
    process != 0 && !header.used_slots().iter().any(is_of_it)
}

fn waits(slot: &Slot) -> bool {
    let (pid, tid) = (slot.pid.load(Relaxed) as i32, slot.tid.load(Relaxed) as i32);
    let says_so = waits_for_turn(slot) || slot.console.waiting.load(Acquire) != 0;
    // The thread is about to begin. Or its IDs come from its own namespace and are other threads'
    // IDs here.
    if !is_replayed(pid) {
        return says_so;
    }
    match process::state(tid) {
        Some('S') if says_so => true,
        Some('S') => !process::call_of(pid, tid).is_some_and(|call| WRITES.contains(&call)),
        // In a vfork, the kernel waits for the child. Elsewhere, a disk may be slow.
        Some('D') => process::waits_for_child(pid, tid),
        // The thread runs, even if it has just been woken and has not said so yet. Or it is held,
        // or is not the thread that it was.
        _ => false,
    }
}

/// Whether a process belongs to a replay: such processes all execute the runtime.
fn is_replayed(pid: i32) -> bool {
    let executed = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    executed.as_os_str().as_encoded_bytes().starts_with(EXECUTED)
}

/// The CPU time of all processes.
fn computed(header: &Header) -> Duration {
    let live =
        header.used_slots().iter().filter(|slot| slot.state.load(Acquire) == shared::SLOT_LIVE);
    let processes: BTreeSet<i32> = live.map(|slot| slot.pid.load(Relaxed) as i32).collect();
    processes.into_iter().map(process::computed).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_kernel::shared::HeaderSegment;
    use retake_supervisor::{Options, Session, this_processor};
    use std::process::Command;

    #[test]
    fn what_is_awaited_is_a_turn_or_an_operation_of_some_stream() {
        assert_eq!(Awaited::of(0, 7, 9), Awaited::Turn(9));
        assert_eq!(Awaited::of(1, 7, 9), Awaited::Operation { stream: 0, count: 7 });
        assert_eq!(Awaited::of(5, 7, 9).to_string(), "operation 7 of stream 4");
    }

    #[test]
    fn a_process_that_ends_is_waited_for() {
        let (mode, options) = (shared::MODE_REPLAY, Options::default());
        let session = Session::create(mode, options, &this_processor(), None).unwrap();
        let header = session.header();
        header.slots_used.store(2, Relaxed);
        let [parent, child] = [&header.slots[0], &header.slots[1]];
        for (slot, pid) in [(parent, 70), (child, 71)] {
            slot.pid.store(pid, Relaxed);
            slot.state.store(shared::SLOT_LIVE, Relaxed);
            slot.baton.state.store(shared::BATON_WAITING, Relaxed);
        }
        parent.console.process.store(71, Relaxed);
        parent.console.waiting.store(1, Relaxed);
        assert!(all_wait(header), "the child waits for its turn");
        child.state.store(shared::SLOT_EXITED, Relaxed);
        assert!(!all_wait(header), "the kernel still clears up behind the child");
        parent.console.waiting.store(0, Relaxed);
        assert!(all_wait(header), "the parent waits for its turn");
    }

    /// A number from a namespace of its own may be that of any process here.
    #[test]
    fn a_process_that_is_not_replayed_does_not_wait() {
        let segment = HeaderSegment::create(shared::MODE_REPLAY, 0).unwrap();
        let header = segment.get();
        header.slots_used.store(1, Relaxed);
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let number = other.id() as i32;
        let since = Instant::now();
        while process::state(number) != Some('S') && since.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        let slot = &header.slots[0];
        slot.pid.store(number as u32, Relaxed);
        slot.tid.store(number as u32, Relaxed);
        slot.state.store(shared::SLOT_LIVE, Relaxed);
        let waits = all_wait(header);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!waits);
    }
}
