//! Counts data that a recording lacks because replay does not need them. A trace of it is
//! incomplete then, and has to say so.

use crate::observation::Observation;
use retake_model::table::number;
use retake_trace_format::{TraceRecord, TracedCall, moved_argument};

/// Counts calls whose data are missing.
#[derive(Debug, Default)]
pub struct Unseen {
    moved: u64,
}

impl Unseen {
    /// Counts an observation.
    pub fn note(&mut self, observation: &Observation) {
        let Observation::Record(TraceRecord::Call(call)) = observation else { return };
        self.moved += u64::from(moves_unseen(call));
    }

    /// Returns what is missing. `None` if the trace is complete.
    pub fn reason(&self) -> Option<String> {
        let count = self.moved;
        (count > 0).then(|| {
            format!(
                "{count} calls moved data inside the kernel; the recording does not have these \
                data (retake record --moved-data keeps them)"
            )
        })
    }
}

fn moves_unseen(call: &TracedCall) -> bool {
    const IOCTL: u32 = number::IOCTL as u32;
    let moves = moved_argument(call.number, call.arguments[1]).is_some()
        && (call.result > 0 || call.number == IOCTL && call.result == 0);
    moves && call.moved().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_for(number: u32, arguments: [u64; 6], result: i64) -> Option<String> {
        let mut unseen = Unseen::default();
        unseen.note(&Observation::Record(TraceRecord::Call(TracedCall {
            number,
            arguments,
            result,
            ..TracedCall::default()
        })));
        unseen.reason()
    }

    #[test]
    fn only_what_is_missing_is_told() {
        assert!(reason_for(40, [1, 3, 0, 100, 0, 0], 50).unwrap().contains("1 calls moved"));
        assert_eq!(reason_for(40, [1, 3, 0, 100, 0, 0], 0), None, "nothing came");
        assert_eq!(reason_for(0, [1, 3, 0, 100, 0, 0], 50), None, "read moves nothing");
    }
}
