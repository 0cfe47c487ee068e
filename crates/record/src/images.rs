//! Images of the recorded processes, from which a replay can start.
//!
//! The runtime copies its process on request (runtime/calls/image.c). A thread of the recorder
//! requests copies from time to time, and writes them one after the other as kept checkpoints. It
//! makes a new request when no copy is left to write, so a slow disk gets fewer images.

use crate::copies::{self, Copy, Outbox, Sharers};
use crate::keep::Beginning;
use crate::shared_state::Recorder;
use retake_kernel::maps::Mapping;
use retake_kernel::shared::{ImagePart, load_content};
use retake_kernel::{clock, shared};
use retake_patch::Placement;
use retake_recording::{Checkpoints, ContentId, KeptCheckpoint};
use retake_snapshot::image::recorded::{self, ProcessImage};
use retake_snapshot::image::{
    Fate, Group, ImageError, Known, Result, SharedMemory, Summary, summary,
};
use retake_supervisor::worker::{Stop, Worker};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How often the thread checks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// How many milliseconds a copy may take to become our child.
const ADOPTED_LOOKS: u32 = 1000;
/// The beginning of the name that System V shared memory has in the list of mappings.
const SEGMENT_NAME: &str = "/SYSV";

/// When the next images are due.
#[derive(Debug, Clone, Copy)]
pub enum When {
    /// Only where recording begins in a program that runs already.
    Never,
    /// This long after the last ones.
    Every(Duration),
    /// When the events have grown by this many bytes.
    Grown(u64),
}

/// When images are made, and where they are written.
pub(crate) struct Plan {
    pub when: When,
    pub places: Checkpoints,
    /// When recording began, on the monotonic clock.
    pub began_ns: u64,
}

/// The thread that requests images and writes them.
pub(crate) struct Images(Worker);

impl Images {
    pub fn start(recorder: &Arc<Recorder>, plan: Plan, outbox: Outbox) -> Self {
        recorder.header().images_wanted.store(1, Relaxed);
        let recorder = Arc::clone(recorder);
        let asked = Asked { since: Instant::now(), grown: 0, kept_bytes: 0 };
        let session = (clock::unix_ms(), std::process::id());
        let mut writer = Writer { recorder, plan, session, asked };
        Self(Worker::start(|| {}, move |stop| writer.run(stop, &outbox)))
    }

    /// Waits until all pending copies have been written.
    pub fn stop(self) {
        let _ = self.0.end();
    }
}

struct Writer {
    recorder: Arc<Recorder>,
    plan: Plan,
    session: (u64, u32),
    asked: Asked,
}

/// What has been since the last request.
struct Asked {
    since: Instant,
    /// The bytes by which the events have grown.
    grown: u64,
    /// Their size when it was last seen. A rewrite makes it smaller.
    kept_bytes: u64,
}

impl Writer {
    fn run(&mut self, stop: &Stop, outbox: &Outbox) {
        let look = match self.plan.when {
            When::Every(every) => LOOK.min(every),
            When::Grown(_) | When::Never => LOOK,
        };
        loop {
            match outbox.take_within(look) {
                Ok(mut copy) => self.take(&mut copy),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if stop.is_told() => return,
                Err(RecvTimeoutError::Timeout) => {
                    if self.is_due() {
                        (self.asked.since, self.asked.grown) = (Instant::now(), 0);
                        self.recorder.header().images_wanted.fetch_add(1, AcqRel);
                    }
                }
            }
        }
    }

    fn is_due(&mut self) -> bool {
        match self.plan.when {
            When::Never => false,
            When::Every(every) => self.asked.since.elapsed() >= every,
            When::Grown(most) => {
                let bytes = self.recorder.log.kept_bytes();
                self.asked.grown += bytes.saturating_sub(self.asked.kept_bytes);
                self.asked.kept_bytes = bytes;
                self.asked.grown >= most
            }
        }
    }

    /// Writes a copy as an image. A failure is only counted: it must not harm the recording.
    fn take(&self, copy: &mut Copy) {
        let written = self.write(copy);
        copy.end(self.recorder.header());
        match written {
            Ok(count) => {
                self.recorder.counters.images.fetch_add(count, Relaxed);
            }
            Err(error) => count_refused(&self.recorder, &error),
        }
    }

    /// Returns how many images were written.
    fn write(&self, copy: &mut Copy) -> Result<u64> {
        wait_until_adopted(copy.pid, self.recorder.header())?;
        let shared = std::mem::replace(&mut copy.shared, Ok(SharedMemory::default()))?;
        let content = |mapping: &Mapping| content_of(&self.recorder, copy.pid, mapping);
        let known = Known { content: &content, shared: &shared, goes_on: false };
        let taken = recorded::image(copy.pid, self.recorder.header(), &known, copy.program)?;
        let made_ns = copy.made_ns.saturating_sub(self.plan.began_ns);
        match copy.sharers.take() {
            Some(sharers) => self.write_group(taken, sharers, made_ns),
            None => self.write_all(vec![taken], made_ns, None),
        }
    }

    /// The image of the process that began first has the memory that all share.
    fn write_group(&self, taken: ProcessImage, sharers: Sharers, made_ns: u64) -> Result<u64> {
        let mut all: Vec<ProcessImage> = [taken].into_iter().chain(sharers.images).collect();
        all.sort_by_key(|one| one.program);
        let group = Group { number: sharers.number, count: all.len() as u32 };
        all[1..].iter_mut().for_each(|one| one.image.leave_out_shared());
        self.write_all(all, made_ns, Some(group))
    }

    /// Writes images that were made at the same time. If one cannot be written, all are removed
    /// again: none is of use without the others.
    fn write_all(&self, all: Vec<ProcessImage>, made_ns: u64, group: Option<Group>) -> Result<u64> {
        let mut written: Vec<Beginning> = Vec::new();
        for one in all {
            match self.write_one(&one, made_ns, group) {
                Ok(kept) => {
                    let (program, shares_turns) = (one.program, one.here.shares_turns);
                    let streams = one.here.streams;
                    written.push(Beginning { program, made_ns, kept, streams, shares_turns });
                }
                Err(error) => {
                    written.iter().for_each(|one| drop(self.plan.places.remove(&one.kept)));
                    return Err(error);
                }
            }
        }
        let count = written.len() as u64;
        if let Some(keeper) = &self.recorder.keeper {
            keeper.has_images(written);
        }
        Ok(count)
    }

    fn write_one(
        &self,
        taken: &ProcessImage,
        made_ns: u64,
        group: Option<Group>,
    ) -> Result<KeptCheckpoint> {
        let mut writer = self.plan.places.create()?;
        summary::write(&mut writer, &self.summary(taken, made_ns, group))?;
        taken.image.write(&mut writer)?;
        Ok(self.plan.places.finish(writer)?)
    }

    fn summary(&self, taken: &ProcessImage, made_ns: u64, group: Option<Group>) -> Summary {
        let here = &taken.here;
        Summary {
            is_automatic: false,
            made_unix_ms: clock::unix_ms(),
            session: self.session,
            pid: here.pid,
            program: taken.program,
            thread: here.thread,
            events: here.events,
            turn: here.turn,
            address: 0,
            counts: here.counts.clone(),
            arrival: None,
            fate: Fate::Open,
            after_ms: made_ns / 1_000_000,
            console: Some(here.console),
            shares_turns: here.shares_turns,
            group,
        }
    }
}

/// Counts images that could not be made. Without the first image of a process that ran already, its
/// recording is worth nothing.
pub(crate) fn count_refused(recorder: &Recorder, error: &ImageError) {
    recorder.counters.images_refused.fetch_add(1, Relaxed);
    let is_attached = recorder.header().options.load(Relaxed) & shared::OPTION_ATTACHED != 0;
    if is_attached && recorder.lacks_first_images() {
        retake_kernel::tell!("retake: the image from which replay would begin failed: {error}");
    }
}

/// Waits until a copy is known to be one.
fn wait_until_adopted(pid: i32, header: &shared::Header) -> Result<()> {
    for _ in 0..ADOPTED_LOOKS {
        if copies::is_our_copy(pid, header) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ImageError::Refused("the copy is no child of the recorder".to_owned()))
}

/// Returns which of the recording's files a mapping of a copy shows; `None` if that is unknown.
pub(crate) fn content_of(recorder: &Recorder, pid: i32, mapping: &Mapping) -> Option<ContentId> {
    if mapping.name.starts_with(SEGMENT_NAME) {
        return content_of_segment(recorder.header(), mapping.inode);
    }
    let metadata = std::fs::metadata(format!("/proc/{pid}/root{}", mapping.name)).ok();
    let header = recorder.header();
    let metadata = metadata.filter(|file| file.ino() == mapping.inode)?;
    let index = [Placement::After, Placement::Before]
        .into_iter()
        .find_map(|placement| recorder.files.known(header, &metadata, placement))?;
    let file = &header.files[index];
    let (device, inode) = (file.device.load(Relaxed), file.inode.load(Relaxed));
    let is_changed = header.shared_files().is_none_or(|all| {
        all.iter().any(|shared| {
            shared.changes.load(Relaxed) != 0
                && shared.device.load(Relaxed) == device
                && shared.inode.load(Relaxed) == inode
        })
    });
    (!is_changed).then(|| ContentId(load_content(&file.content)))
}

/// Returns the content of a segment with patched text or stubs.
fn content_of_segment(header: &shared::Header, id: u64) -> Option<ContentId> {
    let is_meant = |part: &&ImagePart| part.segment_id.load(Relaxed) as u64 == id;
    let files = &header.files[..header.file_count.load(Relaxed) as usize];
    let parts = files.iter().filter(|file| file.part_count.load(Relaxed) != 0).flat_map(|file| {
        let count = file.part_count.load(Relaxed) as usize;
        file.parts[..count].iter().chain([&file.stubs])
    });
    parts.into_iter().find(is_meant).map(|part| ContentId(load_content(&part.content)))
}
