//! Decides which finished processes a recording can do without, and which of them to drop. Pure.
//!
//! A process's streams hold all that it does at replay. Its parent does not notice whether it is
//! there, unless they share memory, but its children begin as copies of it. So a process can be
//! dropped once it and all its descendants have ended, if it shared no writable memory and wrote to
//! no file that others map. A child that ran in its parent's memory until it executed a program
//! (vfork) must be replayed up to that exec, so the beginning of its stream stays as long as its
//! parent does.

use crate::stream_scan::Findings;
use retake_kernel::shared::{TIE_FILE, TIE_MEMORY, TIE_PARENT};
use retake_model::Dropped;
use retake_model::event::ThreadAccount;
use retake_recording::Place;
use std::collections::{BTreeMap, BTreeSet};

/// The stream of the first process.
pub(super) const ROOT: u32 = 0;

/// A stream of the recording.
#[derive(Debug, Default, Clone)]
pub(super) struct Kept {
    /// The stream of the thread that created this one.
    pub parent: Option<u32>,
    /// Its process's ID.
    pub pid: i32,
    /// Whether this is a further thread of its parent's process.
    pub is_thread: bool,
    /// Set once the stream has ended.
    pub end: Option<End>,
    /// Whether only the beginning of the stream is left.
    pub is_cut: bool,
}

/// A stream that has ended.
#[derive(Debug, Default, Clone)]
pub(super) struct End {
    pub account: ThreadAccount,
    /// The `TIE_...` flags.
    pub ties: u32,
    pub findings: Findings,
    /// The length of the stream.
    pub size: Place,
    /// The bytes that it takes in the file.
    pub stored_bytes: u64,
}

/// What to drop.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Streams to drop entirely.
    pub gone: BTreeSet<u32>,
    /// Streams to cut: the part up to this place stays.
    pub cut: BTreeMap<u32, Place>,
    /// Streams of which the part before this place is left out.
    pub from: BTreeMap<u32, Place>,
    /// Where replay of a process begins, if not at its start, by the stream of its first thread.
    pub begin: BTreeMap<u32, Begin>,
    /// When the images of processes that share memory were made, if these begin at images.
    pub shared_ns: Option<u64>,
    /// Roughly the bytes of the file that this frees.
    pub saved_bytes: u64,
}

/// An image at which replay of a process begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    /// When it was made, in nanoseconds since recording began.
    pub made_ns: u64,
    /// The number of events in the stream of the first thread before its program.
    pub program: u64,
}

/// How much to drop.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    /// At least this many bytes, beginning with what ended first.
    Bytes(u64),
    /// Everything that had ended by this time, in nanoseconds since recording began.
    EndedBy(u64),
}

/// A process, identified by the stream of its first thread.
#[derive(Debug, Default)]
struct Process {
    streams: Vec<u32>,
    /// The process that created it. If that one has no stream here yet, the creating stream.
    parent: Option<u32>,
    /// Whether the process must stay: it lives, others need it, or one of its children must stay.
    stays: bool,
    /// When the process and all its descendants had ended, in nanoseconds since recording began.
    ended_ns: u64,
}

/// Chooses what to drop.
pub(super) fn plan(streams: &BTreeMap<u32, Kept>, dropped: &Dropped, need: Need) -> Plan {
    let processes = processes(streams, dropped);
    let mut order: Vec<(u64, std::cmp::Reverse<u32>)> = processes
        .iter()
        .filter(|(_, process)| !process.stays)
        .map(|(&id, process)| (process.ended_ns, std::cmp::Reverse(id)))
        .collect();
    // Children come before their parents: a parent's time includes that of its descendants.
    order.sort_unstable();
    let mut plan = Plan::default();
    let mut chosen = BTreeSet::new();
    for (ended_ns, std::cmp::Reverse(id)) in order {
        let is_enough = match need {
            Need::Bytes(bytes) => plan.saved_bytes >= bytes,
            Need::EndedBy(time) => ended_ns > time,
        };
        if is_enough {
            break;
        }
        chosen.insert(id);
        plan.saved_bytes += gain(streams, &processes[&id]);
    }
    for &id in &chosen {
        let process = &processes[&id];
        // Parents come first, since their numbers are smaller.
        let parent_stays = process.parent.is_some_and(|parent| {
            !plan.gone.contains(&parent) && !dropped.streams.contains(u64::from(parent))
        });
        for &stream in &process.streams {
            let end = streams[&stream].end.as_ref().expect("only what has ended is chosen");
            if parent_stays && lived_in_parent(end) {
                cut(&mut plan, stream, &streams[&stream], end);
            } else {
                plan.gone.insert(stream);
            }
        }
    }
    plan
}

fn lived_in_parent(end: &End) -> bool {
    end.ties & TIE_PARENT != 0
}

fn cut(plan: &mut Plan, stream: u32, kept: &Kept, end: &End) {
    if let (false, Some(place)) = (kept.is_cut, end.findings.exec) {
        plan.cut.insert(stream, place);
    }
}

/// Returns the bytes of the file that dropping a process frees, at least while its parent stays.
fn gain(streams: &BTreeMap<u32, Kept>, process: &Process) -> u64 {
    let of_stream = |stream: &u32| {
        let kept = &streams[stream];
        let Some(end) = &kept.end else { return 0 };
        match end.findings.exec {
            _ if !lived_in_parent(end) => end.stored_bytes,
            Some(place) if !kept.is_cut => {
                end.stored_bytes
                    - (end.stored_bytes as u128 * u128::from(place.bytes)
                        / u128::from(end.size.bytes.max(1))) as u64
            }
            _ => 0,
        }
    };
    process.streams.iter().map(of_stream).sum()
}

fn processes(streams: &BTreeMap<u32, Kept>, dropped: &Dropped) -> BTreeMap<u32, Process> {
    let mut of_stream: BTreeMap<u32, u32> = BTreeMap::new();
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    for (&stream, kept) in streams {
        let known_parent = kept.parent.and_then(|parent| of_stream.get(&parent)).copied();
        let id = known_parent.filter(|_| kept.is_thread).unwrap_or(stream);
        of_stream.insert(stream, id);
        let process = processes.entry(id).or_insert_with(|| Process {
            parent: known_parent.or(kept.parent),
            ..Process::default()
        });
        process.streams.push(stream);
        process.stays |= id == ROOT
            || kept.is_thread && known_parent.is_none()
            || !can_go(kept, streams, dropped);
        process.ended_ns =
            process.ended_ns.max(kept.end.as_ref().map_or(0, |end| end.account.ended_ns));
    }
    let ids: Vec<u32> = processes.keys().copied().rev().collect();
    for id in ids {
        let Process { parent, stays, ended_ns, .. } = processes[&id];
        if let Some(parent) = parent.and_then(|parent| processes.get_mut(&parent)) {
            parent.stays |= stays;
            parent.ended_ns = parent.ended_ns.max(ended_ns);
        }
    }
    processes
}

fn can_go(kept: &Kept, streams: &BTreeMap<u32, Kept>, dropped: &Dropped) -> bool {
    let Some(end) = &kept.end else { return false };
    let is_known =
        |child: &u32| streams.contains_key(child) || dropped.streams.contains(u64::from(*child));
    // A child without a stream so far will still need this process.
    end.ties & (TIE_MEMORY | TIE_FILE) == 0
        && !end.findings.is_opaque
        && end.findings.children.iter().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording in which process `parents[n]` created the process of stream n. All but the first
    /// have ended: stream n at time n, with 100 bytes.
    struct Scene {
        streams: BTreeMap<u32, Kept>,
        dropped: Dropped,
    }

    impl Scene {
        fn new(parents: &[u32]) -> Self {
            let root = (0, Kept::default());
            let children = (1..).zip(parents).map(|(stream, &parent)| {
                let account =
                    ThreadAccount { ended_ns: u64::from(stream), ..ThreadAccount::default() };
                let end = End {
                    account,
                    size: Place { bytes: 1000, events: 10 },
                    stored_bytes: 100,
                    ..End::default()
                };
                (stream, Kept { parent: Some(parent), end: Some(end), ..Kept::default() })
            });
            Self {
                streams: [root].into_iter().chain(children).collect(),
                dropped: Dropped::default(),
            }
        }

        fn with(mut self, stream: u32, change: impl FnOnce(&mut End)) -> Self {
            change(self.streams.get_mut(&stream).unwrap().end.as_mut().unwrap());
            self
        }

        fn lives(mut self, stream: u32) -> Self {
            self.streams.get_mut(&stream).unwrap().end = None;
            self
        }

        fn gone(&self, need: Need) -> Vec<u32> {
            plan(&self.streams, &self.dropped, need).gone.into_iter().collect()
        }
    }

    const ALL: Need = Need::Bytes(u64::MAX);
    const NONE: &[u32] = &[];

    #[test]
    fn what_ended_first_goes_first() {
        let scene = Scene::new(&[0, 0, 0]);
        assert_eq!(scene.gone(Need::Bytes(1)), [1]);
        assert_eq!(scene.gone(Need::Bytes(150)), [1, 2]);
        assert_eq!(scene.gone(Need::EndedBy(2)), [1, 2]);
        assert_eq!(scene.gone(ALL), [1, 2, 3]);
    }

    #[test]
    fn whoever_is_needed_stays() {
        let shared = |ties| move |end: &mut End| end.ties = ties;
        assert_eq!(Scene::new(&[0, 0]).with(1, shared(TIE_MEMORY)).gone(ALL), [2]);
        assert_eq!(Scene::new(&[0, 0]).with(1, shared(TIE_FILE)).gone(ALL), [2]);
        assert_eq!(Scene::new(&[0, 0]).with(1, |end| end.findings.is_opaque = true).gone(ALL), [2]);
        assert_eq!(Scene::new(&[0, 1]).lives(2).gone(ALL), NONE, "its copy lives");
        assert_eq!(
            Scene::new(&[0, 1, 2]).with(3, shared(TIE_MEMORY)).gone(ALL),
            NONE,
            "so does that of its copy"
        );
        assert_eq!(
            Scene::new(&[0, 0]).with(1, |end| end.findings.children.extend([9])).gone(ALL),
            [2],
            "a child has not come yet"
        );
    }

    #[test]
    fn a_parent_goes_after_its_children() {
        let scene = Scene::new(&[0, 1]).with(2, |end| end.account.ended_ns = 50);
        assert_eq!(scene.gone(Need::EndedBy(49)), NONE);
        assert_eq!(scene.gone(Need::Bytes(1)), [2]);
        assert_eq!(scene.gone(ALL), [1, 2]);
    }

    #[test]
    fn threads_go_together() {
        let mut scene = Scene::new(&[0, 1]);
        scene.streams.get_mut(&2).unwrap().is_thread = true;
        assert_eq!(scene.gone(Need::Bytes(1)), [1, 2]);
        scene.streams.get_mut(&1).unwrap().is_thread = true;
        scene.streams.remove(&0);
        assert_eq!(scene.gone(ALL), NONE, "nothing has come of their process yet");
        let mut scene = Scene::new(&[0, 1]).lives(2);
        scene.streams.get_mut(&2).unwrap().is_thread = true;
        assert_eq!(scene.gone(ALL), NONE);
    }

    #[test]
    fn what_ran_in_its_parent_stays_up_to_its_exec() {
        let place = Place { bytes: 400, events: 4 };
        let guest = |end: &mut End| {
            end.ties = TIE_PARENT;
            end.findings.exec = Some(place);
        };
        let scene = Scene::new(&[0]).with(1, guest);
        let plan_of = |scene: &Scene| plan(&scene.streams, &scene.dropped, ALL);
        assert_eq!(
            plan_of(&scene),
            Plan { cut: [(1, place)].into(), saved_bytes: 60, ..Plan::default() }
        );
        let mut scene = Scene::new(&[0, 1]).with(2, guest);
        scene.streams.get_mut(&2).unwrap().is_cut = true;
        assert_eq!(scene.gone(ALL), [1, 2], "with its parent it goes");
        let mut scene = Scene::new(&[0, 5]).with(1, guest).with(2, guest);
        scene.streams.remove(&0);
        assert_eq!(
            plan_of(&scene).cut,
            [(1, place), (2, place)].into(),
            "nothing has come of its parent yet"
        );
        let scene = Scene::new(&[0]).with(1, |end| end.ties = TIE_PARENT);
        assert_eq!(plan_of(&scene), Plan::default(), "without an exec all of it was in its parent");
    }
}
