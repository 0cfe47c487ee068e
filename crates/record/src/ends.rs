//! How streams end that their threads do not end themselves.

use crate::exec_event::{end_event, turn_event, unfinished_call};
use crate::shared_state::{Recorder, lock};
use retake_kernel::shared;
use retake_model::event::NO_PARENT;
use retake_recording::StreamId;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

impl Recorder {
    /// Logs the end of the first process, if its own stream does not.
    pub fn note_root_ended(&self, status: i32) {
        let header = self.header();
        for (index, slot) in header.slots[..self.slot_count()].iter().enumerate() {
            if slot.stream.load(Relaxed) == 0
                && slot.state.load(Acquire) == shared::SLOT_LIVE
                && slot.parent_stream.load(Relaxed) == NO_PARENT
            {
                self.note_death(index, status);
            }
        }
    }

    /// Ends the stream of a thread that is gone and did not log its exit.
    pub fn note_death(&self, index: usize, status: i32) {
        let slot = &self.header().slots[index];
        let mut events = self.unlogged_turn(index).map(turn_event).unwrap_or_default();
        let in_turn = self.died_in_turn(index, !events.is_empty());
        self.release_baton(index);
        let (pid, tid) = (slot.pid.load(Relaxed) as i32, slot.tid.load(Relaxed) as i32);
        if pid == tid {
            // The drain reports errors, as below.
            let _ = self.log.at_death(pid, &mut |events| Ok(self.append_own(index, events)?));
        }
        events.extend(unfinished_call(slot));
        events.extend(end_event(
            status,
            in_turn,
            self.is_parallel().then(|| {
                [slot.baton.turn_sections.load(Relaxed), slot.baton.operations.load(Relaxed)]
            }),
        ));
        let _ = self.append_own(index, &events); // on failure, the drain reports it
        let _ =
            slot.state.compare_exchange(shared::SLOT_LIVE, shared::SLOT_EXITED, AcqRel, Acquire);
        let _ =
            slot.state.compare_exchange(shared::SLOT_CLAIMED, shared::SLOT_EXITED, AcqRel, Acquire);
        let _ =
            slot.state.compare_exchange(shared::SLOT_DYING, shared::SLOT_EXITED, AcqRel, Acquire);
        // The caller may be the drain itself, past this slot in its round.
        self.ring_drain_bell();
    }

    /// Ends the streams of all other threads of a process, which its exec ended.
    pub fn siblings_died(&self, survivor: usize, pid: i32) {
        let header = self.header();
        for (index, slot) in header.slots[..self.slot_count()].iter().enumerate() {
            if index != survivor
                && slot.pid.load(Relaxed) as i32 == pid
                && slot.state.load(Acquire) == shared::SLOT_LIVE
            {
                self.note_death(index, 0);
            }
        }
    }

    /// Ends the stream of a stopped thread that goes on unrecorded. Returns false if the thread is
    /// about to log an event.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn cut(&self, index: usize) -> retake_recording::Result<bool> {
        self.drain_slot(index)?;
        let (is_within_event, counts) = self.drained(index);
        if is_within_event {
            return Ok(false);
        }
        let mut events = self.unlogged_turn(index).map(turn_event).unwrap_or_default();
        let in_turn = self.died_in_turn(index, !events.is_empty());
        events.extend(end_event(libc::SIGKILL, in_turn, None));
        self.append_own(index, &events)?;
        let slot = &self.header().slots[index];
        let account = self.accounts.of(slot, counts);
        self.accounts.close(StreamId(slot.stream.load(Relaxed)), &account)?;
        Ok(true)
    }

    /// From here on, nothing that threads log becomes a part of the recording.
    pub fn end_recording(&self) {
        self.is_over.store(true, Release);
    }

    /// From here on, threads of a process are not stopped any more.
    pub fn let_go(&self, pid: i32) {
        lock(&self.let_go).insert(pid);
    }

    /// Whether a process is about to go on unrecorded, or does so.
    pub fn lets_go(&self, pid: i32) -> bool {
        self.is_over() && lock(&self.let_go).contains(&pid)
    }

    /// Whether the recording has ended, although threads may go on.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Acquire)
    }

    /// Returns the turn that a killed thread took but did not log. Replay would wait for it
    /// forever.
    fn unlogged_turn(&self, index: usize) -> Option<u64> {
        let (slot, domain) = (&self.header().slots[index], &self.header().shared_domain);
        let turn = slot.baton.turn.load(Relaxed);
        let holds = domain.lock.load(Acquire) == slot.stream.load(Relaxed) + 1;
        (holds && domain.turn.load(Relaxed) == turn && slot.baton.turn_logged.load(Relaxed) != turn)
            .then_some(turn)
    }

    /// Whether a thread that is gone held the baton in a turn that it had logged.
    fn died_in_turn(&self, index: usize, is_logged_now: bool) -> bool {
        let baton = &self.header().slots[index].baton;
        !self.is_parallel()
            && baton.state.load(Acquire) == shared::BATON_HOLDING
            && !is_logged_now
            && baton.turn_logged.load(Relaxed) == baton.turn.load(Relaxed)
    }
}
