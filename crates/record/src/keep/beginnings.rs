//! Images at which replay can begin, if what came before is left out of the recording.

use super::plan::{Begin, Kept, Need, Plan, ROOT};
use retake_kernel::shared::{TIE_MEMORY, TIE_PARENT};
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
    /// Whether the process took turns with all that share memory. Images of all of them were then
    /// made at the same time.
    pub shares_turns: bool,
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
    /// Adds images that were made at the same time.
    pub fn add(&mut self, images: Vec<Beginning>) {
        self.0.extend(images);
        self.0.sort_by_key(|image| image.made_ns);
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

    /// Each process's last image by a time. Processes that share memory begin all at one time.
    fn last_before(&self, time: u64) -> BTreeMap<u32, &Beginning> {
        let early = self.0.iter().filter(|image| image.made_ns <= time);
        let shared_ns = early.clone().rfind(|image| image.shares_turns);
        let shared_ns = shared_ns.map(|image| image.made_ns);
        early
            .filter(|image| !image.shares_turns || Some(image.made_ns) == shared_ns)
            .map(|image| (image.process(), image))
            .collect()
    }

    /// Takes out the oldest images until all take at most `bytes`. Each process keeps its last one.
    pub fn take_beyond(&mut self, bytes: u64) -> Vec<KeptCheckpoint> {
        let mut needless = Vec::new();
        while self.bytes() > bytes {
            let replaces = |image: &Beginning, younger: &Beginning| match image.shares_turns {
                true => younger.shares_turns && younger.made_ns > image.made_ns,
                false => younger.process() == image.process(),
            };
            let has_younger = |(at, image): &(usize, &Beginning)| {
                self.0[at + 1..].iter().any(|younger| replaces(image, younger))
            };
            let Some((at, oldest)) = self.0.iter().enumerate().find(has_younger) else { break };
            let (shares_turns, made_ns) = (oldest.shares_turns, oldest.made_ns);
            needless.push(self.0.remove(at).kept);
            if shares_turns {
                needless.extend(self.take(|one| one.shares_turns && one.made_ns == made_ns));
            }
        }
        needless
    }

    /// Takes out the images that replay needs no longer: those of processes that are gone, and
    /// those from before the beginnings of a plan.
    pub fn take_needless(&mut self, plan: &Plan) -> Vec<KeptCheckpoint> {
        self.take(|image| {
            let process = image.process();
            plan.gone.contains(&process)
                || plan.cut.contains_key(&process)
                || plan.begin.get(&process).is_some_and(|it| image.made_ns < it.made_ns)
                || image.shares_turns && plan.shared_ns.is_some_and(|time| image.made_ns < time)
        })
    }

    fn take(&mut self, is_needless: impl Fn(&Beginning) -> bool) -> Vec<KeptCheckpoint> {
        let taken = self.0.extract_if(.., |image| is_needless(image));
        taken.map(|image| image.kept).collect()
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
        self.shared_ns =
            images.values().find(|image| image.shares_turns).map(|image| image.made_ns);
        self.forget_guests(streams);
        self.forget_sharers(streams);
    }

    /// Processes that shared memory and had ended when the images of all that do were made are not
    /// needed, unless a process is replayed that began as a copy of one.
    fn forget_sharers(&mut self, streams: &BTreeMap<u32, Kept>) {
        let Some(shared_ns) = self.shared_ns else { return };
        let mut processes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut makers = BTreeSet::new();
        for &stream in streams.keys() {
            let Some(process) = process_of(streams, stream) else { continue };
            processes.entry(process).or_default().push(stream);
        }
        // Children have larger numbers.
        for (process, threads) in processes.into_iter().rev() {
            let parent = streams[&process].parent.and_then(|parent| process_of(streams, parent));
            let has_ended = |stream: &u32| {
                let end = streams[stream].end.as_ref();
                end.is_some_and(|end| end.account.ended_ns + MARGIN_NS < shared_ns)
            };
            let ties = |stream: &u32| streams[stream].end.as_ref().map_or(0, |end| end.ties);
            let may_go = process != ROOT
                && !makers.contains(&process)
                && threads.iter().all(has_ended)
                && threads.iter().any(|stream| ties(stream) & TIE_MEMORY != 0)
                && self.begins_after(&streams[&process], parent);
            if may_go {
                let fresh = threads.into_iter().filter(|stream| self.gone.insert(*stream));
                let ends = fresh.filter_map(|stream| streams[&stream].end.as_ref());
                self.saved_bytes += ends.map(|end| end.stored_bytes).sum::<u64>();
            } else if !self.gone.contains(&process) && !self.begin.contains_key(&process) {
                makers.extend(parent);
            }
        }
    }

    /// Whether a process that began in its parent's memory is not needed for replay of the parent.
    fn begins_after(&self, kept: &Kept, parent: Option<u32>) -> bool {
        let Some(end) = kept.end.as_ref().filter(|end| end.ties & TIE_PARENT != 0) else {
            return true;
        };
        let is_later = |begin: &Begin| end.account.ended_ns + MARGIN_NS < begin.made_ns;
        parent.is_some_and(|parent| {
            self.gone.contains(&parent) || self.begin.get(&parent).is_some_and(is_later)
        })
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
            shares_turns: false,
        }
    }

    fn place(bytes: u64) -> Place {
        Place { bytes, events: bytes / 10 }
    }

    fn planned(need: Need) -> (Plan, Vec<u64>) {
        let streams = streams();
        let mut images = Beginnings::default();
        (1..=3).for_each(|number| images.add(vec![image(number)]));
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
            images.iter().for_each(|&number| beginnings.add(vec![image(number)]));
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
        images.add(vec![Beginning { program: (5, 2), ..image(9) }]);
        (1..=3).for_each(|number| images.add(vec![image(number)]));
        let numbers = |kept: Vec<KeptCheckpoint>| -> Vec<u64> {
            kept.iter().map(|kept| kept.number).collect()
        };
        assert_eq!(numbers(images.take_beyond(28)), [0; 0]);
        assert_eq!(numbers(images.take_beyond(21)), [1]);
        assert_eq!(numbers(images.take_beyond(0)), [2]);
        let plan = Plan { gone: [5].into(), ..Plan::default() };
        assert_eq!(numbers(images.take_needless(&plan)), [9]);
    }

    /// Images of processes that share memory, made at the same time.
    fn together(seconds: u64, processes: &[u32]) -> Vec<Beginning> {
        let of = |&process: &u32| Beginning {
            program: (process, 2),
            made_ns: seconds * SECOND,
            kept: KeptCheckpoint { number: 100 * seconds + u64::from(process), ..image(0).kept },
            streams: vec![(process, place(seconds * 1000))],
            shares_turns: true,
        };
        processes.iter().map(of).collect()
    }

    /// Processes that share memory: the first one made process 2, which ended after 5 seconds, and
    /// that made process 3, which made process 4, which ended after 25 seconds.
    fn sharers() -> BTreeMap<u32, Kept> {
        let ended = |seconds: u64| {
            let account = ThreadAccount { ended_ns: seconds * SECOND, ..ThreadAccount::default() };
            Some(End { account, ties: TIE_MEMORY, stored_bytes: 100, ..End::default() })
        };
        let one = |stream: u32, parent: Option<u32>, end: Option<End>| {
            (stream, Kept { parent, pid: stream as i32 + 50, end, ..Kept::default() })
        };
        [
            one(0, None, None),
            one(1, Some(0), None),
            one(2, Some(1), ended(5)),
            one(3, Some(2), None),
            one(4, Some(3), ended(25)),
        ]
        .into()
    }

    fn planned_for_sharers(images: &[Vec<Beginning>], seconds: u64) -> (Plan, Vec<u64>) {
        let (streams, need) = (sharers(), Need::EndedBy(seconds * SECOND));
        let mut beginnings = Beginnings::default();
        images.iter().for_each(|images| beginnings.add(images.clone()));
        let mut plan = plan(&streams, &Dropped::default(), need);
        beginnings.leave_out(&mut plan, &streams, need, &|_| 0);
        let needless = beginnings.take_needless(&plan).iter().map(|kept| kept.number).collect();
        (plan, needless)
    }

    #[test]
    fn processes_that_share_memory_begin_at_one_time() {
        // Process 3 shares memory only from second 30 on.
        let all = [together(20, &[1]), together(30, &[1, 3]), together(40, &[1, 3])];
        let (plan, needless) = planned_for_sharers(&all, 35);
        assert_eq!(plan.from, [(1, place(30_000)), (3, place(30_000))].into());
        assert_eq!((plan.gone, needless), ([2].into(), vec![2001]), "4 ended too late");
        let (plan, needless) = planned_for_sharers(&all, 29);
        assert_eq!(plan.from, [(1, place(20_000))].into());
        assert!(plan.gone.is_empty(), "process 3 begins as a copy of 2");
        assert!(needless.is_empty());
        let (plan, needless) = planned_for_sharers(&all, 50);
        assert_eq!(plan.gone, [2, 4].into());
        assert_eq!(needless, [2001, 3001, 3003]);
        // A process whose last image is from before that of the others had ended by then.
        let (plan, needless) = planned_for_sharers(&[together(20, &[3]), together(30, &[1])], 50);
        assert_eq!((plan.from, needless), ([(1, place(30_000))].into(), vec![2003]));
    }

    #[test]
    fn images_that_belong_together_go_together() {
        let mut images = Beginnings::default();
        [together(20, &[1, 3]), together(30, &[1])].into_iter().for_each(|one| images.add(one));
        let numbers: Vec<u64> = images.take_beyond(20).iter().map(|kept| kept.number).collect();
        assert_eq!(numbers, [2001, 2003]);
        assert!(images.take_beyond(0).is_empty(), "the last ones stay");
    }
}
