//! Errors in the bytes of an event.

use retake_contract::events::EventKind;

/// Why bytes are not a valid event. Offsets count from the beginning of the event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// More bytes are needed. At the end of a stream this means damage.
    #[error("the event needs {needed} bytes, {available} are there")]
    Truncated { needed: usize, available: usize },
    #[error("an event of {size} bytes: sizes are multiples of 8 from 16 on")]
    Size { size: u32 },
    #[error("event kind {kind} is unknown")]
    Kind { kind: u8 },
    #[error("a {} event has a body of {needed} bytes or more, not {available}", kind.name())]
    Body { kind: EventKind, needed: usize, available: usize },
    #[error("the item at offset {offset} needs {needed} bytes, {available} are left")]
    Item { offset: usize, needed: u64, available: usize },
    #[error("the item at offset {offset} has the unknown direction {direction}")]
    ItemDirection { offset: usize, direction: u8 },
    #[error("the item at offset {offset} belongs to argument {argument}, the call has {count}")]
    ItemArgument { offset: usize, argument: u8, count: usize },
    #[error("call {number} is in no table of this retake: a newer one made the recording")]
    UnknownCall { number: u16 },
    #[error("the exec event is malformed: {what}")]
    Exec { what: &'static str },
}
