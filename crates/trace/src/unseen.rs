//! What a recording has nothing of, because replay does without: then a trace of it is incomplete, and has to say so.

use crate::observation::Observation;
use retake_trace_format::{TraceRecord, TracedCall, moved_argument};

const MMAP: u32 = 9;
const PROT_WRITE: u64 = 2;
const MAP_SHARED: u64 = 1;
const MAP_ANONYMOUS: u64 = 0x20;

/// Counts it.
#[derive(Debug, Default)]
pub struct Unseen {
    mapped: u64,
    moved: u64,
}

impl Unseen {
    /// Looks at what is about to be handed on.
    pub fn note(&mut self, observation: &Observation) {
        let Observation::Record(TraceRecord::Call(call)) = observation else { return };
        self.mapped += u64::from(maps_to_write(call));
        self.moved += u64::from(moves_unseen(call));
    }

    /// What is missing; nothing if all is there.
    pub fn reason(&self) -> Option<String> {
        let mapped = format!("files were mapped to be written {} times, and a recording does not tell what is stored that way", self.mapped);
        let moved = format!("{} calls moved data inside the kernel, which a recording does not have", self.moved);
        let reasons: Vec<String> = [(self.mapped, mapped), (self.moved, moved)].into_iter().filter(|it| it.0 > 0).map(|it| it.1).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

fn maps_to_write(call: &TracedCall) -> bool {
    let (protection, flags) = (call.arguments[2], call.arguments[3]);
    call.number == MMAP && !call.failed() && protection & PROT_WRITE != 0 && flags & MAP_SHARED != 0 && flags & MAP_ANONYMOUS == 0
}

fn moves_unseen(call: &TracedCall) -> bool {
    const IOCTL: u32 = 16;
    let moves = moved_argument(call.number, call.arguments[1]).is_some() && (call.result > 0 || call.number == IOCTL && call.result == 0);
    moves && call.moved().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_for(number: u32, arguments: [u64; 6], result: i64) -> Option<String> {
        let mut unseen = Unseen::default();
        unseen.note(&Observation::Record(TraceRecord::Call(TracedCall { number, arguments, result, ..TracedCall::default() })));
        unseen.reason()
    }

    #[test]
    fn only_what_is_missing_is_told() {
        assert!(reason_for(MMAP, [0, 4096, 3, 1, 3, 0], 0x7000).unwrap().contains("mapped to be written 1 times"));
        assert_eq!(reason_for(MMAP, [0, 4096, 1, 1, 3, 0], 0x7000), None, "only read");
        assert_eq!(reason_for(MMAP, [0, 4096, 3, 0x21, u64::MAX, 0], 0x7000), None, "memory of nobody's file");
        assert_eq!(reason_for(MMAP, [0, 4096, 3, 1, 3, 0], -13), None, "refused");
        assert!(reason_for(40, [1, 3, 0, 100, 0, 0], 50).unwrap().contains("1 calls moved"));
        assert_eq!(reason_for(40, [1, 3, 0, 100, 0, 0], 0), None, "nothing came");
    }
}
