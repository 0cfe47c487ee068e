//! Images of the processes that are recorded, from which a replay can begin.
//!
//! The runtime makes copies of its process when it is asked to (runtime/calls/image.c). A thread
//! here asks for them now and then, and writes them down as kept checkpoints, one after the other.
//! It asks again when none is left to be written: where the disk is slow there are fewer.

use crate::shared_state::Recorder;
use retake_kernel::maps::Mapping;
use retake_kernel::shared::{ImagePart, load_content};
use retake_kernel::{clock, process, shared};
use retake_patch::Placement;
use retake_recording::{Checkpoints, ContentId};
use retake_snapshot::image::recorded::{self, Whereabouts};
use retake_snapshot::image::{Fate, ImageError, Result, Summary, summary};
use retake_supervisor::worker::{Stop, Worker};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

/// How long the thread waits before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// For so long a copy that was killed may take to end.
const REAPS: u32 = 1000;
/// In the name of System V shared memory, in the list of mappings.
const SEGMENT_NAME: &str = "/SYSV";

/// A copy that waits to be written down.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Its number.
    pub pid: i32,
    /// The stream with which its program began, and events of it before.
    pub program: (u32, u64),
    /// When it was made, on the monotonic clock.
    pub made_ns: u64,
}

/// Where copies go. A recording without images has none.
#[derive(Debug)]
pub(crate) struct Inbox(Sender<Copy>);

/// The other end.
#[derive(Debug)]
pub(crate) struct Outbox(Receiver<Copy>);

pub(crate) fn boxes() -> (Inbox, Outbox) {
    let (sender, receiver) = channel();
    (Inbox(sender), Outbox(receiver))
}

impl Inbox {
    pub fn put(&self, copy: Copy) {
        if let Err(error) = self.0.send(copy) {
            end(error.0.pid); // nobody writes any more
        }
    }
}

/// The thread that asks for images and writes them.
pub(crate) struct Images(Worker);

impl Images {
    pub fn start(
        recorder: &Arc<Recorder>,
        every: Duration,
        places: Checkpoints,
        outbox: Outbox,
        began_ns: u64,
    ) -> Self {
        recorder.header().images_wanted.store(1, Relaxed);
        let recorder = Arc::clone(recorder);
        let session = (now_unix_ms(), std::process::id());
        let writer = Writer { recorder, every, places, session, began_ns };
        Self(Worker::start(|| {}, move |stop| writer.run(stop, &outbox)))
    }

    /// Waits until what there is has been written.
    pub fn stop(self) {
        let _ = self.0.end();
    }
}

struct Writer {
    recorder: Arc<Recorder>,
    every: Duration,
    places: Checkpoints,
    session: (u64, u32),
    /// When recording began, on the monotonic clock.
    began_ns: u64,
}

impl Writer {
    fn run(&self, stop: &Stop, Outbox(copies): &Outbox) {
        let mut asked = Instant::now();
        loop {
            match copies.recv_timeout(LOOK.min(self.every)) {
                Ok(copy) => self.take(&copy),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if stop.is_told() => return,
                Err(RecvTimeoutError::Timeout) => {
                    if asked.elapsed() >= self.every {
                        asked = Instant::now();
                        self.recorder.header().images_wanted.fetch_add(1, AcqRel);
                    }
                }
            }
        }
    }

    /// A recording is worth more than its images: what fails here is counted.
    fn take(&self, copy: &Copy) {
        let written = self.write(copy);
        end(copy.pid);
        let counters = &self.recorder.counters;
        match written {
            Ok(()) => counters.images.fetch_add(1, Relaxed),
            Err(_) => counters.images_refused.fetch_add(1, Relaxed),
        };
    }

    fn write(&self, copy: &Copy) -> Result<()> {
        if process::parent(copy.pid) != Some(std::process::id() as i32) {
            wait_until_adopted(copy.pid)?;
        }
        let content = |mapping: &Mapping| content_of(&self.recorder, copy.pid, mapping);
        let (image, here) = recorded::image(copy.pid, self.recorder.header(), &content)?;
        let mut writer = self.places.create()?;
        summary::write(&mut writer, &self.summary(copy, here))?;
        image.write(&mut writer)?;
        self.places.finish(writer)?;
        Ok(())
    }

    fn summary(&self, copy: &Copy, here: Whereabouts) -> Summary {
        let after_ns = copy.made_ns.saturating_sub(self.began_ns);
        Summary {
            is_automatic: false,
            made_unix_ms: now_unix_ms(),
            session: self.session,
            pid: here.pid,
            program: copy.program,
            thread: here.thread,
            events: here.events,
            turn: here.turn,
            address: 0,
            counts: here.counts,
            arrival: None,
            fate: Fate::Open,
            after_ms: after_ns / 1_000_000,
            console: Some(here.console),
        }
    }
}

fn now_unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

/// The number comes from the runtime, in memory that the program can write to: only a child of ours
/// is looked at.
fn wait_until_adopted(pid: i32) -> Result<()> {
    let own = Some(std::process::id() as i32);
    for _ in 0..REAPS {
        if process::parent(pid) == own {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ImageError::Refused("the copy is no child of the recorder".to_owned()))
}

/// Ends a copy. One that is no child of ours ends by itself.
fn end(pid: i32) {
    if process::parent(pid) != Some(std::process::id() as i32) {
        return;
    }
    process::kill(pid, libc::SIGKILL);
    for _ in 0..REAPS {
        if process::reap(pid).is_some() || process::is_gone(pid) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What of the recording's files a mapping of a copy shows; `None`: that is not known.
fn content_of(recorder: &Recorder, pid: i32, mapping: &Mapping) -> Option<ContentId> {
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

/// Patched text, or stubs.
fn content_of_segment(header: &shared::Header, id: u64) -> Option<ContentId> {
    let is_meant = |part: &&ImagePart| part.segment_id.load(Relaxed) as u64 == id;
    let files = &header.files[..header.file_count.load(Relaxed) as usize];
    let parts = files.iter().filter(|file| file.part_count.load(Relaxed) != 0).flat_map(|file| {
        let count = file.part_count.load(Relaxed) as usize;
        file.parts[..count].iter().chain([&file.stubs])
    });
    parts.into_iter().find(is_meant).map(|part| ContentId(load_content(&part.content)))
}

/// When a copy was made.
pub(crate) fn copy(pid: i32, program: (u32, u64)) -> Copy {
    Copy { pid, program, made_ns: clock::monotonic_ns() }
}
