//! How far threads under the sync policy had come. A recorder notes it in its own stream: sections
//! and operations leave no events of their own.

use retake_contract::events::{
    EventKind, event::LAYOUT_BYTES as HEADER_BYTES, reached_body as layout,
};

use crate::bytes::read_u64;
use crate::ids::StreamId;

/// How far a thread had come at least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// The last turn that the thread had taken.
    pub turn: u64,
    /// Sections that it had ended in that turn.
    pub sections: u64,
    /// Operations that it had ended.
    pub operations: u64,
}

impl Reached {
    /// The size of the event.
    const BYTES: usize = HEADER_BYTES + layout::LAYOUT_BYTES;

    /// Encodes the event.
    pub fn event(&self, stream: StreamId) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend((Self::BYTES as u32).to_le_bytes());
        bytes.extend([EventKind::Reached as u8, 0, 0, 0]);
        bytes.extend(u64::from(stream.0).to_le_bytes());
        for word in [self.turn, self.sections, self.operations] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    /// Reads a body. The caller has checked that it has [`layout::LAYOUT_BYTES`] bytes.
    pub(crate) fn read(body: &[u8]) -> Self {
        let word = |at| read_u64(body, at);
        Self {
            turn: word(layout::TURN),
            sections: word(layout::SECTIONS),
            operations: word(layout::OPERATIONS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let reached = Reached { turn: 5, sections: 6, operations: 7 };
        let bytes = reached.event(StreamId(9));
        assert_eq!(bytes.len(), Reached::BYTES);
        assert_eq!(Reached::read(&bytes[HEADER_BYTES..]), reached);
    }
}
