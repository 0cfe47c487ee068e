//! Threads are bound to a core while they take turns often (`runtime/source/home.c`). One that takes none any more would stay there, next to whoever
//! else is bound to it, until it took one.

use crate::shared_state::Recorder;
use retake_kernel::call_tracer::Processors;
use retake_kernel::shared;
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// Without a turn for so long, twice that at most, a thread is set free.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) struct Homes {
    looked: Instant,
    /// The last turns of those that were bound then, by the numbers of their slots.
    turns: HashMap<usize, u64>,
}

impl Homes {
    pub fn new() -> Self {
        Self { looked: Instant::now(), turns: HashMap::new() }
    }

    /// Sets free who took no turn. Called as often as may be.
    pub fn free(&mut self, recorder: &Recorder) {
        if self.looked.elapsed() < PATIENCE {
            return;
        }
        self.looked = Instant::now();
        let before = std::mem::take(&mut self.turns);
        for (index, slot) in recorder.header().slots[..recorder.slot_count()].iter().enumerate() {
            if slot.state.load(Acquire) != shared::SLOT_LIVE || slot.lines.home.load(Relaxed) == 0 {
                continue;
            }
            let turn = slot.lines.turn.load(Relaxed);
            if before.get(&index) == Some(&turn) {
                slot.lines.home.store(0, Relaxed);
                let cores = slot.lines.cores.iter().map(|word| word.load(Relaxed));
                // It may be gone, or not ours to bind any more.
                let _ = Processors::from_words(cores).give(slot.tid.load(Relaxed) as i32);
            } else {
                self.turns.insert(index, turn);
            }
        }
    }
}
