//! The output of the program up to a kept checkpoint. A session that begins there has not seen that
//! output.

use crate::console::Console;
use crate::error::Result;
use retake_recording::{CheckpointWriter, PieceName};
use retake_snapshot::image::pieces::kind;
use std::io;

/// The size of the head of a piece of output: 8 bytes for the offset, and 8 bytes that are 1 for
/// standard error.
const HEAD_BYTES: usize = 16;

/// Writes the output. `is_printed` tells whether the program had made an output, by its number.
///
/// # Errors
/// There is no space.
pub(super) fn put(
    writer: &mut CheckpointWriter,
    console: &Console,
    is_printed: &dyn Fn(u64) -> bool,
) -> Result<()> {
    let mut result = Ok(());
    console.each(is_printed, &mut |(ticket, offset), is_error, bytes| {
        if result.is_ok() {
            let head = [offset, u64::from(is_error)].map(u64::to_le_bytes).concat();
            debug_assert_eq!(head.len(), HEAD_BYTES);
            result = writer.put(
                PieceName { kind: kind::PRINTED, which: 0, value: ticket },
                &[&head, bytes].concat(),
            );
        }
    })?;
    Ok(result?)
}

/// Takes a piece of output. Returns false if it is a piece of another kind.
///
/// # Errors
/// The output cannot be stored.
pub(super) fn take(console: &mut Console, name: PieceName, bytes: &[u8]) -> io::Result<bool> {
    let Some((head, text)) =
        bytes.split_at_checked(HEAD_BYTES).filter(|_| name.kind == kind::PRINTED)
    else {
        return Ok(false);
    };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| head[at + index]));
    console.add((name.value, word(0)), word(8) != 0, text).map(|()| true)
}
