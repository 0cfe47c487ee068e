//! Keeping a recording small while it is made: what is finished and not needed any more is left
//! out.
//!
//! A thread of its own rewrites the recording now and then, while the drain goes on. With a limit
//! in bytes the drain waits for it when the file would grow beyond the limit though something could
//! go.

mod plan;

use crate::stream_scan::{Place, StreamScan};
use crate::thread_account::{Accounts, supervisor_info};
use plan::{End, Kept, Need, Plan, plan};
use retake_kernel::clock;
use retake_model::event::ThreadAccount;
use retake_model::{ContentId, Dropped, StreamId, TimePoint};
use retake_recording::{ChunkEvents, Keep, RecordingWriter, Replaced, StreamInfo, StreamKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much of a recording is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepLast {
    /// So many bytes of events.
    Bytes(u64),
    /// What ended so long ago at most, and all that has not ended.
    Time(Duration),
    /// As many bytes of events as the file system has room for, with those that replace them.
    WhatFits,
}

/// How often it looks by itself.
const PERIOD: Duration = Duration::from_millis(250);
/// The drain waits no longer than this for one rewrite.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a rewrite that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// With a limit of time, less than this is not worth a rewrite before the end.
const SMALL_BYTES: u64 = 1 << 20;
/// Chunks of the supervisor's stream.
const CHUNK_BYTES: usize = 1 << 20;
const ACCOUNTS_IN_CHUNK: usize = 4096;

/// What is known of the streams, and what has been dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    limit: KeepLast,
    /// When recording began.
    base_ns: u64,
    writer: Arc<RecordingWriter>,
    state: Mutex<State>,
    /// Something ended, a rewrite has ended, or all shall end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<u32, Kept>,
    dropped: Dropped,
    /// Files that streams now gone had mapped.
    dropped_contents: BTreeSet<ContentId>,
    /// A thread has ended since the last look.
    has_ended: bool,
    /// There was not enough to drop at the last look, and nothing has ended since.
    is_exhausted: bool,
    is_stopping: bool,
    was_told: bool,
}

/// What is to be dropped, and below how many bytes it is not worth the while.
#[derive(Debug, Clone, Copy)]
struct Demand {
    need: Need,
    least_bytes: u64,
}

/// The thread that rewrites.
pub(crate) struct Keeping {
    keeper: Arc<Keeper>,
    accounts: Arc<Accounts>,
    thread: JoinHandle<()>,
}

impl Keeping {
    /// Starts it. It rewrites the accounts with the streams.
    pub fn start(keeper: Arc<Keeper>, accounts: Arc<Accounts>) -> Self {
        let (for_thread, their_accounts) = (Arc::clone(&keeper), Arc::clone(&accounts));
        let thread = std::thread::spawn(move || for_thread.run(&their_accounts));
        Self { keeper, accounts, thread }
    }

    /// Ends the thread, after what is left to be dropped. Everything must be drained.
    pub fn stop(self) {
        self.keeper.lock().is_stopping = true;
        self.keeper.changed.notify_all();
        let _ = self.thread.join();
        self.keeper.finish(&self.accounts);
    }
}

impl Keeper {
    pub fn new(limit: KeepLast, writer: Arc<RecordingWriter>) -> Self {
        Self {
            limit,
            base_ns: clock::monotonic_ns(),
            writer,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream begins.
    pub fn declared(&self, info: &StreamInfo) {
        let kept = Kept {
            parent: info.parent.map(|parent| parent.0),
            is_thread: info.kind == StreamKind::Thread,
            ..Kept::default()
        };
        self.lock().streams.insert(info.id.0, kept);
    }

    /// A thread has ended, and all that it wrote is on disk.
    pub fn ended(&self, stream: StreamId, ties: u32, scan: StreamScan, account: ThreadAccount) {
        let (findings, size) = scan.finish();
        let end =
            End { account, ties, findings, size, stored_bytes: self.writer.stored_bytes(stream) };
        let mut state = self.lock();
        if let Some(kept) = state.streams.get_mut(&stream.0) {
            kept.end = Some(end);
        }
        state.has_ended = true;
        drop(state);
        if !matches!(self.limit, KeepLast::Time(_)) {
            self.changed.notify_all();
        }
    }

    /// So many bytes of events are to be kept at most, if there is such a limit.
    fn limit_bytes(&self) -> Option<u64> {
        match self.limit {
            KeepLast::Bytes(limit) => Some(limit),
            KeepLast::Time(_) => None,
            // A rewrite needs room beside what it replaces, and each file reserves half as much
            // again.
            KeepLast::WhatFits => {
                let disk = rustix::fs::statvfs(self.writer.directory()).ok()?;
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                Some((free + self.writer.file_bytes()) / 3)
            }
        }
    }

    /// Whether the file comes near a limit in bytes. That of what fits moves.
    fn is_nearly_full(&self) -> bool {
        self.limit_bytes().is_some_and(|limit| self.writer.file_bytes() >= limit - limit / 8)
    }

    /// Called before something is appended: with a limit in bytes, waits while room can be made.
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
                "retake: the recording outgrows --keep-last: what it holds is of processes that \
                still run, or that such ones need; nothing is lost, it grows on"
            );
        }
    }

    fn run(&self, accounts: &Accounts) {
        let mut not_before = Instant::now();
        let mut state = self.lock();
        while !state.is_stopping {
            let is_due = Instant::now() >= not_before && (state.has_ended || !state.is_exhausted);
            let Some(demand) = self.demand().filter(|_| is_due) else {
                state = self
                    .changed
                    .wait_timeout(state, PERIOD)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            };
            state.has_ended = false;
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

    /// Until the next look, after one that took so long. With very many streams it takes long in
    /// vain.
    fn pause(&self, result: &retake_recording::Result<bool>, elapsed: Duration) -> Duration {
        match (result, self.limit) {
            (Err(_), _) => PAUSE,
            (Ok(_), KeepLast::Time(time)) => (time / 16).max(PERIOD),
            (Ok(true), _) => Duration::ZERO,
            (Ok(false), _) => (elapsed * 8).min(PAUSE),
        }
    }

    /// What should go now. Rewriting costs what is kept, so there must be some proportion.
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

    /// Drops what the demand says; whether there was enough.
    fn pass(&self, accounts: &Accounts, demand: Demand) -> retake_recording::Result<bool> {
        let plan = {
            let state = self.lock();
            plan(&state.streams, &state.dropped, demand.need)
        };
        if plan.saved_bytes < demand.least_bytes {
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
            Some(&Place { bytes, events }) => Keep::Until { bytes, events },
            None => Keep::All,
        };
        if let Err(error) =
            rewrite.run(&keep, &Replaced { info: &supervisor_info(), chunks: &chunks })
        {
            accounts.put_back(held);
            return Err(error);
        }
        self.lock().apply(&plan, dropped, &self.writer);
        Ok(true)
    }

    /// Everything has ended: what remains to be done for the limit, and the files that nothing
    /// needs any more.
    fn finish(&self, accounts: &Accounts) {
        let file_bytes = self.writer.file_bytes();
        let need = match self.limit {
            KeepLast::Bytes(limit) => (file_bytes > limit).then(|| Need::Bytes(file_bytes - limit)),
            KeepLast::Time(time) => Some(self.ended_by(time)),
            KeepLast::WhatFits => None, // it fits
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
    /// What will have been dropped.
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

    /// What the supervisor's own stream holds then: the note, the points of the clock, and the
    /// accounts of threads that are left.
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

    /// Files that only what is gone had mapped. None as long as a thread lives: what that one maps
    /// is not known yet.
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

/// Counts a stream of which only the part up to `place` is left.
fn count(dropped: &mut Dropped, end: &End, place: Place, is_process: bool) {
    dropped.processes += u64::from(is_process);
    dropped.events += end.size.events.saturating_sub(place.events);
    dropped.bytes += end.size.bytes.saturating_sub(place.bytes);
    dropped.until_ns = dropped.until_ns.max(end.account.ended_ns);
}
