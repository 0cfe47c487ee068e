//! Stops threads that keep running user code while signals are pending for them, or while other
//! threads wait for the baton. `docs/FORCED.md` explains the design.
//!
//! One thread watches the slots that asked for this. It sends a signal that the runtime keeps
//! unblocked. The runtime traces a few instructions and asks the supervisor about them (`answer`).
//! Then it stops the thread at a point that replay can find again.

use crate::random::Random;
use crate::shared_state::Recorder;
use crate::{forcing, slices};
use retake_contract::context::{FORCE_GOOD, FORCE_WRITTEN, force_answer};
use retake_contract::put_words;
use retake_kernel::{futex, maps, memory, shared};
use retake_patch::traced::{self, Step};
use retake_patch::watch::Text;
use retake_supervisor::worker::{Stop, Worker};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How long a signal waits for the thread to reach a sync point by itself.
const PATIENCE: Duration = Duration::from_millis(2);
/// The same under the sync policy, where replay does not find the point again. There, forcing is
/// the last resort.
const PATIENCE_IN_PARALLEL: Duration = Duration::from_millis(100);
/// The time between two looks while a thread waits, and between two attempts.
const PERIOD: Duration = Duration::from_millis(1);
/// The time between two looks without a bell, for signals deferred inside the runtime just before
/// the thread left it.
const IDLE_PERIOD: Duration = Duration::from_millis(25);

/// The most traced instructions that are examined.
const MOST_STEPS: u64 = 4096;

pub(crate) struct Forcer(Worker);

impl Forcer {
    pub fn start(recorder: &Arc<Recorder>) -> Self {
        let (for_thread, for_bell) = (Arc::clone(recorder), Arc::clone(recorder));
        let bell = move || {
            let header = for_bell.header();
            header.force_doorbell.fetch_add(1, AcqRel);
            futex::wake(&header.force_doorbell, 1);
        };
        Self(Worker::start(bell, move |stop| run(&for_thread, stop)))
    }

    /// Tells the thread to end.
    pub fn stop(&self) {
        self.0.tell();
    }

    /// Waits until the thread has ended.
    pub fn join(self) {
        let _ = self.0.end();
    }
}

/// Slots seen waiting, each with the sequence number of its request and the time since when.
type Waiting = HashMap<usize, (u32, Instant)>;

fn run(recorder: &Recorder, stop: &Stop) {
    let header = recorder.header();
    let mut waiting = Waiting::new();
    let mut chaos = match header.chaos.seed.load(Relaxed) {
        0 => None,
        seed => Some(Random::new(seed)),
    };
    while !stop.is_told() {
        let seen = header.force_doorbell.load(Acquire);
        let patience = match &mut chaos {
            Some(random) => PATIENCE * random.below(4) as u32 / 2,
            None if recorder.is_parallel() => PATIENCE_IN_PARALLEL,
            None => PATIENCE,
        };
        look(recorder, &mut waiting, patience);
        if waiting.is_empty() {
            futex::wait(&header.force_doorbell, seen, Some(IDLE_PERIOD));
        } else {
            std::thread::sleep(PERIOD);
        }
    }
}

fn look(recorder: &Recorder, waiting: &mut Waiting, patience: Duration) {
    let header = recorder.header();
    for (index, slot) in header.used_slots().iter().enumerate() {
        let wanted = slot.state.load(Acquire) == shared::SLOT_LIVE
            && slot.forcing.state.load(Acquire) == shared::FORCE_WANTED;
        if !wanted {
            waiting.remove(&index);
            continue;
        }
        let sequence = slot.forcing.sequence.load(Relaxed);
        let (known, since) = *waiting.entry(index).or_insert((sequence, Instant::now()));
        if known != sequence && !recorder.is_parallel() {
            waiting.insert(index, (sequence, Instant::now()));
        } else if since.elapsed() >= patience {
            forcing::send(recorder, slot);
        }
    }
}

/// Answers REQUEST_FORCE: 0, or -1 if the process cannot be examined.
pub(crate) fn answer(slot: &shared::Slot) -> i64 {
    let argument = |at: usize| slot.request.arguments[at].load(Relaxed);
    let pid = slot.pid.load(Relaxed) as i32;
    let only_if_spinning = argument(4) != 0;
    let examined = examine(pid, argument(0), argument(1), argument(3), only_if_spinning);
    match examined
        .and_then(|(bytes, spins)| memory::write(pid, argument(2), &bytes).map(|()| spins))
    {
        Ok(spins) => {
            if spins || !only_if_spinning {
                slices::stopped(slot, spins);
            }
            0
        }
        // The runtime then stops the thread where it is: slower to find again, but just as correct.
        Err(_) => -1,
    }
}

/// Returns the bytes of a `struct force_answer`, and whether the thread only waits for another one.
fn examine(
    pid: i32,
    trace: u64,
    steps: u64,
    thread_base: u64,
    only_if_spinning: bool,
) -> io::Result<(Vec<u8>, bool)> {
    let count = steps.min(MOST_STEPS) as usize;
    let bytes = memory::read_vec(pid, trace, count * Step::BYTES)?;
    let steps: Vec<Step> = bytes.as_chunks().0.iter().map(Step::from_bytes).collect();
    let mut text =
        Text::new(|address: u64, page: &mut [u8; 4096]| memory::read(pid, address, page).is_ok());
    let spins = traced::is_spinning(&mut text, &steps, thread_base, |addresses| {
        is_writable(pid, addresses)
    });
    let (mut good, mut written) = (Vec::new(), Vec::new());
    if spins || !only_if_spinning {
        good = traced::good_places(&mut text, &steps, FORCE_GOOD);
        good = traced::cheapest_places(&mut text, &steps, good);
        written = traced::written_words(&mut text, &steps, thread_base, FORCE_WRITTEN);
    }
    let mut bytes = vec![0; force_answer::LAYOUT_BYTES as usize];
    put_words(&mut bytes, force_answer::GOOD_COUNT, &[good.len() as u64]);
    put_words(&mut bytes, force_answer::WRITTEN_COUNT, &[written.len() as u64]);
    put_words(&mut bytes, force_answer::GOOD, &good);
    put_words(&mut bytes, force_answer::WRITTEN, &written);
    Ok((bytes, spins))
}

fn is_writable(pid: i32, addresses: &[u64]) -> bool {
    let all = maps::of_process(pid).unwrap_or_default();
    all.iter().any(|mapping| {
        mapping.protection() & libc::PROT_WRITE as u32 != 0
            && addresses.iter().any(|address| (mapping.start..mapping.end).contains(address))
    })
}
