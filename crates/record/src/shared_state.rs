//! The state that the recorder's threads share.

use crate::budget::Budget;
use crate::copies::{self, Inbox, Outbox, Sharers};
use crate::counters::Counters;
use crate::event_log::EventLog;
use crate::keep::Keeper;
use crate::leases::Leases;
use crate::pools::Pools;
use crate::rings::{Plan, Ring};
use crate::space::Space;
use crate::stream_scan::StreamScan;
use crate::thread_account::{Accounts, EventCounts};
use retake_kernel::clock;
use retake_kernel::futex;
use retake_kernel::guardian::Line;
use retake_kernel::process;
use retake_kernel::shared::{self, Header};
use retake_model::event::{NO_PARENT, parent_stream};
use retake_recording::{StreamId, StreamInfo, StreamKind};
use retake_supervisor::{FileTable, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The consumer's side of one slot. The thread that drains it holds the lock.
#[derive(Debug)]
pub(crate) struct RingState {
    ring: Ring,
    /// The stream written now, once it has been declared.
    declared: Option<u32>,
    scan: StreamScan,
    /// When bytes were last moved to disk.
    drained: Instant,
}

impl RingState {
    /// Creates the state of a slot. `end`: how many bytes of its stream are in the recording
    /// already, and how many bytes of the last event are missing.
    pub fn at(ring: Ring, stream: u32, end: Option<(u64, u64)>) -> Self {
        Self {
            ring,
            declared: end.map(|_| stream),
            scan: StreamScan::within_event(end.map_or(0, |(_, missing)| missing)),
            drained: Instant::now(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Recorder {
    pub session: Session,
    pub files: FileTable,
    pub log: Arc<dyn EventLog>,
    pub counters: Counters,
    pub accounts: Arc<Accounts>,
    pub space: Arc<Space>,
    /// The line to the guardian, which attaches new pools.
    pub guardian: Option<Line>,
    /// Set if the size of the recording is limited.
    pub budget: Option<Budget>,
    /// Set if only a part of the recording is kept.
    pub keeper: Option<Arc<Keeper>>,
    pub pools: Pools,
    /// Leases on files that the program reads.
    pub leases: Leases,
    /// Set if images are made.
    pub images: Option<Inbox>,
    /// The processes that were read for the image that a thread is about to take.
    pub sharers: Mutex<Option<Sharers>>,
    rings: Mutex<Vec<Arc<Mutex<RingState>>>>,
    progress: (Mutex<u64>, Condvar),
    started: AtomicBool,
    /// Whether processes are stopped for moments, to let them go.
    pub is_letting_go: AtomicBool,
    /// Whether the recording has ended, although threads may go on.
    pub is_over: AtomicBool,
    /// The labels of streams that have not been declared yet.
    pub labels: Mutex<BTreeMap<u32, String>>,
    /// How many images replay begins at, if recording began in a program that ran already.
    pub first_images: AtomicU64,
    /// The processes that go on unrecorded.
    pub let_go: Mutex<BTreeSet<i32>>,
}

/// The lazy drain leaves less than this fraction of a ring in it, for at most this time. A thread
/// waits for room only with far more.
const LITTLE_PART: u64 = 16;
const LITTLE_PERIOD: Duration = Duration::from_millis(200);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    pub fn new(
        session: Session,
        plan: Plan,
        began_ns: u64,
        files: FileTable,
        log: Arc<dyn EventLog>,
        space: Space,
        keeper: Option<Arc<Keeper>>,
    ) -> Self {
        let space = Arc::new(space);
        Self {
            session,
            files,
            counters: Counters::default(),
            accounts: Arc::new(Accounts::new(began_ns, Arc::clone(&log), Arc::clone(&space))),
            log,
            space,
            guardian: None,
            budget: None,
            keeper,
            pools: Pools::new(plan),
            leases: Leases::default(),
            images: None,
            sharers: Mutex::default(),
            rings: Mutex::default(),
            progress: Default::default(),
            started: AtomicBool::new(false),
            is_letting_go: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            labels: Mutex::default(),
            first_images: AtomicU64::new(1),
            let_go: Mutex::default(),
        }
    }

    /// Prepares for images. Returns the queue from which copies of processes come.
    pub fn take_copies(&mut self) -> Outbox {
        let (inbox, outbox) = copies::boxes();
        self.images = Some(inbox);
        outbox
    }

    /// Whether images from which replay begins are still to be made.
    pub fn lacks_first_images(&self) -> bool {
        self.counters.images.load(Relaxed) < self.first_images.load(Relaxed)
    }

    pub fn header(&self) -> &Header {
        self.session.header()
    }

    /// Returns true on the first call, for the first exec of the session.
    pub fn first_exec(&self) -> bool {
        !self.started.swap(true, AcqRel)
    }

    /// Finds out which thread has a slot, if the thread cannot tell: in its own PID namespace it
    /// does not know its ID in ours. The process is the one that attached the token. The thread is
    /// found by its ID in that namespace.
    pub fn identify(&self, index: usize) -> Option<()> {
        let slot = &self.header().slots[index];
        let pid = self.pools.take_token(index)?;
        let tid = process::thread_called(pid, slot.request.arguments[0].load(Relaxed) as i32)?;
        slot.pid.store(pid as u32, Relaxed);
        slot.tid.store(tid as u32, Relaxed);
        Some(())
    }

    /// Makes more slots ready, with rings in a new pool.
    ///
    /// # Errors
    /// All possible slots exist, or the kernel has no room.
    pub fn add_pool(&self) -> io::Result<()> {
        let header = self.header();
        self.pools.add(header, |index, shape, pool| {
            self.guardian.as_ref().inspect(|line| line.note(index as u64 + 1));
            for slot in shape.slots() {
                let about = &header.slots[slot];
                about.pool.store(index as u32, Relaxed);
                about.ring_bytes.store(shape.ring_bytes as u32, Relaxed);
                about.ring_offset.store(shape.offset + shape.place(slot) as u64, Relaxed);
                let ring = Ring::of(pool, shape, slot);
                lock(&self.rings).push(Arc::new(Mutex::new(RingState::at(ring, 0, None))));
            }
            header.slots_used.store(shape.slots().end as u32, Release);
            // The slot pushed last is taken first.
            shape.slots().rev().for_each(|slot| shared::push_ready(header, slot));
        })?;
        header.ready_low.store(shared::READY_ENOUGH, Release);
        header.ready_futex.fetch_add(1, AcqRel);
        futex::wake(&header.ready_futex, i32::MAX);
        Ok(())
    }

    /// Takes over the next slot from a supervisor that is gone. `written`: the bytes of its stream
    /// that are in the recording. Its thread must be gone, too.
    pub fn adopt_slot(&self, ring: RingState, written: Option<u64>) {
        let mut rings = lock(&self.rings);
        let slot = &self.header().slots[rings.len()];
        let (tail, head) = (slot.consumer.tail.load(Acquire), slot.producer.head.load(Acquire));
        // The supervisor may have been killed after it wrote and before it moved the tail.
        let next = slot.consumer.base.load(Relaxed).wrapping_add(written.unwrap_or(0));
        if written.is_some() && (tail..=head).contains(&next) {
            slot.consumer.tail.store(next, SeqCst);
        }
        rings.push(Arc::new(Mutex::new(ring)));
    }

    /// Takes a ready slot for the first process.
    pub fn claim_root(&self, pid: i32) -> usize {
        self.claim(pid, pid, None)
    }

    /// Takes a ready slot for a thread that no recorded one has made. The first is the first thread
    /// of the first process. `parent`: the stream of its process's first thread, if that is
    /// another.
    pub fn claim(&self, pid: i32, tid: i32, parent: Option<u32>) -> usize {
        let header = self.header();
        // The drain may add slots at the same time.
        let behind = |top: u64| {
            let slot = &header.slots[(top as u32 as usize).checked_sub(1)?];
            Some(((top >> 32) + 1) << 32 | u64::from(slot.next_ready.load(Relaxed)))
        };
        let top = header.ready_top.fetch_update(AcqRel, Acquire, behind);
        let index = top.expect("there are ready slots") as u32 as usize - 1;
        let slot = &header.slots[index];
        let stream = header.next_stream.fetch_add(1, Relaxed);
        slot.stream.store(stream, Relaxed);
        slot.parent_stream.store(parent.unwrap_or(NO_PARENT), Relaxed);
        slot.pid.store(pid as u32, Relaxed);
        slot.tid.store(tid as u32, Relaxed);
        slot.ties.store(0, Relaxed);
        slot.started_ns.store(clock::monotonic_ns(), Relaxed);
        slot.state.store(shared::SLOT_LIVE, Release);
        index
    }

    pub fn ring(&self, index: usize) -> Arc<Mutex<RingState>> {
        Arc::clone(&lock(&self.rings)[index])
    }

    pub fn slot_count(&self) -> usize {
        lock(&self.rings).len()
    }

    /// Moves the contents of a slot's ring to the recording. Returns the number of bytes.
    pub fn drain_slot(&self, index: usize) -> retake_recording::Result<u64> {
        let ring = self.ring(index);
        let mut state = lock(&ring);
        self.drain_locked(index, &mut state)
    }

    /// As [`Recorder::drain_slot`], but leaves a few bytes in the ring for a while: large chunks
    /// compress better and cause fewer wake-ups.
    pub fn drain_lazily(&self, index: usize) -> retake_recording::Result<u64> {
        let ring = self.ring(index);
        let mut state = lock(&ring);
        let slot = &self.header().slots[index];
        let count = slot.producer.head.load(Acquire) - slot.consumer.tail.load(Relaxed);
        if count < state.ring.bytes() as u64 / LITTLE_PART
            && state.drained.elapsed() < LITTLE_PERIOD
        {
            return Ok(0);
        }
        self.drain_locked(index, &mut state)
    }

    fn drain_locked(&self, index: usize, state: &mut RingState) -> retake_recording::Result<u64> {
        let slot = &self.header().slots[index];
        let tail = slot.consumer.tail.load(Relaxed);
        let head = slot.producer.head.load(Acquire);
        if head == tail {
            return Ok(0);
        }
        if !self.is_over() {
            self.declare(index, state)?;
        }
        let stream = StreamId(slot.stream.load(Relaxed));
        let count = (head - tail).min(state.ring.bytes() as u64) as usize;
        let pieces = if state.scan.is_cut || self.is_over() {
            Default::default()
        } else {
            state.ring.pieces(tail, count)
        };
        for piece in pieces {
            if !piece.is_empty() {
                if let Some(keeper) = &self.keeper {
                    keeper.wait_for_room();
                }
                state.scan.append(&self.space, &*self.log, stream, piece)?;
            }
        }
        slot.consumer.tail.store(tail + count as u64, SeqCst);
        state.drained = Instant::now();
        slot.producer.kicked.store(0, Release);
        if slot.consumer.tail_waiting.load(SeqCst) != 0 {
            slot.consumer.tail_futex.fetch_add(1, AcqRel);
            futex::wake(&slot.consumer.tail_futex, 1);
        }
        Ok(count as u64)
    }

    /// Whether what was drained of a slot's stream ends within an event, and what there was.
    pub fn drained(&self, index: usize) -> (bool, EventCounts) {
        let ring = self.ring(index);
        let scan = &lock(&ring).scan;
        (scan.is_within_event(), scan.counts)
    }

    /// Appends events of the supervisor to a slot's stream, after all that its thread has written.
    /// The thread must be stopped or gone.
    pub fn append_own(&self, index: usize, bytes: &[u8]) -> retake_recording::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        let ring = self.ring(index);
        let mut state = lock(&ring);
        self.drain_locked(index, &mut state)?;
        if state.scan.is_cut || state.scan.is_within_event() {
            return Ok(()); // readers stop before an event that is not whole
        }
        self.declare(index, &mut state)?;
        let slot = &self.header().slots[index];
        slot.consumer.base.fetch_sub(bytes.len() as u64, SeqCst);
        let stream = StreamId(slot.stream.load(Relaxed));
        state.scan.append(&self.space, &*self.log, stream, bytes)
    }

    /// As [`Recorder::append_own`], for a stopped thread that will go on. Puts the events into the
    /// ring, without writing to disk, if they fit.
    pub fn append_in_ring(&self, index: usize, bytes: &[u8]) -> retake_recording::Result<()> {
        let ring = self.ring(index);
        let state = lock(&ring);
        let slot = &self.header().slots[index];
        let head = slot.producer.head.load(Acquire);
        let waiting = head - slot.consumer.tail.load(Acquire);
        if waiting + bytes.len() as u64 > state.ring.bytes() as u64 {
            drop(state);
            return self.append_own(index, bytes);
        }
        state.ring.write(head, bytes);
        slot.producer.head.store(head + bytes.len() as u64, Release);
        Ok(())
    }

    fn declare(&self, index: usize, state: &mut RingState) -> retake_recording::Result<()> {
        let slot = &self.header().slots[index];
        let stream = slot.stream.load(Relaxed);
        if state.declared == Some(stream) {
            return Ok(());
        }
        let parent = slot.parent_stream.load(Relaxed);
        let (pid, tid) = (slot.pid.load(Relaxed) as i32, slot.tid.load(Relaxed) as i32);
        let info = StreamInfo {
            id: StreamId(stream),
            parent: parent_stream(parent),
            pid,
            tid,
            kind: if parent == NO_PARENT {
                StreamKind::Initial
            } else if pid == tid {
                StreamKind::Process
            } else {
                StreamKind::Thread
            },
            label: lock(&self.labels).remove(&stream).unwrap_or_default(),
        };
        slot.consumer.base.store(slot.consumer.tail.load(Relaxed), SeqCst);
        self.space.wait(|| self.log.declare_stream(&info))?;
        state.declared = Some(stream);
        state.scan = StreamScan::new(self.keeper.as_deref().map(Keeper::findings));
        if let Some(keeper) = &self.keeper {
            keeper.declared(&info);
        }
        Ok(())
    }

    /// Makes a slot ready for a new thread. Its thread must have ended, and its ring must be empty.
    pub fn recycle(&self, index: usize) {
        let header = self.header();
        let slot = &header.slots[index];
        self.release_baton(index);
        let (was_declared, scan) = {
            let ring = self.ring(index);
            let mut state = lock(&ring);
            (state.declared.take().is_some(), std::mem::take(&mut state.scan))
        };
        if was_declared {
            let stream = StreamId(slot.stream.load(Relaxed));
            let account = self.accounts.of(slot, scan.counts);
            // This comes first: a rewrite of the recording takes from the keeper what is in the
            // accounts.
            if let Some(keeper) = &self.keeper {
                keeper.ended(stream, slot.ties.load(Relaxed), scan, account);
            }
            // If this fails, the drain fails too, and reports it.
            let _ = self.accounts.close(stream, &account);
        }
        self.pools.take_token(index);
        slot.pid.store(0, Relaxed);
        slot.exec_pending.store(0, Relaxed);
        slot.forcing.state.store(shared::FORCE_IDLE, Relaxed);
        slot.baton.state.store(0, Relaxed);
        slot.baton.slice_us.store(0, Relaxed);
        slot.baton.stop_us.store(0, Relaxed);
        slot.producer.kicked.store(0, Relaxed);
        slot.producer.stamped.store(0, Relaxed);
        shared::push_ready(header, index);
        header.ready_futex.fetch_add(1, AcqRel);
        futex::wake(&header.ready_futex, i32::MAX);
        *lock(&self.progress.0) += 1;
        self.progress.1.notify_all();
    }

    /// The number of slots whose thread has not ended or whose ring is not drained yet.
    pub fn live_slots(&self) -> usize {
        let header = self.header();
        (0..self.slot_count())
            .filter(|&i| {
                matches!(
                    header.slots[i].state.load(Acquire),
                    shared::SLOT_CLAIMED
                        | shared::SLOT_LIVE
                        | shared::SLOT_EXITED
                        | shared::SLOT_DYING
                )
            })
            .count()
    }

    /// The number of thread streams that have ended so far.
    pub fn progress(&self) -> u64 {
        *lock(&self.progress.0)
    }

    /// Makes the drain end the streams of ended threads, and waits until their number differs from
    /// `seen`.
    pub fn wait_for_progress(&self, seen: u64, limit: Duration) {
        self.ring_drain_bell();
        let _ = self
            .progress
            .1
            .wait_timeout_while(lock(&self.progress.0), limit, |ended| *ended == seen);
    }

    /// Whether the policy is sync, under which threads run in parallel.
    pub fn is_parallel(&self) -> bool {
        self.header().options.load(Relaxed) & retake_kernel::shared::OPTION_SYNC != 0
    }

    /// Releases the locks of a thread that is gone or has a new program: the baton of the domain
    /// that processes share, and the console.
    pub fn release_baton(&self, index: usize) {
        let header = self.header();
        let stream = header.slots[index].stream.load(Relaxed);
        if header.console_lock.compare_exchange(stream + 1, 0, AcqRel, Acquire).is_ok() {
            futex::wake(&header.console_lock, 1);
        }
        let domain = &header.shared_domain;
        if domain.lock.compare_exchange(stream + 1, 0, AcqRel, Acquire).is_ok() {
            futex::wake(&domain.lock, 1);
        }
    }

    pub fn ring_drain_bell(&self) {
        let header = self.header();
        header.drain_doorbell.fetch_add(1, AcqRel);
        futex::wake(&header.drain_doorbell, 1);
    }
}
