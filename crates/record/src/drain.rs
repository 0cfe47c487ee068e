//! The drain: one thread that moves rings to disk, lazily and in large pieces, and keeps slots
//! ready.

use crate::complete_until::CompleteUntil;
use crate::homes::{self, Homes};
use crate::shared_state::Recorder;
use crate::slices::{self, Slices};
use crate::unborn::Unborn;
use retake_kernel::{futex, process, shared};
use retake_model::event::NO_PARENT;
use retake_supervisor::worker::{Stop, Worker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// How often the drain looks at the rings without its bell.
const PERIOD: Duration = Duration::from_millis(25);
/// How often it looks while threads wait for a baton, or for the end of their process.
const BUSY_PERIOD: Duration = Duration::from_millis(3);
/// How often it checks whether threads are still alive.
const LIVENESS_PERIOD: Duration = Duration::from_millis(300);
/// How often it reads the clocks. The first reading comes sooner: if the recorder is killed,
/// nothing else may tell how fast the time-stamp counter runs.
const CLOCK_PERIOD: Duration = Duration::from_secs(10);
const FIRST_CLOCK_PERIOD: Duration = Duration::from_millis(200);
/// The drain keeps at least this many slots ready.
const READY_SLOTS: usize = 8;

pub(crate) struct Drain(Worker<retake_recording::Result<()>>);

impl Drain {
    pub fn start(recorder: &Arc<Recorder>) -> Self {
        let (for_thread, for_bell) = (Arc::clone(recorder), Arc::clone(recorder));
        let work = move |stop: &Stop| {
            process::let_waking_threads_go_first();
            let result = run(&for_thread, stop);
            if result.is_err() {
                // Without a drain, programs would wait forever for room in their rings.
                crate::deadline::end_everything(for_thread.header());
            }
            result
        };
        Self(Worker::start(move || for_bell.ring_drain_bell(), work))
    }

    /// Drains what is left and ends the thread.
    pub fn stop(self) -> retake_recording::Result<()> {
        self.0.end().expect("the drain does not panic")
    }
}

fn run(recorder: &Recorder, stop: &Stop) -> retake_recording::Result<()> {
    let header = recorder.header();
    let mut checked = Instant::now();
    let mut unborn = Unborn::default();
    let mut contended = false;
    let mut is_short = false;
    let mut was_ended = false;
    let mut slices = Slices::default();
    let mut homes = Homes::new(recorder);
    let mut slice_end = BUSY_PERIOD;
    let mut next_clock = Instant::now() + FIRST_CLOCK_PERIOD;
    let mut complete = CompleteUntil::new();
    loop {
        let seen = header.drain_doorbell.load(Acquire);
        let last = stop.is_told();
        let room = make_room(recorder);
        let note = complete.next(recorder);
        match drain_all(recorder, last || note.is_some())? {
            Drained::Everything => complete.write(recorder, note),
            Drained::WhatFits if was_ended => {}
            Drained::WhatFits => {
                was_ended = true;
                crate::deadline::end_everything(header);
            }
        }
        if let Some(budget) = &recorder.budget {
            budget.enforce(recorder.log.kept_bytes(), header);
        }
        if header.mode.load(Relaxed) == shared::MODE_RECORD && Instant::now() >= next_clock {
            // If this fails, draining rings fails too, and reports it.
            let _ = recorder.accounts.note_time();
            next_clock = Instant::now() + CLOCK_PERIOD;
        }
        if let Err(error) = room {
            refuse_threads(recorder, &error, &mut is_short);
        }
        let waiting = somebody_waits(recorder);
        if waiting {
            header.yield_tick.fetch_add(u32::from(contended), AcqRel);
            slice_end = slices.end(recorder);
        }
        contended = waiting;
        homes.look(recorder);
        if header.dying.load(Acquire) != 0 {
            end_dying(recorder);
        }
        if last {
            return Ok(());
        }
        if checked.elapsed() > LIVENESS_PERIOD {
            find_dead(recorder);
            unborn.find(recorder);
            checked = Instant::now();
        }
        let busy = contended || header.dying.load(Acquire) != 0;
        let period = if homes.are_watched() { homes::PERIOD } else { PERIOD };
        futex::wait(
            &header.drain_doorbell,
            seen,
            Some(if busy { BUSY_PERIOD.min(slice_end) } else { period }),
        );
    }
}

/// Makes sure that new threads find a slot.
fn make_room(recorder: &Recorder) -> io::Result<()> {
    if recorder.header().ready_low.load(Acquire) == shared::READY_ENOUGH
        && ready_slots(recorder) >= READY_SLOTS
    {
        return Ok(());
    }
    recorder.add_pool()
}

/// Tells threads that wait for a slot that there is none, unless a slot has become free meanwhile.
fn refuse_threads(recorder: &Recorder, error: &io::Error, was_said: &mut bool) {
    let header = recorder.header();
    let (wanted, none) = (shared::READY_WANTED, shared::READY_NONE);
    if ready_slots(recorder) > 0
        || header.ready_low.compare_exchange(wanted, none, AcqRel, Acquire).is_err()
    {
        return;
    }
    header.ready_futex.fetch_add(1, AcqRel);
    futex::wake(&header.ready_futex, i32::MAX);
    if !std::mem::replace(was_said, true) {
        retake_kernel::tell!(
            "retake: cannot make room for more threads: {error}; until others end, new ones fail \
            with EAGAIN"
        );
    }
}

fn ready_slots(recorder: &Recorder) -> usize {
    let header = recorder.header();
    header.slots[..recorder.slot_count()]
        .iter()
        .filter(|slot| slot.state.load(Relaxed) == shared::SLOT_READY)
        .count()
}

/// The result of draining all rings.
#[derive(PartialEq, Eq)]
enum Drained {
    Everything,
    /// The disk is full, and recording no longer waits for space.
    WhatFits,
}

fn drain_all(recorder: &Recorder, last: bool) -> retake_recording::Result<Drained> {
    let header = recorder.header();
    // A trace merges what all rings hold at one time.
    let everything = last || header.mode.load(Relaxed) == shared::MODE_TRACE;
    let mut drained = Drained::Everything;
    for index in 0..recorder.slot_count() {
        let state = header.slots[index].state.load(Acquire);
        if !matches!(
            state,
            shared::SLOT_CLAIMED | shared::SLOT_LIVE | shared::SLOT_EXITED | shared::SLOT_DYING
        ) {
            continue;
        }
        let result = if everything || state != shared::SLOT_LIVE {
            recorder.drain_slot(index)
        } else {
            recorder.drain_lazily(index)
        };
        match result {
            // The contents of other rings may be small enough to fit.
            Err(error) if error.is_no_space() && recorder.space.has_given_up() => {
                drained = Drained::WhatFits;
                continue;
            }
            result => result?,
        };
        if state == shared::SLOT_EXITED {
            recorder.recycle(index);
        }
    }
    recorder.log.drained();
    Ok(drained)
}

fn somebody_waits(recorder: &Recorder) -> bool {
    let header = recorder.header();
    header.slots[..recorder.slot_count()]
        .iter()
        .any(|slot| slot.state.load(Relaxed) == shared::SLOT_LIVE && slices::waits(slot))
}

/// Ends the streams of threads whose process ended, once each thread is gone.
fn end_dying(recorder: &Recorder) {
    let header = recorder.header();
    header.dying.store(0, Release);
    for index in 0..recorder.slot_count() {
        let slot = &header.slots[index];
        if slot.state.load(Acquire) != shared::SLOT_DYING {
            continue;
        }
        if !is_over(slot) {
            header.dying.store(1, Release);
        } else if slot.state.load(Acquire) == shared::SLOT_DYING {
            recorder.note_death(index, 0);
        }
    }
}

/// Finds threads that were killed and could not log their end.
fn find_dead(recorder: &Recorder) {
    let header = recorder.header();
    for index in 0..recorder.slot_count() {
        let slot = &header.slots[index];
        if slot.state.load(Acquire) != shared::SLOT_LIVE
            || slot.stream.load(Relaxed) == 0 && slot.parent_stream.load(Relaxed) == NO_PARENT
        {
            // The main thread waits for the first process. Others may have begun without a parent,
            // too: they ran before they were recorded.
            continue;
        }
        if is_over(slot) && slot.state.load(Acquire) == shared::SLOT_LIVE {
            recorder.note_death(index, libc::SIGKILL);
        }
    }
}

/// Whether the thread of a slot has ended. A thread that calls exec takes over the ID of its
/// process at some moment, and its own ID vanishes. So it has ended only if both are gone, checked
/// in this order.
fn is_over(slot: &shared::Slot) -> bool {
    let (pid, tid) = (slot.pid.load(Relaxed), slot.tid.load(Relaxed));
    let is_gone = process::is_thread_gone(pid as i32, tid as i32)
        && (slot.exec_pending.load(Acquire) == 0 || process::is_gone(pid as i32));
    // The new program may have started meanwhile.
    is_gone && slot.tid.load(Acquire) == tid
}
