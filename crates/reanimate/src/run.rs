//! The replay itself: one thread reads, one plans, and one for each traced thread executes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use retake_trace_format::TraceRecord;

use crate::action::{Action, Task};
use crate::error::Error;
use crate::execute::{Executor, Verdict};
use crate::options::{Options, Speed};
use crate::pace::Pulse;
use crate::plan::Planner;
use crate::progress::Progress;
use crate::report::{Report, Stopwatch, Tally};
use crate::root::Root;
use crate::sequence::Sequencer;

/// Records that are read together.
const READ_RECORDS: usize = 512;
const READ_BYTES: usize = 4 << 20;
/// Portions of such records that wait to be planned.
const READ_PORTIONS: usize = 2;

/// Calls that are handed over together.
const HANDED_OVER: usize = 64;

/// Memory of planned calls, in bytes, at which planning waits.
const PLANNED_BYTES: u64 = 64 << 20;
/// The limit when no call is done unless planning goes on.
const MAXIMUM_PLANNED_BYTES: u64 = 1 << 30;

/// Stack of a worker, which keeps no data there.
const STACK_BYTES: usize = 512 << 10;

/// The state of a replay as seen from outside.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Calls executed so far.
    pub done: u64,
}

/// What all threads share.
struct Shared<'run> {
    options: &'run Options,
    root: &'run Root,
    pulse: Pulse,
    progress: Vec<Progress>,
    budget: Budget,
    began: Instant,
}

/// The memory that planned calls take.
#[derive(Debug, Default)]
struct Budget {
    bytes: AtomicU64,
    lock: Mutex<()>,
    freed: Condvar,
}

impl Budget {
    fn take(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        if before > PLANNED_BYTES && before - bytes <= PLANNED_BYTES {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.freed.notify_all();
        }
    }

    /// Waits for room. Returns early if no call is done for a while, because a worker may be
    /// waiting for a call that is not planned yet.
    fn wait(&self, pulse: &Pulse) {
        const NAP: Duration = Duration::from_millis(50);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = pulse.done();
        while self.bytes.load(Ordering::SeqCst) > PLANNED_BYTES && !pulse.is_stopped() {
            guard = self.freed.wait_timeout(guard, NAP).unwrap_or_else(PoisonError::into_inner).0;
            let now = pulse.done();
            if now == done && self.bytes.load(Ordering::SeqCst) < MAXIMUM_PLANNED_BYTES {
                return;
            }
            done = now;
        }
    }
}

/// Replays records with a planner that knows the tree. Adds the results to the report.
///
/// # Errors If the trace cannot be read to its end, or threads cannot be made. The report then has
/// what was executed until that point.
pub fn run<Records, E>(
    options: &Options,
    root: &Root,
    planner: Planner,
    records: Records,
    report: &mut Report,
    observe: &mut dyn FnMut(Seen),
) -> Result<(), Error>
where
    Records: Iterator<Item = Result<TraceRecord, E>> + Send,
    E: std::fmt::Display,
{
    let progress = (0..options.threads.get()).map(|_| Progress::default()).collect();
    let (began, stopwatch) = (Instant::now(), Stopwatch::start());
    let shared = Shared {
        options,
        root,
        pulse: Pulse::default(),
        progress,
        budget: Budget::default(),
        began,
    };
    let (sender, receiver) = crossbeam_channel::bounded(READ_PORTIONS);
    let result = std::thread::scope(|scope| {
        let pulse = &shared.pulse;
        // The planner sees the end when the reader drops its side.
        scope.spawn(move || read(records, &sender, pulse));
        let workers = Workers { scope, shared: &shared, workers: Vec::new(), first_entry_ns: None };
        plan(planner, workers, receiver, report, observe)
    });
    (report.replay_seconds, report.replay_user_seconds) = stopwatch.seconds();
    report.mismatches.sort_by_key(|mismatch| mismatch.id);
    report.mismatches.truncate(options.maximum_mismatches);
    report.stopped = shared.pulse.is_stopped();
    result
}

type Portion = Result<Vec<TraceRecord>, String>;

/// Reads records in portions until the end, an error, or the end of the planner.
fn read<E: std::fmt::Display>(
    records: impl Iterator<Item = Result<TraceRecord, E>>,
    sender: &Sender<Portion>,
    pulse: &Pulse,
) {
    let mut portion = Vec::new();
    let mut bytes = 0;
    for record in Sequencer::new(records) {
        match record {
            Ok(record) => {
                bytes += record.data_bytes();
                portion.push(record);
            }
            Err(error) => {
                let _ = sender.send(Ok(std::mem::take(&mut portion)));
                let _ = sender.send(Err(error.to_string()));
                return;
            }
        }
        if portion.len() >= READ_RECORDS || bytes >= READ_BYTES {
            bytes = 0;
            if pulse.is_stopped() || sender.send(Ok(std::mem::take(&mut portion))).is_err() {
                return;
            }
        }
    }
    let _ = sender.send(Ok(portion));
}

/// Plans what is read and hands it over.
fn plan<'scope, 'run>(
    mut planner: Planner,
    mut workers: Workers<'scope, 'run>,
    receiver: Receiver<Portion>,
    report: &mut Report,
    observe: &mut dyn FnMut(Seen),
) -> Result<(), Error> {
    let shared = workers.shared;
    let mut result = Ok(());
    let mut tasks = Vec::new();
    'reading: for portion in receiver.iter() {
        let portion = match portion {
            Ok(portion) => portion,
            Err(error) => {
                result = Err(Error::Trace(error));
                break;
            }
        };
        for record in portion {
            if let TraceRecord::Incomplete(reason) = &record {
                report.incomplete.push(reason.clone());
            }
            planner.plan(record, &mut tasks);
            for (worker, task) in tasks.drain(..) {
                if let Err(error) = workers.add(worker, task) {
                    result = Err(Error::Thread(error));
                    shared.pulse.stop();
                    break 'reading;
                }
            }
        }
        if receiver.is_empty() {
            workers.hand_over();
        }
        if shared.budget.bytes.load(Ordering::Relaxed) > PLANNED_BYTES {
            workers.hand_over();
            shared.budget.wait(&shared.pulse);
        }
        if shared.pulse.is_stopped() {
            break;
        }
        observe(Seen { done: shared.pulse.done() });
    }
    planner.finish(&mut tasks);
    for (worker, task) in tasks.drain(..) {
        if let Err(error) = workers.add(worker, task) {
            result = Err(Error::Thread(error));
            shared.pulse.stop();
            break;
        }
    }
    // The reader may be waiting for room in the channel.
    drop(receiver);
    report.threads = workers.workers.iter().flatten().count() as u32;
    workers.hand_over();
    for tally in workers.finish() {
        tally.add_to(report);
    }
    report.calls = planner.call_count;
    for (own, whole) in
        [(&planner.simulated, &mut report.simulated), (&planner.skipped, &mut report.skipped)]
    {
        own.iter().for_each(|(reason, count)| *whole.entry(reason).or_default() += count);
    }
    result
}

/// The worker threads, and the calls that are about to be handed over to them.
struct Workers<'scope, 'run> {
    scope: &'scope Scope<'scope, 'run>,
    shared: &'scope Shared<'run>,
    workers: Vec<Option<Worker<'scope>>>,
    /// When the traced program made its first call.
    first_entry_ns: Option<u64>,
}

struct Worker<'scope> {
    sender: Sender<Vec<(Task, Option<Instant>)>>,
    thread: ScopedJoinHandle<'scope, Tally>,
    waiting: Vec<(Task, Option<Instant>)>,
}

impl<'scope> Workers<'scope, '_> {
    fn add(&mut self, index: u32, task: Task) -> std::io::Result<()> {
        let due = self.due(task.call.entered_ns);
        self.shared.budget.take(cost(&task));
        let worker = self.worker(index as usize)?;
        if worker.waiting.capacity() == 0 {
            worker.waiting.reserve_exact(HANDED_OVER);
        }
        worker.waiting.push((task, due));
        if worker.waiting.len() >= HANDED_OVER {
            self.hand_over();
        }
        Ok(())
    }

    fn due(&mut self, entered_ns: u64) -> Option<Instant> {
        let Speed::Traced(factor) = self.shared.options.speed else {
            return None;
        };
        let first = *self.first_entry_ns.get_or_insert(entered_ns);
        let since = Duration::from_nanos(entered_ns.saturating_sub(first)).as_secs_f64() / factor;
        Duration::try_from_secs_f64(since)
            .ok()
            .and_then(|since| self.shared.began.checked_add(since))
    }

    fn worker(&mut self, index: usize) -> std::io::Result<&mut Worker<'scope>> {
        if self.workers.len() <= index {
            self.workers.resize_with(index + 1, || None);
        }
        if self.workers[index].is_none() {
            let (sender, receiver) = crossbeam_channel::unbounded();
            let shared = self.shared;
            let builder =
                std::thread::Builder::new().name(format!("replay-{index}")).stack_size(STACK_BYTES);
            let thread =
                builder.spawn_scoped(self.scope, move || execute(shared, index, &receiver))?;
            self.workers[index] = Some(Worker { sender, thread, waiting: Vec::new() });
        }
        Ok(self.workers[index].as_mut().expect("it was made"))
    }

    /// Hands the planned calls over to all workers.
    fn hand_over(&mut self) {
        for worker in self.workers.iter_mut().flatten().filter(|worker| !worker.waiting.is_empty())
        {
            // A worker ends only after this sender is dropped, so that sending succeeds.
            let _ = worker.sender.send(std::mem::take(&mut worker.waiting));
        }
    }

    /// Waits for all workers.
    fn finish(self) -> Vec<Tally> {
        let threads: Vec<_> =
            self.workers.into_iter().flatten().map(|worker| worker.thread).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

/// The memory that a task takes, in bytes.
fn cost(task: &Task) -> u64 {
    let data: usize =
        task.call.buffers.iter().map(|buffer| buffer.data.len() + size_of_val(buffer)).sum();
    (data + size_of_val(task)) as u64
}

/// Executes a worker's calls until no more come.
fn execute(
    shared: &Shared<'_>,
    index: usize,
    receiver: &Receiver<Vec<(Task, Option<Instant>)>>,
) -> Tally {
    let mut tally = Tally::default();
    let own = crate::thread_state::own_umask();
    let mut executor = Executor::new(
        shared.root,
        shared.options.verify,
        shared.options.allocation_limit,
        &shared.pulse,
    );
    let mut sequence = 0;
    for tasks in receiver.iter() {
        let mut freed = 0;
        for (task, due) in tasks {
            sequence += 1;
            freed += cost(&task);
            task.dependencies
                .iter()
                .for_each(|ticket| shared.progress[ticket.worker as usize].wait(ticket.sequence));
            if !shared.pulse.is_stopped() {
                if let Some(due) = due {
                    shared.pulse.sleep_until(due);
                }
                match &own {
                    Ok(()) => one(shared, &mut executor, &task, &mut tally),
                    Err(error) => refuse(shared, &task, &mut tally, error),
                }
            }
            // Dropping the task closes files that only this call still used, before other calls go
            // on.
            drop(task);
            shared.progress[index].advance(sequence);
            shared.pulse.beat();
        }
        shared.budget.give_back(freed);
    }
    tally
}

fn one(shared: &Shared<'_>, executor: &mut Executor<'_>, task: &Task, tally: &mut Tally) {
    // Such a task is no call of the trace, or the planner has counted its call already.
    let is_uncounted = matches!(task.action, Action::Order | Action::OpenAtStart { .. });
    match executor.run(task) {
        Verdict::Same if is_uncounted => {}
        Verdict::Same => tally.verified(&task.call),
        Verdict::Skipped(reason) => tally.skipped(reason),
        Verdict::Different(differences) => {
            tally.mismatched(&task.call, &differences, shared.options.maximum_mismatches);
            if !shared.options.keeps_going {
                shared.pulse.stop();
            }
        }
    }
}

/// Refuses a call because the worker has no umask of its own, and would make files with wrong
/// modes.
fn refuse(shared: &Shared<'_>, task: &Task, tally: &mut Tally, error: &rustix::io::Errno) {
    let text = format!("the thread cannot have a file mode mask of its own: {error}");
    tally.mismatched(
        &task.call,
        &[(String::from("a thread to execute it"), text)],
        shared.options.maximum_mismatches,
    );
    shared.pulse.stop();
}
