//! Readings of the time-stamp counter together with the kernel's clocks. They are events in the
//! supervisor's stream.

use retake_contract::events::{
    EventKind, event::LAYOUT_BYTES as HEADER_BYTES, time_body as layout,
};

use crate::bytes::read_u64;

/// The counter and the clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimePoint {
    /// The ticks of the time-stamp counter.
    pub counter: u64,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Nanoseconds of the monotonic clock.
    pub monotonic_ns: u64,
}

impl TimePoint {
    /// The size of the event.
    pub const BYTES: usize = HEADER_BYTES + layout::LAYOUT_BYTES;

    /// Encodes the reading as an event with these flags.
    pub fn event(&self, flags: u8) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend((Self::BYTES as u32).to_le_bytes());
        bytes.extend([EventKind::Time as u8, flags, 0, 0]);
        bytes.extend(self.counter.to_le_bytes());
        bytes.extend(self.unix_ns.to_le_bytes());
        bytes.extend(self.monotonic_ns.to_le_bytes());
        bytes
    }

    /// Reads a body. The caller has checked that it has [`layout::LAYOUT_BYTES`] bytes.
    pub(crate) fn read(counter: u64, body: &[u8]) -> Self {
        let unix_ns = read_u64(body, layout::UNIX_NS);
        Self { counter, unix_ns, monotonic_ns: read_u64(body, layout::MONOTONIC_NS) }
    }
}

impl From<[u64; 3]> for TimePoint {
    fn from([counter, unix_ns, monotonic_ns]: [u64; 3]) -> Self {
        Self { counter, unix_ns, monotonic_ns }
    }
}

impl From<TimePoint> for [u64; 3] {
    fn from(point: TimePoint) -> Self {
        [point.counter, point.unix_ns, point.monotonic_ns]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_words() {
        let point = TimePoint { counter: 5, unix_ns: 6, monotonic_ns: 7 };
        assert_eq!(TimePoint::from(<[u64; 3]>::from(point)), point);
        let bytes = point.event(0);
        assert_eq!(bytes.len(), TimePoint::BYTES);
        assert_eq!(TimePoint::read(5, &bytes[HEADER_BYTES..]), point);
    }
}
