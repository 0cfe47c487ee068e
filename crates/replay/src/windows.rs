//! Hands streams to the runtime one window at a time. Each window is written to the process's own
//! memory, and begins and ends at event boundaries. So even very many threads need no resources of
//! the kernel.

mod feed;

use crate::host::Host;
use crate::{Onlooker, Stage, Standing};
use feed::{Feed, Stock};
use retake_kernel::{futex, shared};
use retake_model::Dropped;
use retake_recording::{ContentId, Recording, StreamId, sparse};
use retake_supervisor::Session;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long no thread may move before a number on the console counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);
/// The same where numbers are known to be missing: a process printed them before its image.
const PATIENCE_BEFORE_IMAGES: Duration = Duration::from_millis(20);

/// With this many streams open, the streams of ended threads are closed. That happens again when
/// twice as many are open as are left then.
const FEEDS_BEFORE_SWEEP: usize = 64;
/// The size up to which a staging buffer is kept for reuse.
const STAGING_BYTES: usize = 4 << 20;

/// The streams being read.
struct Feeds {
    by_stream: HashMap<u32, Arc<Mutex<Feed>>>,
    sweep_at: usize,
}

pub(crate) struct Windows {
    recording: Recording,
    pub session: Session,
    host: Host,
    files: PathBuf,
    scratch: PathBuf,
    feeds: Mutex<Feeds>,
    stock: Stock,
    /// Staging buffers that no thread uses now.
    staging: Mutex<Vec<Vec<u8>>>,
    /// Held while a copy of a shared file is made.
    shared_files: Mutex<()>,
    /// The onlooker, if there is one.
    onlooker: Option<Arc<dyn Onlooker>>,
    /// The console number from which on none is missing because a process begins at an image.
    console_whole_from: AtomicU64,
    /// The console number that all threads wait for, and since when.
    stuck_since: Mutex<Option<(u64, Instant)>>,
    total_bytes: u64,
    done_bytes: AtomicU64,
    /// The parts left out of the recording.
    dropped: Dropped,
    /// The streams of processes whose beginnings are left out.
    late: HashSet<StreamId>,
}

impl Windows {
    pub fn new(
        recording: Recording,
        session: Session,
        host: Host,
        (files, scratch): (PathBuf, PathBuf),
        onlooker: Option<Arc<dyn Onlooker>>,
        dropped: Dropped,
    ) -> Self {
        let late = recording.late_streams();
        if !dropped.is_nothing() || !late.is_empty() {
            session.header().options.fetch_or(shared::OPTION_DROPPED, Relaxed);
        }
        if recording.is_cut_off() {
            session.header().options.fetch_or(shared::OPTION_CUT_OFF, Relaxed);
        }
        let total_bytes =
            recording.streams().map(|stream| stream.bytes).fold(0, u64::saturating_add);
        let feeds = Mutex::new(Feeds { by_stream: HashMap::new(), sweep_at: FEEDS_BEFORE_SWEEP });
        let this = Self {
            recording,
            session,
            host,
            files,
            scratch,
            feeds,
            stock: Stock::default(),
            staging: Mutex::default(),
            shared_files: Mutex::default(),
            onlooker,
            console_whole_from: AtomicU64::new(0),
            stuck_since: Mutex::default(),
            total_bytes,
            done_bytes: AtomicU64::new(0),
            dropped,
            late,
        };
        this.begin_console(0, 0);
        this
    }

    /// The file that every process of the replay executes.
    pub fn host(&self) -> Host {
        self.host
    }

    /// The process that a slot names, if it belongs to the replay; otherwise 0, which no process
    /// has. A replayed process can have written any number there.
    pub fn process_of(&self, slot: &shared::Slot) -> i32 {
        let pid = slot.pid.load(Relaxed) as i32;
        if self.host.is_executed_by(pid) { pid } else { 0 }
    }

    /// The folder of the stored files.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// The path of a stored file. Its content's hash is in the first four words.
    pub fn stored_path(&self, words: &[u64; 6]) -> PathBuf {
        self.files.join(digits(&words[..4]))
    }

    /// The folder for copies of shared files.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The path of the copy of a shared file.
    pub fn scratch_path(&self, device: u64, inode: u64) -> PathBuf {
        self.scratch.join(digits(&[device, inode]))
    }

    /// Whether its parent does not make a process, because its beginning is not in the recording.
    pub fn lacks(&self, stream: u64) -> bool {
        let is_late =
            u32::try_from(stream).is_ok_and(|stream| self.late.contains(&StreamId(stream)));
        is_late || self.dropped.streams.contains(stream)
    }

    /// Lets processes print from the console number `first` on. Up to `whole_from`, some numbers
    /// are missing.
    pub fn begin_console(&self, first: u64, whole_from: u64) {
        let first = self.console_behind(first);
        self.console_whole_from.store(whole_from, Relaxed);
        self.session.header().console_printed.store(first, Release);
    }

    /// Returns the first console number from `number` on that does not belong to a dropped process.
    /// Stores the next dropped number in the header.
    pub fn console_behind(&self, number: u64) -> u64 {
        let console = &self.dropped.console;
        let behind = console.from(number).filter(|gap| gap.0 <= number).map_or(number, |gap| gap.1);
        let next = console.from(behind).map_or(u64::MAX, |gap| gap.0);
        self.session.header().console_gap.store(next, Release);
        behind
    }

    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Writes the next window of a thread's stream to the memory that it asks for. Returns the size
    /// of the window, or `None` at the stream's end. A window larger than the room is not written.
    ///
    /// # Errors
    /// The recording cannot be read, an event in it is malformed, or the thread is gone.
    pub fn next(&self, slot: &shared::Slot) -> io::Result<Option<u64>> {
        let (stream, tid) = (slot.stream.load(Relaxed), slot.tid.load(Relaxed) as i32);
        let [offset, address, room] =
            [0, 1, 2].map(|at: usize| slot.request.arguments[at].load(Relaxed));
        if self.was_cut_off(stream) {
            return Ok(None);
        }
        let feed = self.feed(stream)?;
        let window = self.with_staging(|staging| {
            lock(&feed).window(offset, staging, |bytes| {
                let fits = bytes.len() as u64 <= room;
                if fits {
                    // If the process's first thread has ended, its memory is reachable only through
                    // the other threads. A replayed process can have written any number there.
                    if !self.host.is_executed_by(tid) {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    retake_kernel::memory::write(tid, address, bytes)?;
                    self.done_bytes.fetch_add(bytes.len() as u64, Relaxed);
                }
                Ok(fits)
            })
        });
        window.map(|bytes| bytes.map(|bytes| bytes as u64))
    }

    /// Bytes of all streams together.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes of the windows handed out so far.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Relaxed).min(self.total_bytes)
    }

    /// Whether a stream is missing. In an unfinished recording, one stream may tell of another that
    /// began, of which nothing was written yet.
    fn was_cut_off(&self, stream: u32) -> bool {
        self.recording.is_cut_off()
            && self.recording.streams().all(|known| known.info.id != StreamId(stream))
    }

    /// Returns the stream's feed, and makes it on the first request.
    fn feed(&self, stream: u32) -> io::Result<Arc<Mutex<Feed>>> {
        let mut feeds = lock(&self.feeds);
        if let Some(feed) = feeds.by_stream.get(&stream) {
            return Ok(Arc::clone(feed));
        }
        if feeds.by_stream.len() >= feeds.sweep_at {
            let live = self.live_streams();
            feeds.by_stream.retain(|stream, _| live.contains(stream));
            feeds.sweep_at = FEEDS_BEFORE_SWEEP.max(2 * feeds.by_stream.len());
        }
        let reader = self.recording.stream(StreamId(stream)).map_err(io::Error::from)?;
        let feed = Arc::new(Mutex::new(Feed::new(reader, self.stock.clone())));
        feeds.by_stream.insert(stream, Arc::clone(&feed));
        Ok(feed)
    }

    /// Streams of threads that may still read.
    fn live_streams(&self) -> HashSet<u32> {
        let ended = [shared::SLOT_UNUSED, shared::SLOT_READY, shared::SLOT_EXITED];
        let slots = self.session.header().used_slots().iter();
        slots
            .filter(|slot| !ended.contains(&slot.state.load(Acquire)))
            .map(|slot| slot.stream.load(Relaxed))
            .collect()
    }

    fn with_staging<T>(&self, read: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut staging = lock(&self.staging).pop().unwrap_or_default();
        let result = read(&mut staging);
        if staging.capacity() <= STAGING_BYTES {
            lock(&self.staging).push(staging);
        }
        result
    }

    /// Copies a shared file's first content to the place where replayed processes share it. Returns
    /// false if nothing changes the file, so that it needs no copy.
    pub fn prepare_shared(&self, device: u64, inode: u64, content: ContentId) -> io::Result<bool> {
        use std::os::unix::fs::OpenOptionsExt;
        let known = content.0 != [0; 32];
        if known && self.is_unchanged(device, inode) {
            return Ok(false);
        }
        let path = self.scratch_path(device, inode);
        let _guard = lock(&self.shared_files);
        let stored = known.then(|| std::fs::File::open(self.files.join(content.to_string())));
        let stored = stored.transpose()?;
        if path.exists() {
            let bytes = match &stored {
                Some(stored) => sparse::expanded_size(stored)?.unwrap_or(stored.metadata()?.len()),
                None => 0,
            };
            let file = std::fs::OpenOptions::new().write(true).open(&path)?;
            if file.metadata()?.len() < bytes {
                file.set_len(bytes)?;
            }
            return Ok(true);
        }
        std::fs::create_dir_all(&self.scratch)?;
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let Some(stored) = stored else { return Ok(true) };
        // Check the content before expanding it.
        if sparse::expanded_size(&stored)?.is_some() {
            self.recording.copy_content(content, &mut io::sink()).map_err(io::Error::from)?;
            sparse::expand(&stored, &file)?;
        } else {
            self.recording.copy_content(content, &mut file).map_err(io::Error::from)?;
        }
        Ok(true)
    }

    /// Whether the recording is whole, and says that the program did not change this file.
    fn is_unchanged(&self, device: u64, inode: u64) -> bool {
        let outcome = self.recording.metadata().outcome.as_ref();
        outcome
            .and_then(|outcome| outcome.changed_files.as_ref())
            .is_some_and(|changed| !changed.contains(&(device, inode)))
    }

    /// Copies an input of the call that a replayed thread is about to make out of its memory, for
    /// the onlooker.
    pub fn hand_over_input(&self, slot: &shared::Slot, address: u64, bytes: u64) -> io::Result<()> {
        let Some(onlooker) = &self.onlooker else { return Ok(()) };
        // Items have their size in 32 bits.
        let bytes = u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let data = retake_kernel::memory::read_vec(self.process_of(slot), address, bytes as usize)?;
        onlooker.take_input(StreamId(slot.stream.load(Relaxed)), &data)
    }

    /// Lets the onlooker examine a replayed process that stands still.
    pub fn look(&self, slot: &shared::Slot, stage: u64, events: u64) -> io::Result<()> {
        let Some(onlooker) = &self.onlooker else { return Ok(()) };
        let stage = match stage {
            shared::LOOK_MAPPED => Stage::Mapped,
            shared::LOOK_BEFORE_UNMAP => Stage::BeforeUnmap,
            _ => Stage::UsesMappedFile,
        };
        let stream = StreamId(slot.stream.load(Relaxed));
        onlooker.look(&Standing { pid: self.process_of(slot), stream, events, stage })
    }

    /// Lets the next thread print when all threads that could print wait for a number that never
    /// comes. That happens if a process was killed after it had printed, but before the log said
    /// so. If part of the recording is lost, nothing is printed from there on. So the output is a
    /// prefix of the program's output.
    pub fn unblock_console(&self) {
        let header = self.session.header();
        let printed = header.console_printed.load(Acquire);
        let (mut running, mut lowest) = (0, u64::MAX);
        for slot in header.used_slots() {
            let state = slot.state.load(Acquire);
            if state == shared::SLOT_LIVE && slot.console.waiting.load(Acquire) != 0 {
                lowest = lowest.min(slot.console.ticket.load(Acquire));
            } else if state == shared::SLOT_CLAIMED
                || state == shared::SLOT_LIVE
                    && slot.baton.state.load(Acquire) != shared::BATON_WAITING
            {
                running += 1;
            }
        }
        // A thread that waits for another process has the highest number.
        let stuck = running == 0 && lowest > printed && lowest != u64::MAX;
        let mut since = self.stuck_since.lock().unwrap_or_else(PoisonError::into_inner);
        if !stuck || since.is_none_or(|(known, _)| known != printed) {
            *since = stuck.then(|| (printed, Instant::now()));
            return;
        }
        let patience = match printed < self.console_whole_from.load(Relaxed) {
            true => PATIENCE_BEFORE_IMAGES,
            false => PATIENCE,
        };
        if since.is_some_and(|(_, when)| when.elapsed() > patience)
            && header.console_printed.load(Acquire) == printed
        {
            let next = if self.recording.is_cut_off() {
                header.options.fetch_or(shared::OPTION_QUIET, AcqRel);
                u64::MAX
            } else {
                self.console_behind(lowest)
            };
            let _ = header.console_printed.compare_exchange(printed, next, AcqRel, Acquire);
            header.console_futex.fetch_add(1, AcqRel);
            futex::wake(&header.console_futex, i32::MAX);
        }
    }

    /// Answers a request. A thread that handed out a window then reads the stream's next one ahead.
    pub fn answer(&self, slot: &shared::Slot, values: (i64, i64)) {
        let gave_window =
            slot.request.kind.load(Acquire) == shared::REQUEST_WINDOW && values.0 >= 0;
        let stream = slot.stream.load(Relaxed);
        slot.request.values[0].store(values.0, Relaxed);
        slot.request.values[1].store(values.1, Relaxed);
        slot.request.reply.store(1, Release);
        futex::wake(&slot.request.reply, 1);
        if gave_window && let Ok(feed) = self.feed(stream) {
            self.with_staging(|staging| lock(&feed).read_ahead(staging));
        }
    }
}

/// The name of a file that is named by numbers.
fn digits(words: &[u64]) -> String {
    words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
