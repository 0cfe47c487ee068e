//! Keeping a recording small while it is made: finished streams that replay no longer needs are
//! dropped.
//!
//! A thread rewrites the recording from time to time, while the drain goes on. Under a limit in
//! bytes, the drain waits for a rewrite when the file would exceed the limit and something can be
//! dropped.

mod beginnings;
mod plan;

use crate::stream_scan::{Findings, StreamScan};
use crate::thread_account::{Accounts, supervisor_info};
use crate::watcher::Watcher;
pub(crate) use beginnings::Beginning;
use beginnings::Beginnings;
use plan::{End, Kept, Need, Plan, plan};
use retake_kernel::clock;
use retake_model::event::ThreadAccount;
use retake_model::{ContentId, Dropped, StreamId, TimePoint};
use retake_recording::{
    Checkpoints, ChunkEvents, Keep, KeptCheckpoint, Place, RecordingWriter, Replaced, StreamInfo,
    StreamKind,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much of a recording is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepLast {
    /// At most this many bytes of events.
    Bytes(u64),
    /// What ended within this time, and all that still runs.
    Time(Duration),
    /// As many bytes of events as fit on the file system, together with the rewritten file.
    WhatFits,
}

/// How often the thread checks without being told.
const PERIOD: Duration = Duration::from_millis(250);
/// The longest time that the drain waits for one rewrite.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the thread pauses after a rewrite that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// Under a limit of time, the least saving that is worth a rewrite before the end.
const SMALL_BYTES: u64 = 1 << 20;
/// The size of chunks of the supervisor's stream.
const CHUNK_BYTES: usize = 1 << 20;
const ACCOUNTS_IN_CHUNK: usize = 4096;

/// Knows the streams of the recording and what has been dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    limit: KeepLast,
    /// When recording began.
    base_ns: u64,
    writer: Arc<RecordingWriter>,
    images: Checkpoints,
    watcher: Option<Arc<dyn Watcher>>,
    /// The bytes that the images take.
    image_bytes: AtomicU64,
    state: Mutex<State>,
    /// Signalled when a thread ended, when a rewrite ended, and when the keeper is to stop.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<u32, Kept>,
    dropped: Dropped,
    /// Images at which replay can begin.
    beginnings: Beginnings,
    /// Files that dropped streams had mapped.
    dropped_contents: BTreeSet<ContentId>,
    /// Whether a thread has ended, or an image was made, since the last pass.
    has_news: bool,
    /// Whether the last pass found too little to drop. News make the thread try again.
    is_exhausted: bool,
    is_stopping: bool,
    was_told: bool,
}

/// What is to be dropped, and the least saving in bytes that is worth a rewrite.
#[derive(Debug, Clone, Copy)]
struct Demand {
    need: Need,
    least_bytes: u64,
}

/// The thread that rewrites the recording.
pub(crate) struct Keeping {
    keeper: Arc<Keeper>,
    accounts: Arc<Accounts>,
    thread: JoinHandle<()>,
}

impl Keeping {
    /// Starts the thread. It rewrites the accounts together with the streams.
    pub fn start(keeper: Arc<Keeper>, accounts: Arc<Accounts>) -> Self {
        let (for_thread, their_accounts) = (Arc::clone(&keeper), Arc::clone(&accounts));
        let thread = std::thread::spawn(move || for_thread.run(&their_accounts));
        Self { keeper, accounts, thread }
    }

    /// Ends the thread, then drops what is left to drop. All rings must have been drained.
    pub fn stop(self) {
        self.keeper.lock().is_stopping = true;
        self.keeper.changed.notify_all();
        let _ = self.thread.join();
        self.keeper.finish(&self.accounts);
    }
}

impl Keeper {
    /// `base_ns`: when recording began, on the monotonic clock. The folder is that of the
    /// recording's images.
    pub fn new(
        limit: KeepLast,
        base_ns: u64,
        writer: Arc<RecordingWriter>,
        images: Checkpoints,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Self {
        Self {
            limit,
            base_ns,
            writer,
            images,
            watcher,
            image_bytes: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is found in a stream, at its beginning.
    pub fn findings(&self) -> Findings {
        Findings::new(self.watcher.clone())
    }

    /// Notes a new stream.
    pub fn declared(&self, info: &StreamInfo) {
        let kept = Kept {
            parent: info.parent.map(|parent| parent.0),
            pid: info.pid,
            is_thread: info.kind == StreamKind::Thread,
            ..Kept::default()
        };
        self.lock().streams.insert(info.id.0, kept);
    }

    /// Notes images at which replay can begin, made at the same time.
    pub fn has_images(&self, images: Vec<Beginning>) {
        let mut state = self.lock();
        state.beginnings.add(images);
        state.has_news = true;
        if let KeepLast::Bytes(limit) = self.limit {
            let needless = state.beginnings.take_beyond(limit / 2);
            self.remove_images(&state, &needless);
        } else {
            self.image_bytes.store(state.beginnings.bytes(), Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn remove_images(&self, state: &State, images: &[KeptCheckpoint]) {
        // An image that stays costs room, but nothing goes wrong.
        let failures = images.iter().filter_map(|image| self.images.remove(image).err());
        failures.for_each(|error| retake_kernel::tell!("retake: {error}"));
        self.image_bytes.store(state.beginnings.bytes(), Relaxed);
    }

    /// Notes that a thread has ended and that its whole stream is on disk.
    pub fn ended(&self, stream: StreamId, ties: u32, scan: StreamScan, account: ThreadAccount) {
        let (findings, size) = scan.finish();
        let end =
            End { account, ties, findings, size, stored_bytes: self.writer.stored_bytes(stream) };
        let mut state = self.lock();
        if let Some(kept) = state.streams.get_mut(&stream.0) {
            kept.end = Some(end);
        }
        state.has_news = true;
        drop(state);
        if !matches!(self.limit, KeepLast::Time(_)) {
            self.changed.notify_all();
        }
    }

    /// Returns the most bytes of events to keep, if there is such a limit.
    fn limit_bytes(&self) -> Option<u64> {
        match self.limit {
            // The images count, but some room is for events in any case.
            KeepLast::Bytes(limit) => {
                Some(limit.saturating_sub(self.image_bytes.load(Relaxed)).max(limit / 4))
            }
            KeepLast::Time(_) => None,
            // A rewrite needs room for the new file next to the old one, and each file reserves
            // half as much again.
            KeepLast::WhatFits => {
                let disk = rustix::fs::statvfs(self.writer.directory()).ok()?;
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                Some((free + self.writer.file_bytes()) / 3)
            }
        }
    }

    /// Whether the file comes near a limit in bytes. The limit of [`KeepLast::WhatFits`] moves.
    fn is_nearly_full(&self) -> bool {
        self.limit_bytes().is_some_and(|limit| self.writer.file_bytes() >= limit - limit / 8)
    }

    /// Called before events are appended. Under a limit in bytes, waits as long as room can be
    /// made.
    pub fn wait_for_room(&self) {
        if !self.is_nearly_full() {
            return;
        }
        let started = Instant::now();
        let mut state = self.lock();
        while !state.is_exhausted
            && !state.is_stopping
            && self.is_nearly_full()
            && started.elapsed() < PATIENCE
        {
            self.changed.notify_all();
            state = self
                .changed
                .wait_timeout(state, Duration::from_millis(20))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let is_beyond = self.limit_bytes().is_some_and(|limit| self.writer.file_bytes() > limit);
        if state.is_exhausted && !state.was_told && is_beyond {
            state.was_told = true;
            retake_kernel::tell!(
                "retake: the recording outgrows --keep-last: all that it holds belongs to \
                processes that still run, or is needed by them. Nothing is lost; the recording \
                goes on growing"
            );
        }
    }

    fn run(&self, accounts: &Accounts) {
        let mut not_before = Instant::now();
        let mut state = self.lock();
        while !state.is_stopping {
            let is_due = Instant::now() >= not_before && (state.has_news || !state.is_exhausted);
            let Some(demand) = self.demand().filter(|_| is_due) else {
                state = self
                    .changed
                    .wait_timeout(state, PERIOD)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            };
            state.has_news = false;
            drop(state);
            let started = Instant::now();
            let result = self.pass(accounts, demand);
            not_before = Instant::now() + self.pause(&result, started.elapsed());
            state = self.lock();
            state.is_exhausted = !matches!(result, Ok(true));
            if let Err(error) = result {
                retake_kernel::tell!("retake: what --keep-last would drop stays for now: {error}");
            }
            self.changed.notify_all();
        }
    }

    /// Returns the pause before the next pass. With very many streams, a pass that finds too little
    /// still takes long.
    fn pause(&self, result: &retake_recording::Result<bool>, elapsed: Duration) -> Duration {
        match (result, self.limit) {
            (Err(_), _) => PAUSE,
            (Ok(_), KeepLast::Time(time)) => (time / 16).max(PERIOD),
            (Ok(true), _) => Duration::ZERO,
            (Ok(false), _) => (elapsed * 8).min(PAUSE),
        }
    }

    /// Returns what should be dropped now. A rewrite costs as much as what is kept, so the saving
    /// must be in proportion.
    fn demand(&self) -> Option<Demand> {
        let file_bytes = self.writer.file_bytes();
        if let KeepLast::Time(time) = self.limit {
            return Some(Demand {
                need: self.ended_by(time),
                least_bytes: SMALL_BYTES.max(file_bytes / 2),
            });
        }
        let limit = self.limit_bytes()?;
        (file_bytes >= limit - limit / 4).then(|| Demand {
            need: Need::Bytes(file_bytes - limit / 2),
            least_bytes: (limit / 8).max(file_bytes / 5),
        })
    }

    fn ended_by(&self, time: Duration) -> Need {
        let now = clock::monotonic_ns().saturating_sub(self.base_ns);
        Need::EndedBy(now.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Drops what the demand asks for. Returns whether there was enough to drop.
    fn pass(&self, accounts: &Accounts, demand: Demand) -> retake_recording::Result<bool> {
        let plan = {
            let state = self.lock();
            let mut plan = plan(&state.streams, &state.dropped, demand.need);
            let stored_before = |from: &BTreeMap<u32, Place>| self.writer.stored_before(from);
            state.beginnings.leave_out(&mut plan, &state.streams, demand.need, &stored_before);
            plan
        };
        if plan.saved_bytes < demand.least_bytes {
            if matches!(demand.need, Need::EndedBy(_)) {
                self.drop_images(&plan);
            }
            return Ok(false);
        }
        let (rewrite, held) = accounts.begin_rewrite(&self.writer)?;
        let (dropped, chunks) = {
            let state = self.lock();
            let dropped = state.dropped_after(&plan);
            let chunks = state.supervisor_stream(&plan, &dropped, &held.points);
            (dropped, chunks)
        };
        let keep = |stream: StreamId| match plan.cut.get(&stream.0) {
            _ if plan.gone.contains(&stream.0) => Keep::Nothing,
            Some(&place) => Keep::Until(place),
            None => plan.from.get(&stream.0).map_or(Keep::All, |&place| Keep::From {
                place,
                program: plan.begin.get(&stream.0).map_or(0, |begin| begin.program),
            }),
        };
        if let Err(error) =
            rewrite.run(&keep, &Replaced { info: &supervisor_info(), chunks: &chunks })
        {
            accounts.put_back(held);
            return Err(error);
        }
        self.lock().apply(&plan, dropped, &self.writer);
        self.drop_images(&plan);
        Ok(true)
    }

    /// Removes the images that are not needed if a plan is carried out.
    fn drop_images(&self, plan: &Plan) {
        let mut state = self.lock();
        let needless = state.beginnings.take_needless(plan);
        self.remove_images(&state, &needless);
    }

    /// After everything has ended: drops what still exceeds the limit, and removes files that no
    /// stream needs.
    fn finish(&self, accounts: &Accounts) {
        let file_bytes = self.writer.file_bytes();
        let need = match self.limit {
            KeepLast::Bytes(limit) => (file_bytes > limit).then(|| Need::Bytes(file_bytes - limit)),
            KeepLast::Time(time) => Some(self.ended_by(time)),
            // Everything fits already.
            KeepLast::WhatFits => None,
        };
        let result =
            need.map_or(Ok(false), |need| self.pass(accounts, Demand { need, least_bytes: 1 }));
        let unneeded = self.lock().unneeded_contents();
        if let Err(error) = result.and_then(|_| self.writer.unlink_contents(&unneeded)) {
            retake_kernel::tell!("retake: not all that --keep-last would drop is gone: {error}");
        }
    }
}

impl State {
    /// Returns what will have been dropped after the plan is carried out.
    fn dropped_after(&self, plan: &Plan) -> Dropped {
        let mut dropped = self.dropped.clone();
        for &stream in &plan.gone {
            let Kept { is_thread, is_cut, end: Some(end), .. } = &self.streams[&stream] else {
                continue;
            };
            dropped.streams.add(u64::from(stream), u64::from(stream) + 1);
            dropped.console.add_all(&end.findings.console_before);
            dropped.console.add_all(&end.findings.console);
            count(&mut dropped, end, Place::default(), !is_thread && !is_cut);
        }
        for (&stream, &place) in &plan.cut {
            let Kept { end: Some(end), .. } = &self.streams[&stream] else { continue };
            dropped.cut.add(u64::from(stream), u64::from(stream) + 1);
            dropped.console.add_all(&end.findings.console);
            count(&mut dropped, end, place, true);
        }
        dropped
    }

    /// Returns the supervisor's own stream after the plan: the note of what was dropped, the clock
    /// readings, and the accounts of the remaining threads.
    fn supervisor_stream(
        &self,
        plan: &Plan,
        dropped: &Dropped,
        points: &[u8],
    ) -> Vec<(Vec<u8>, ChunkEvents)> {
        let one = ChunkEvents { first: Some(0), count: 1 };
        let note = dropped.event();
        let mut chunks: Vec<_> = note
            .chunks(CHUNK_BYTES)
            .enumerate()
            .map(|(at, bytes)| (bytes.to_vec(), if at == 0 { one } else { ChunkEvents::default() }))
            .collect();
        let whole = CHUNK_BYTES / TimePoint::BYTES * TimePoint::BYTES;
        chunks.extend(points.chunks(whole).map(|part| {
            let count = (part.len() / TimePoint::BYTES) as u32;
            (part.to_vec(), ChunkEvents { count, ..one })
        }));
        let left = self.streams.iter().filter(|(stream, _)| !plan.gone.contains(stream));
        let accounts: Vec<Vec<u8>> = left
            .filter_map(|(&stream, kept)| Some(kept.end.as_ref()?.account.event(StreamId(stream))))
            .collect();
        chunks.extend(
            accounts
                .chunks(ACCOUNTS_IN_CHUNK)
                .map(|part| (part.concat(), ChunkEvents { count: part.len() as u32, ..one })),
        );
        chunks
    }

    fn apply(&mut self, plan: &Plan, dropped: Dropped, writer: &RecordingWriter) {
        self.dropped = dropped;
        for stream in &plan.gone {
            let end = self.streams.remove(stream).and_then(|kept| kept.end);
            self.dropped_contents.extend(end.into_iter().flat_map(|end| end.findings.contents));
        }
        for (&stream, &place) in &plan.cut {
            if let Some(Kept { end: Some(end), is_cut, .. }) = self.streams.get_mut(&stream) {
                *is_cut = true;
                end.size = place;
                end.stored_bytes = writer.stored_bytes(StreamId(stream));
                end.findings.console = Default::default();
            }
        }
    }

    /// Returns files that only dropped streams had mapped. Returns none while a thread lives,
    /// because the files that it maps are not known yet.
    fn unneeded_contents(&self) -> Vec<ContentId> {
        let ends: Option<Vec<&End>> = self.streams.values().map(|kept| kept.end.as_ref()).collect();
        let Some(ends) = ends.filter(|ends| ends.iter().all(|end| !end.findings.is_opaque)) else {
            return Vec::new();
        };
        let needed: BTreeSet<&ContentId> =
            ends.iter().flat_map(|end| &end.findings.contents).collect();
        self.dropped_contents.iter().filter(|content| !needed.contains(content)).copied().collect()
    }
}

/// Counts a stream as dropped after `place`.
fn count(dropped: &mut Dropped, end: &End, place: Place, is_process: bool) {
    dropped.processes += u64::from(is_process);
    dropped.events += end.size.events.saturating_sub(place.events);
    dropped.bytes += end.size.bytes.saturating_sub(place.bytes);
    dropped.until_ns = dropped.until_ns.max(end.account.ended_ns);
}
