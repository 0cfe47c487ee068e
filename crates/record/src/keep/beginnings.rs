//! Images at which replay can begin, if what came before is left out of the recording.

use super::plan::{Begin, Kept, Need, Plan};
use retake_recording::{KeptCheckpoint, Place};
use std::collections::{BTreeMap, BTreeSet};

/// A thread that ended this long before an image was made is not in it. The time of an image is
/// when the recorder heard of it.
const MARGIN_NS: u64 = 10_000_000_000;

/// An image of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// The stream of the process's first thread, and the number of events in it before the program.
    pub program: (u32, u64),
    /// When it was made, in nanoseconds since recording began.
    pub made_ns: u64,
    pub kept: KeptCheckpoint,
    /// Each thread's stream, and where the thread was in it.
    pub streams: Vec<(u32, Place)>,
}

impl Beginning {
    /// The stream of the process's first thread.
    fn process(&self) -> u32 {
        self.program.0
    }
}

/// The images that are kept, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Beginnings(Vec<Beginning>);

impl Beginnings {
    pub fn add(&mut self, image: Beginning) {
        self.0.push(image);
    }

    /// The bytes that the images take.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|image| image.kept.bytes).sum()
    }

    /// Lets replay of each process begin at the last image that leaves what is needed: adds what
    /// came before it to the plan. `stored_before` says how many bytes of the file these parts
    /// take.
    pub fn leave_out(
        &self,
        plan: &mut Plan,
        streams: &BTreeMap<u32, Kept>,
        need: Need,
        stored_before: &dyn Fn(&BTreeMap<u32, Place>) -> u64,
    ) {
        let before = plan.clone();
        let mut leave_out_before = |time: u64| {
            plan.clone_from(&before);
            plan.begin_at(&self.last_before(time), streams);
            plan.saved_bytes += stored_before(&plan.from);
            plan.saved_bytes
        };
        match need {
            Need::EndedBy(time) => {
                leave_out_before(time);
            }
            Need::Bytes(bytes) if before.saved_bytes < bytes => {
                let _ = self.0.iter().any(|image| leave_out_before(image.made_ns) >= bytes);
            }
            Need::Bytes(_) => {}
        }
    }

    /// Each process's last image by a time.
    fn last_before(&self, time: u64) -> BTreeMap<u32, &Beginning> {
        let early = self.0.iter().filter(|image| image.made_ns <= time);
        early.map(|image| (image.process(), image)).collect()
    }

    /// Takes out the oldest images until all take at most `bytes`. Each process keeps its last one.
    pub fn take_beyond(&mut self, bytes: u64) -> Vec<KeptCheckpoint> {
        let mut needless = Vec::new();
        while self.bytes() > bytes {
            let has_younger = |(at, image): (usize, &Beginning)| {
                self.0[at + 1..]
                    .iter()
                    .any(|other| other.process() == image.process())
                    .then_some(at)
            };
            let Some(at) = self.0.iter().enumerate().find_map(has_younger) else { break };
            needless.push(self.0.remove(at).kept);
        }
        needless
    }

    /// Takes out the images that replay needs no longer: those of processes that are gone, and
    /// those from before the beginnings of a plan.
    pub fn take_needless(&mut self, plan: &Plan) -> Vec<KeptCheckpoint> {
        let is_needed = |image: &Beginning| {
            let process = image.process();
            !(plan.gone.contains(&process) || plan.cut.contains_key(&process))
                && plan.begin.get(&process).is_none_or(|it| image.made_ns >= it.made_ns)
        };
        let (needed, needless) = std::mem::take(&mut self.0).into_iter().partition(is_needed);
        self.0 = needed;
        needless.into_iter().map(|image: Beginning| image.kept).collect()
    }
}

impl Plan {
    /// Lets processes begin at their images. Threads that had ended by then go, too.
    fn begin_at(&mut self, images: &BTreeMap<u32, &Beginning>, streams: &BTreeMap<u32, Kept>) {
        let pids: BTreeSet<i32> =
            images.keys().filter_map(|process| Some(streams.get(process)?.pid)).collect();
        for (&stream, kept) in streams.iter().filter(|(_, kept)| pids.contains(&kept.pid)) {
            let process = process_of(streams, stream);
            let Some(image) = process.and_then(|process| images.get(&process)) else { continue };
            let place = image.streams.iter().find(|(known, _)| *known == stream);
            match (place, &kept.end) {
                _ if self.gone.contains(&stream) => {}
                (Some(&(_, place)), _) => {
                    self.from.insert(stream, place);
                }
                (None, Some(end))
                    if kept.is_thread && end.account.ended_ns + MARGIN_NS < image.made_ns =>
                {
                    self.gone.insert(stream);
                    self.saved_bytes += end.stored_bytes;
                }
                _ => {}
            }
        }
        let begin = |image: &Beginning| Begin { made_ns: image.made_ns, program: image.program.1 };
        self.begin = images.iter().map(|(&process, image)| (process, begin(image))).collect();
        self.forget_guests(streams);
    }

    /// Of processes that began in their parent's memory, the part before their exec is kept for
    /// replay of the parent. It goes, too, if the parent begins at an image made after they ended.
    fn forget_guests(&mut self, streams: &BTreeMap<u32, Kept>) {
        for (&stream, kept) in streams {
            let is_cut = kept.is_cut || self.cut.contains_key(&stream);
            let Some(end) = kept.end.as_ref().filter(|_| is_cut) else { continue };
            let parent = kept.parent.and_then(|parent| process_of(streams, parent));
            let begin = parent.and_then(|parent| self.begin.get(&parent));
            if begin.is_some_and(|begin| end.account.ended_ns + MARGIN_NS < begin.made_ns) {
                self.cut.remove(&stream);
                self.gone.insert(stream);
                self.saved_bytes += end.stored_bytes;
            }
        }
    }
}

/// The stream of the first thread of a stream's process.
fn process_of(streams: &BTreeMap<u32, Kept>, stream: u32) -> Option<u32> {
    let pid = streams.get(&stream)?.pid;
    // Streams are numbered in the order in which their threads were made.
    let before = streams.range(..=stream).rev();
    before
        .filter(|(_, one)| !one.is_thread)
        .find(|(_, one)| one.pid == pid)
        .map(|(&first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep::plan::{End, plan};
    use retake_model::Dropped;
    use retake_model::event::ThreadAccount;

    const SECOND: u64 = 1_000_000_000;

    /// A process with a thread that lives and one that ended after a second.
    fn streams() -> BTreeMap<u32, Kept> {
        let thread = Kept { parent: Some(0), is_thread: true, ..Kept::default() };
        let account = ThreadAccount { ended_ns: SECOND, ..ThreadAccount::default() };
        let end = Some(End { account, stored_bytes: 100, ..End::default() });
        let ended = Kept { end, ..thread.clone() };
        [(0, Kept::default()), (1, thread), (2, ended)].into()
    }

    fn image(number: u64) -> Beginning {
        Beginning {
            program: (0, 2),
            made_ns: number * 20 * SECOND,
            kept: KeptCheckpoint { number, path: Default::default(), bytes: 7 },
            streams: vec![(0, place(number * 1000)), (1, place(number * 10))],
        }
    }

    fn place(bytes: u64) -> Place {
        Place { bytes, events: bytes / 10 }
    }

    fn planned(need: Need) -> (Plan, Vec<u64>) {
        let streams = streams();
        let mut images = Beginnings::default();
        (1..=3).for_each(|number| images.add(image(number)));
        assert_eq!(images.bytes(), 21);
        let mut plan = plan(&streams, &Dropped::default(), need);
        images.leave_out(&mut plan, &streams, need, &|from| {
            from.values().map(|place| place.bytes).sum()
        });
        let needless = images.take_needless(&plan).iter().map(|kept| kept.number).collect();
        (plan, needless)
    }

    #[test]
    fn the_last_image_that_is_old_enough_is_the_beginning() {
        let (plan, needless) = planned(Need::EndedBy(59 * SECOND));
        assert_eq!(plan.from, [(0, place(2000)), (1, place(20))].into());
        assert_eq!(plan.gone, [2].into(), "it had ended");
        assert_eq!(plan.saved_bytes, 2120);
        assert_eq!(needless, [1]);
        let (plan, needless) = planned(Need::EndedBy(19 * SECOND));
        assert_eq!((plan, needless), (Plan::default(), vec![]), "all images are too young");
    }

    #[test]
    fn who_began_in_its_parent_goes_when_that_begins_later() {
        let mut streams = streams();
        let guest = Kept { parent: Some(1), pid: 9, is_cut: true, ..streams[&2].clone() };
        streams.insert(3, Kept { is_thread: false, ..guest });
        let gone = |images: &[u64]| {
            let mut beginnings = Beginnings::default();
            images.iter().for_each(|&number| beginnings.add(image(number)));
            let need = Need::EndedBy(100 * SECOND);
            let mut plan = Plan { cut: [(3, place(40))].into(), ..Plan::default() };
            beginnings.leave_out(&mut plan, &streams, need, &|_| 0);
            (plan.gone.contains(&3), plan.cut.len())
        };
        assert_eq!(gone(&[]), (false, 1));
        assert_eq!(gone(&[1]), (true, 0));
    }

    #[test]
    fn no_more_is_left_out_than_needed() {
        assert_eq!(planned(Need::Bytes(1)).0.from, [(0, place(1000)), (1, place(10))].into());
        assert_eq!(planned(Need::Bytes(2120)).0.from, [(0, place(2000)), (1, place(20))].into());
        let (plan, needless) = planned(Need::Bytes(u64::MAX));
        assert_eq!(plan.from, [(0, place(3000)), (1, place(30))].into());
        assert_eq!(needless, [1, 2], "the last one stays");
        assert_eq!(planned(Need::Bytes(0)).0, Plan::default());
    }

    #[test]
    fn each_process_keeps_its_last_image() {
        let mut images = Beginnings::default();
        images.add(Beginning { program: (5, 2), ..image(9) });
        (1..=3).for_each(|number| images.add(image(number)));
        let numbers = |kept: Vec<KeptCheckpoint>| -> Vec<u64> {
            kept.iter().map(|kept| kept.number).collect()
        };
        assert_eq!(numbers(images.take_beyond(28)), [0; 0]);
        assert_eq!(numbers(images.take_beyond(21)), [1]);
        assert_eq!(numbers(images.take_beyond(0)), [2]);
        let plan = Plan { gone: [5].into(), ..Plan::default() };
        assert_eq!(numbers(images.take_needless(&plan)), [9]);
    }
}
