//! Pieces of a file that holds a kept checkpoint, an image of a process among them.

use super::{ImageError, Result};
use retake_recording::{CheckpointReader, CheckpointWriter, MAX_PIECE_BYTES, PieceName};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// More text than the mappings of any process need.
const MOST_TEXT_BYTES: usize = 256 << 20;

/// The kinds of pieces, in the order in which they come.
pub mod kind {
    /// The debugger's summary of the checkpoint, as JSON.
    pub const SUMMARY: u8 = 1;
    /// All of a process but the contents of its memory, as JSON.
    pub const DESCRIPTION: u8 = 2;
    /// Part of a file that the program changed while it was mapped: the number of the file, and the
    /// offset in it.
    pub const SCRATCH: u8 = 3;
    /// Part of memory: its address.
    pub const MEMORY: u8 = 4;
    /// Guard pages that the program made: their address. The bytes are the address of their end.
    pub const GUARD: u8 = 5;
    /// The debugger's: a piece of output, by number.
    pub const PRINTED: u8 = 6;
    /// The debugger's, in a file of its own: the past of the stretch before the checkpoint, as
    /// JSON.
    pub const PAST: u8 = 7;
}

/// Reads a structure from the next pieces, which must be of this kind.
///
/// # Errors
/// The pieces do not hold such a structure.
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
            _ => return Err(reader.bad("its description is incomplete")),
        };
    }
    serde_json::from_slice(&text)
        .map_err(|error| reader.bad(&format!("its description cannot be read: {error}")))
}

/// Writes a structure as pieces of a kind. Their `which` tells how many come after.
///
/// # Errors
/// There is no space.
pub fn put_json(writer: &mut CheckpointWriter, kind: u8, what: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(what).map_err(|error| ImageError::Refused(error.to_string()))?;
    let count = text.chunks(MAX_PIECE_BYTES).count() as u32;
    for (index, piece) in (0..).zip(text.chunks(MAX_PIECE_BYTES)) {
        let value = u64::from(index) * MAX_PIECE_BYTES as u64;
        writer.put(PieceName { kind, which: count - 1 - index, value }, piece)?;
    }
    Ok(())
}
