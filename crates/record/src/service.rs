//! Threads that answer the runtime's requests: an exec to attend, a file to store.

use crate::copies::Copy;
use crate::event_log::{Moment, Stage};
use crate::shared_state::{Recorder, lock};
use crate::{exec, forced, images, lending, sharers};
use retake_kernel::shared::Slot;
use retake_kernel::tracee::Attached;
use retake_kernel::{futex, memory, process, shared};
use retake_patch::Placement;
use retake_snapshot::image::{ImageError, SharedMemory};
use retake_supervisor::worker::{Stop, Worker};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most threads. An exec occupies its thread until the new program runs.
const THREADS: usize = 4;

pub(crate) struct Service(Arc<Pool>);

struct Pool {
    recorder: Arc<Recorder>,
    workers: Mutex<Vec<Worker>>,
    /// How many threads attend an exec or copy a file.
    busy: AtomicUsize,
}

impl Service {
    pub fn start(recorder: &Arc<Recorder>) -> Self {
        let pool = Arc::new(Pool {
            recorder: Arc::clone(recorder),
            workers: Mutex::default(),
            busy: AtomicUsize::new(0),
        });
        pool.grow();
        Self(pool)
    }

    /// Tells the threads to end.
    pub fn stop(&self) {
        self.0.workers().iter().for_each(Worker::tell);
    }

    /// Waits until the threads have ended.
    pub fn join(self) {
        self.stop();
        let workers = std::mem::take(&mut *self.0.workers());
        for worker in workers {
            let _ = worker.end();
        }
    }
}

impl Pool {
    fn workers(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a thread, unless there are enough.
    fn grow(self: &Arc<Self>) {
        let mut workers = self.workers();
        if workers.len() < THREADS {
            let (pool, recorder) = (Arc::clone(self), Arc::clone(&self.recorder));
            // The doorbell also counts the queue's entries, so waking must not change it.
            let bell = move || futex::wake(&recorder.header().request_doorbell, i32::MAX);
            workers.push(Worker::start(bell, move |stop| pool.run(stop)));
        }
    }

    fn run(self: &Arc<Self>, stop: &Stop) {
        let header = self.recorder.header();
        while !stop.is_told() {
            let seen = header.request_doorbell.load(Acquire);
            match shared::take_request(header) {
                Some(index) => self.answer(index),
                None => {
                    futex::wait(&header.request_doorbell, seen, Some(Duration::from_millis(50)))
                }
            }
        }
    }

    /// Answers a request. While this thread attends an exec or copies a file, another thread is
    /// ready for the next request.
    fn answer(self: &Arc<Self>, index: usize) {
        let kind = self.recorder.header().slots[index].request.kind.load(Acquire);
        if !matches!(kind, shared::REQUEST_EXEC | shared::REQUEST_LEASE) {
            return answer(&self.recorder, index);
        }
        if self.busy.fetch_add(1, AcqRel) + 1 >= self.workers().len() {
            self.grow();
        }
        answer(&self.recorder, index);
        self.busy.fetch_sub(1, AcqRel);
    }
}

/// Answers what a supervisor that is gone has not answered, even if it had taken it from the queue.
/// The service is not running yet.
pub(crate) fn answer_left_over(recorder: &Arc<Recorder>) {
    /// A request that has been noted is in the queue by then.
    const QUEUED: Duration = Duration::from_millis(5);
    let header = recorder.header();
    let is_open = |index: &usize| {
        let request = &header.slots[*index].request;
        request.kind.load(Acquire) != 0 && request.reply.load(Acquire) == 0
    };
    let mut open: BTreeSet<usize> = (0..recorder.slot_count()).filter(is_open).collect();
    std::thread::sleep(QUEUED);
    open.extend(std::iter::from_fn(|| shared::take_request(header)));
    open.into_iter().filter(is_open).for_each(|index| answer(recorder, index));
}

fn answer(recorder: &Arc<Recorder>, index: usize) {
    let slot = &recorder.header().slots[index];
    match slot.request.kind.load(Acquire) {
        shared::REQUEST_EXEC => attend_exec(recorder, index),
        shared::REQUEST_FILE => {
            let descriptor = slot.request.arguments[0].load(Relaxed) as i32;
            let found = store_file(recorder, slot.pid.load(Relaxed) as i32, descriptor);
            if let Err(error) = &found
                && recorder.counters.unstored.fetch_add(1, Relaxed) == 0
            {
                let pid = slot.pid.load(Relaxed);
                retake_kernel::tell!(
                    "retake: a file mapped by process {pid} cannot be stored: {error}; replay will \
                    show zeros in its place, and in place of all others that cannot be stored"
                );
            }
            reply(slot, found.map_or(-1, |found| found as i64));
        }
        shared::REQUEST_LEASE => {
            // Without a lease the log takes the bytes.
            let _ = take_lease(recorder, slot);
            reply(slot, 0);
        }
        shared::REQUEST_OWN_POOL => {
            let [pool, user] = [0, 1].map(|at: usize| slot.request.arguments[at].load(Relaxed));
            // In a user namespace of its own, the process sees a different user ID.
            let user =
                process::effective_user(slot.pid.load(Relaxed) as i32).unwrap_or(user as u32);
            recorder.pools.give_to(pool as usize, user);
            reply(slot, 0);
        }
        shared::REQUEST_IMAGE => {
            let [pid, stream, events] =
                [0, 1, 2].map(|at: usize| slot.request.arguments[at].load(Relaxed));
            if let Some(images) = &recorder.images {
                let taker = slot.pid.load(Relaxed);
                let sharers = lock(&recorder.sharers).take().filter(|all| all.taker == taker);
                let shared = match &sharers {
                    Some(all) => Ok(all.shared.clone()),
                    None => shared_memory(recorder, taker),
                };
                let copy = Copy::made_now(pid as i32, (stream as u32, events), shared, sharers);
                images.put(copy, recorder.header());
            }
            reply(slot, 0);
        }
        shared::REQUEST_GROUP => reply(slot, read_sharers(recorder, slot)),
        shared::REQUEST_TOKEN => {
            reply(slot, recorder.pools.make_token(index).map_or(-1, i64::from))
        }
        shared::REQUEST_LOOK => reply(slot, look(recorder, index).unwrap_or(0)),
        shared::REQUEST_IDENTITY => reply(slot, recorder.identify(index).map_or(-1, |()| 0)),
        shared::REQUEST_PRINTERS => reply(slot, printers_that_go_on(recorder, index)),
        shared::REQUEST_WRITE_TEXT => reply(slot, write_text(slot).map_or(-1, |()| 0)),
        shared::REQUEST_FORCE => reply(slot, forced::answer(slot)),
        other => {
            retake_kernel::tell!("retake: unknown request {other} of the runtime");
            reply(slot, -1);
        }
    }
}

/// Reads all other processes that share memory. Returns the reply.
fn read_sharers(recorder: &Recorder, slot: &Slot) -> i64 {
    const NOT_YET: i64 = 1;
    const NEVER: i64 = -1;
    if recorder.images.is_none() {
        return NEVER; // the recorder was killed
    }
    match sharers::read(recorder, slot.pid.load(Relaxed)) {
        Ok(Some(all)) => {
            *lock(&recorder.sharers) = Some(all);
            0
        }
        Ok(None) if slot.request.arguments[0].load(Relaxed) == 0 => NOT_YET,
        other => {
            let restless = "a process that shares memory does not come to rest";
            let error = other.err().unwrap_or(ImageError::Refused(restless.to_owned()));
            images::count_refused(recorder, &error);
            NEVER
        }
    }
}

/// The memory that a process shares. All its threads stand still.
fn shared_memory(recorder: &Recorder, pid: u32) -> retake_snapshot::image::Result<SharedMemory> {
    let shares = |slot: &Slot| {
        slot.pid.load(Relaxed) == pid && slot.ties.load(Relaxed) & shared::TIE_MEMORY != 0
    };
    let header = recorder.header();
    if header.used_slots().iter().any(shares) {
        SharedMemory::of(&[pid as i32], header, &recorder.files.changed(header))
    } else {
        Ok(SharedMemory::default())
    }
}

fn attend_exec(recorder: &Recorder, index: usize) {
    let slot = &recorder.header().slots[index];
    let tid = slot.tid.load(Relaxed) as i32;
    let attached = loop {
        if recorder.lets_go(slot.pid.load(Relaxed) as i32) {
            return; // whoever lets it go finds it where it waits
        }
        let attached = Attached::seize(tid);
        if attached.is_ok() || !is_held_by_us(recorder, tid) {
            break attached;
        }
        std::thread::sleep(Duration::from_micros(100));
    };
    match attached {
        Ok(attached) => {
            reply(slot, 0);
            exec::attend(recorder, index, attached);
        }
        Err(error) => {
            // A process that was killed meanwhile cannot be attached to, and need not be.
            if !process::is_gone(tid) {
                let reason = format!(
                    "cannot attach to process {tid} at its exec: {error}; it runs unrecorded \
                    from here"
                );
                retake_kernel::tell!("retake: {reason}");
                recorder.log.incomplete(&reason);
            }
            reply(slot, -1);
        }
    }
}

/// Whether a thread of ours holds a thread for a moment, to let it go.
fn is_held_by_us(recorder: &Recorder, tid: i32) -> bool {
    recorder.is_letting_go.load(Acquire) && !process::is_gone(tid)
}

fn take_lease(recorder: &Arc<Recorder>, slot: &shared::Slot) -> io::Result<()> {
    let [descriptor, bytes] = [0, 1].map(|at: usize| slot.request.arguments[at].load(Relaxed));
    let file = memory::descriptor_of(slot.pid.load(Relaxed) as i32, descriptor as i32)?;
    lending::ask(recorder, &file, bytes)
}

/// Inspects a traced thread that asked for it. The findings go into its stream before the event of
/// its current call.
fn look(recorder: &Recorder, index: usize) -> io::Result<i64> {
    let slot = &recorder.header().slots[index];
    let argument = |at: usize| slot.request.arguments[at].load(Relaxed);
    let stage = match argument(0) {
        shared::LOOK_BEFORE_MOVE => Stage::BeforeMove,
        shared::LOOK_AFTER_MOVE => Stage::AfterMove,
        shared::LOOK_MAPPED => Stage::Mapped,
        shared::LOOK_BEFORE_UNMAP => Stage::BeforeUnmap,
        _ => Stage::UsesMappedFile,
    };
    let entered_ns = slot.traced.entered_ns.load(Relaxed);
    let moment = Moment {
        stage,
        pid: slot.pid.load(Relaxed) as i32,
        tid: slot.tid.load(Relaxed) as i32,
        time_ns: if entered_ns == 0 { argument(2) } else { entered_ns },
        number: slot.traced.number.load(Relaxed),
        arguments: std::array::from_fn(|at| slot.traced.arguments[at].load(Relaxed)),
        result: argument(1) as i64,
    };
    recorder.log.at_call(&moment, &mut |events| Ok(recorder.append_own(index, events)?))
}

/// The number of other threads that run, or wait only for a processor or a disk, among those of the
/// same process and the one that has the console.
fn printers_that_go_on(recorder: &Recorder, index: usize) -> i64 {
    let header = recorder.header();
    let own = header.slots[index].pid.load(Relaxed);
    let printer = header.console_lock.load(Relaxed);
    let goes_on = |at: &usize| {
        let slot = &header.slots[*at];
        let is_printer = slot.stream.load(Relaxed).wrapping_add(1) == printer;
        *at != index
            && slot.state.load(Acquire) == shared::SLOT_LIVE
            && (is_printer || slot.pid.load(Relaxed) == own)
            && matches!(process::state(slot.tid.load(Relaxed) as i32), Some('R' | 'D'))
    };
    (0..recorder.slot_count()).filter(goes_on).count() as i64
}

/// The most bytes of text written for one request.
const MOST_TEXT_BYTES: u64 = 4096;

/// Writes text for a process that may not write it itself.
fn write_text(slot: &shared::Slot) -> io::Result<()> {
    let argument = |at: usize| slot.request.arguments[at].load(Relaxed);
    let pid = slot.pid.load(Relaxed) as i32;
    let bytes = memory::read_vec(pid, argument(1), argument(2).min(MOST_TEXT_BYTES) as usize)?;
    memory::write_protected(pid, argument(0), &bytes)
}

fn store_file(recorder: &Recorder, pid: i32, descriptor: i32) -> io::Result<usize> {
    let file = memory::descriptor_of(pid, descriptor)?;
    recorder.space.wait(|| recorder.files.index_of(&recorder.session, &file, Placement::After))
}

pub(crate) fn reply(slot: &shared::Slot, value: i64) {
    slot.request.values[0].store(value, Relaxed);
    slot.request.kind.store(0, Relaxed);
    slot.request.reply.store(1, Release);
    let _ = slot.request.reply.compare_exchange(1, 1, AcqRel, Acquire);
    futex::wake(&slot.request.reply, 1);
}
