//! Children that never reached their first event: they were killed between the clone and the moment
//! in which they name themselves.
//!
//! Such a child's slot is claimed, and no thread will ever release it. The drain ends it only when
//! that is certain: the parent has gone on or is gone, and no live process or thread near the
//! recorded ones lacks a slot.

use crate::shared_state::Recorder;
use retake_kernel::{process, shared};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// A claimed slot as an earlier look saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    stream: u32,
    parent_head: Option<u64>,
}

/// The claims remembered from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Unborn {
    claims: HashMap<usize, Claim>,
}

impl Unborn {
    /// Ends the streams of children that will never come. Each claim must have been seen at an
    /// earlier call.
    pub fn find(&mut self, recorder: &Recorder) {
        let mut suspects = Vec::new();
        let mut claims = HashMap::new();
        for index in 0..recorder.slot_count() {
            let slot = &recorder.header().slots[index];
            if slot.state.load(Acquire) != shared::SLOT_CLAIMED {
                continue;
            }
            let now = Claim {
                stream: slot.stream.load(Relaxed),
                parent_head: parent_head(recorder, slot.parent_stream.load(Relaxed)),
            };
            match self.claims.get(&index) {
                Some(before) if before.stream == now.stream => {
                    if now.parent_head.is_none() || now.parent_head != before.parent_head {
                        suspects.push((index, now.stream));
                    }
                    claims.insert(index, *before);
                }
                _ => {
                    claims.insert(index, now);
                }
            }
        }
        self.claims = claims;
        if suspects.is_empty() || somebody_is_unknown(recorder) {
            return;
        }
        for (index, stream) in suspects {
            let slot = &recorder.header().slots[index];
            if slot.state.load(Acquire) == shared::SLOT_CLAIMED
                && slot.stream.load(Relaxed) == stream
            {
                recorder.note_death(index, libc::SIGKILL);
            }
        }
    }
}

/// How many bytes the thread of a stream has written; `None` if it is gone.
fn parent_head(recorder: &Recorder, stream: u32) -> Option<u64> {
    let header = recorder.header();
    let slot = header.slots[..recorder.slot_count()].iter().find(|slot| {
        slot.state.load(Acquire) == shared::SLOT_LIVE && slot.stream.load(Relaxed) == stream
    })?;
    let tid = slot.tid.load(Relaxed) as i32;
    (!process::is_gone(tid)).then(|| slot.producer.head.load(Acquire))
}

/// Whether a live thread may be a recorded one without a slot: a thread of a recorded process, or a
/// child of a recorded process or of the supervisor.
fn somebody_is_unknown(recorder: &Recorder) -> bool {
    let header = recorder.header();
    let own = std::process::id();
    let mut parents = HashSet::from([own]);
    let mut known = HashSet::from([own, header.guardian_pid.load(Relaxed) as u32]);
    for slot in &header.slots[..recorder.slot_count()] {
        if matches!(slot.state.load(Acquire), shared::SLOT_LIVE | shared::SLOT_DYING) {
            parents.insert(slot.pid.load(Relaxed));
            known.insert(slot.tid.load(Relaxed));
        }
    }
    let numbers = |path: &str| -> Vec<u32> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let is_unknown = |number: u32| !known.contains(&number) && !process::is_gone(number as i32);
    numbers("/proc").into_iter().any(|pid| {
        if pid != own && parents.contains(&pid) {
            return numbers(&format!("/proc/{pid}/task")).into_iter().any(is_unknown);
        }
        is_unknown(pid)
            && process::parent(pid as i32).is_some_and(|parent| parents.contains(&(parent as u32)))
    })
}
