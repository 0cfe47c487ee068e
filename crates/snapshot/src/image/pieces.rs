//! Pieces of a file that holds a kept checkpoint, an image of a process among them.

use super::{ImageError, Result};
use retake_recording::{CheckpointReader, CheckpointWriter, MAX_PIECE_BYTES, PieceName};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// More text than any process has mappings for.
const MOST_TEXT_BYTES: usize = 256 << 20;

/// Kinds of pieces, in the order in which they come.
pub mod kind {
    /// What the debugger says about the checkpoint, as JSON.
    pub const SUMMARY: u8 = 1;
    /// All of a process but the contents of its memory, as JSON.
    pub const DESCRIPTION: u8 = 2;
    /// Of a file that the program changed while it had it mapped: which of them, and where in it.
    pub const SCRATCH: u8 = 3;
    /// Memory: where.
    pub const MEMORY: u8 = 4;
    /// Pages that the program made guards: where; the bytes are the address of their end.
    pub const GUARD: u8 = 5;
    /// The debugger's: output, by number.
    pub const PRINTED: u8 = 6;
    /// The debugger's, in a file of its own: what is known of the way to the checkpoint, as JSON.
    pub const PAST: u8 = 7;
}

/// The structure that the next pieces hold, which must be of this kind.
///
/// # Errors
/// They do not.
pub fn read_json<T: DeserializeOwned>(
    reader: &mut CheckpointReader,
    kind: u8,
) -> retake_recording::Result<T> {
    let mut text = Vec::new();
    let mut left = 1;
    while left > 0 {
        left = match reader.next_piece()? {
            Some((name, bytes))
                if name.kind == kind
                    && name.value == text.len() as u64
                    && text.len() < MOST_TEXT_BYTES =>
            {
                text.extend_from_slice(bytes);
                name.which
            }
            _ => return Err(reader.bad("what it says about itself is not whole")),
        };
    }
    serde_json::from_slice(&text)
        .map_err(|error| reader.bad(&format!("what it says about itself makes no sense: {error}")))
}

/// Writes a structure as pieces of a kind; `which` says how many come after.
///
/// # Errors
/// No space.
pub fn put_json(writer: &mut CheckpointWriter, kind: u8, what: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(what).map_err(|error| ImageError::Refused(error.to_string()))?;
    let count = text.chunks(MAX_PIECE_BYTES).count() as u32;
    for (index, piece) in (0..).zip(text.chunks(MAX_PIECE_BYTES)) {
        let value = u64::from(index) * MAX_PIECE_BYTES as u64;
        writer.put(PieceName { kind, which: count - 1 - index, value }, piece)?;
    }
    Ok(())
}
