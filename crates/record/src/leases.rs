//! Leases on large files that recorded processes read. While a lease lasts, the runtime logs what
//! they read by reference to the stored copy. docs/INPUTS.md explains why that is exact. This
//! module decides which files get a lease, and tells the runtime about them.

use retake_kernel::lease::Lease;
use retake_kernel::resource;
use retake_kernel::shared::{Header, LEASE_SETS, LEASE_WAYS, LeasedFile, MAX_LEASES, store_bytes};
use retake_recording::ContentId;
use retake_supervisor::worker::Worker;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file is copied once this fraction of it has been read.
const PART_READ: u64 = 256;
/// Above this size, a larger fraction must have been read.
const LARGE_BYTES: u64 = 4 << 30;
const LARGE_PART_READ: u64 = 8;
/// After a refusal, this many bytes are logged directly before the next attempt.
const REFUSED_BYTES: u64 = 32 << 20;
/// After another process has written to the file, this many times its size is logged directly
/// before the next attempt. Otherwise a file that is written and read in turns would be copied each
/// time.
const WRITTEN_TIMES: u64 = 2;
/// The largest fraction of the supervisor's descriptors that leases may take.
const PART_OF_DESCRIPTORS: u64 = 8;
/// All leases of a recording.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    /// Device and inode of files whose lease is being taken.
    in_work: HashSet<(u64, u64)>,
    /// Contents that are in the recording because of a lease.
    kept: HashSet<ContentId>,
    /// The thread that gives leases up, and its ID.
    holder: Option<(Worker, i32)>,
    /// Whether leases are impossible on this machine, or no longer wanted.
    is_without: bool,
}

/// A file under a lease, and its entry in the header once the runtime knows it.
#[derive(Debug)]
struct Held {
    file: (u64, u64),
    place: Option<usize>,
    lease: Lease,
}

/// The file that the runtime asks about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Device and inode.
    pub file: (u64, u64),
    /// Its size.
    pub bytes: u64,
    /// How much of it has been read.
    pub read_bytes: u64,
}

impl Leases {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ID of the thread that gives leases up. The first call starts the thread with
    /// `start`.
    ///
    /// # Errors
    /// Those of `start`. After an error, this recording takes no leases.
    pub fn holder(&self, start: impl FnOnce() -> io::Result<(Worker, i32)>) -> io::Result<i32> {
        let mut state = self.state();
        if let Some((_, number)) = &state.holder {
            return Ok(*number);
        }
        let started =
            if state.is_without { Err(io::ErrorKind::Unsupported.into()) } else { start() };
        state.is_without = started.is_err();
        let (worker, number) = started?;
        state.holder = Some((worker, number));
        Ok(number)
    }

    /// Adds a lease on a file that is about to be stored.
    pub fn add(&self, wanted: Wanted, lease: Lease) {
        self.state().held.push(Held { file: wanted.file, place: None, lease });
    }

    /// Notes that a content is in the recording from now on.
    pub fn keep(&self, content: ContentId) {
        self.state().kept.insert(content);
    }

    /// Stops the thread that gives leases up, after the last recorded process has ended.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_without = true;
        let holder = state.holder.take();
        drop(state);
        if let Some((worker, _)) = holder {
            let _ = worker.end();
        }
    }

    /// Whether a content is in the recording because of a lease.
    pub fn has_kept(&self, content: ContentId) -> bool {
        self.state().kept.contains(&content)
    }

    /// Gives up all leases. Called before the supervisor stops, for example.
    pub fn give_up(&self, header: &Header) {
        let mut state = self.state();
        state.held.iter().for_each(|held| held.take_back(header, 0));
        state.held.clear();
    }

    /// Returns whether the file is to be stored now.
    pub fn begin(&self, header: &Header, wanted: Wanted) -> bool {
        let mut state = self.state();
        if state.is_held(wanted.file) || state.in_work.contains(&wanted.file) {
            return false;
        }
        let entry = &header.leased[state.place_for(header, wanted.file)];
        let is_known = is_of(entry, wanted.file);
        let read = if is_known { entry.passed.load(Relaxed) } else { wanted.read_bytes };
        let worth = if is_known { entry.ask_at.load(Relaxed) } else { worth_at(wanted.bytes) };
        if state.is_without || read.max(wanted.read_bytes) < worth {
            let ask_at = if state.is_without { u64::MAX } else { worth };
            enter(entry, wanted, read, ask_at);
            return false;
        }
        if !has_room(state.held.len()) {
            state.end_oldest(header);
        }
        state.in_work.insert(wanted.file)
    }

    /// Tells the runtime about the lease, unless another process has asked to write meanwhile.
    pub fn end(&self, header: &Header, wanted: Wanted, content: Option<ContentId>) {
        let mut state = self.state();
        state.in_work.remove(&wanted.file);
        let place = state.place_for(header, wanted.file);
        let entry = &header.leased[place];
        let lasts = |held: &Held| held.file == wanted.file && held.lease.is_undisturbed();
        let at = state.held.iter().position(lasts);
        let (Some(content), Some(at)) = (content, at) else {
            state.held.retain(|held| held.file != wanted.file);
            let read = entry.passed.load(Relaxed).max(wanted.read_bytes);
            enter(entry, wanted, read, read.saturating_mul(2).saturating_add(REFUSED_BYTES));
            return;
        };
        enter(entry, wanted, 0, 0);
        store_bytes(&entry.content, &content.0);
        let epoch = header.lease_epoch.fetch_add(1, SeqCst) + 1;
        entry.since.store(epoch, Release);
        state.held[at].place = Some(place);
    }

    /// Gives up the leases on all files that another process wants to write.
    pub fn give_way(&self, header: &Header) {
        let mut state = self.state();
        let (held, wanted): (Vec<_>, Vec<_>) =
            state.held.drain(..).partition(|held| held.lease.is_undisturbed());
        state.held = held;
        for held in wanted {
            let bytes = held.lease.file().metadata().map_or(0, |metadata| metadata.len());
            held.take_back(header, bytes.saturating_mul(WRITTEN_TIMES));
        }
    }
}

impl State {
    fn is_held(&self, file: (u64, u64)) -> bool {
        self.held.iter().any(|held| held.file == file)
    }

    /// Returns the file's entry in the header, or one that it may take: an empty entry, an entry
    /// without a lease, or the entry with the oldest lease, which then ends.
    fn place_for(&mut self, header: &Header, file: (u64, u64)) -> usize {
        let first = file.1 as usize % LEASE_SETS * LEASE_WAYS;
        let places = first..first + LEASE_WAYS;
        let find = |wanted: &dyn Fn(&LeasedFile) -> bool| {
            places.clone().find(|&place| wanted(&header.leased[place]))
        };
        let there = find(&|entry| is_of(entry, file))
            .or_else(|| find(&|entry| entry.inode.load(Relaxed) == 0))
            .or_else(|| find(&|entry| entry.since.load(Relaxed) == 0));
        if let Some(place) = there {
            return place;
        }
        let oldest = self
            .held
            .iter()
            .position(|held| held.place.is_some_and(|place| places.contains(&place)));
        let Some(oldest) = oldest else { return first };
        let held = self.held.remove(oldest);
        held.take_back(header, 0);
        held.place.unwrap_or(first)
    }

    fn end_oldest(&mut self, header: &Header) {
        if let Some(oldest) = self.held.iter().position(|held| held.place.is_some()) {
            self.held.remove(oldest).take_back(header, 0);
        }
    }
}

impl Held {
    /// Makes the runtime log this file directly until it has read up to `ask_at`.
    fn take_back(&self, header: &Header, ask_at: u64) {
        let Some(place) = self.place else { return };
        let entry = &header.leased[place];
        entry.since.store(0, SeqCst);
        entry.passed.store(0, Relaxed);
        entry.ask_at.store(ask_at, Relaxed);
    }
}

fn is_of(entry: &LeasedFile, file: (u64, u64)) -> bool {
    (entry.device.load(Relaxed), entry.inode.load(Relaxed)) == file
}

/// Enters a file without a lease: how much of it was read, and when the runtime is to ask again.
fn enter(entry: &LeasedFile, wanted: Wanted, read_bytes: u64, ask_at: u64) {
    entry.since.store(0, SeqCst);
    entry.device.store(wanted.file.0, Relaxed);
    entry.inode.store(wanted.file.1, Relaxed);
    entry.size.store(wanted.bytes, Relaxed);
    entry.passed.store(read_bytes, Relaxed);
    entry.ask_at.store(ask_at, Release);
}

/// How much of a file of this size must have been read before it is copied.
fn worth_at(bytes: u64) -> u64 {
    if bytes <= LARGE_BYTES { bytes / PART_READ } else { bytes / LARGE_PART_READ }
}

/// Whether there is room for another lease.
fn has_room(held: usize) -> bool {
    let most = resource::descriptor_limit() / PART_OF_DESCRIPTORS;
    held < MAX_LEASES && (held as u64) < most
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_kernel::shared::{HeaderSegment, MODE_RECORD};

    const BYTES: u64 = 100 << 20;

    fn wanted(read_bytes: u64) -> Wanted {
        Wanted { file: (1, 7), bytes: BYTES, read_bytes }
    }

    fn entry(header: &Header) -> &LeasedFile {
        header.leased.iter().find(|entry| is_of(entry, (1, 7))).unwrap()
    }

    #[test]
    fn a_file_is_stored_once_enough_of_it_has_been_read() {
        let segment = HeaderSegment::create(MODE_RECORD, 0).unwrap();
        let (header, leases) = (segment.get(), Leases::default());
        let worth = BYTES / PART_READ;
        assert!(!leases.begin(header, wanted(worth - 1)), "too little has been read");
        assert_eq!(entry(header).ask_at.load(Relaxed), worth);
        assert!(leases.begin(header, wanted(worth)));
        assert!(!leases.begin(header, wanted(BYTES)), "it is being stored");
        // It could not be stored.
        leases.end(header, wanted(worth), None);
        let later = 2 * worth + REFUSED_BYTES;
        assert!(!leases.begin(header, wanted(later - 1)), "not so soon again");
        assert!(leases.begin(header, wanted(later)));
    }

    #[test]
    fn nothing_is_stored_for_a_recording_that_ends() {
        let segment = HeaderSegment::create(MODE_RECORD, 0).unwrap();
        let (header, leases) = (segment.get(), Leases::default());
        leases.stop();
        assert!(!leases.begin(header, wanted(BYTES)));
        assert_eq!(entry(header).ask_at.load(Relaxed), u64::MAX, "the runtime asks no more");
    }
}
