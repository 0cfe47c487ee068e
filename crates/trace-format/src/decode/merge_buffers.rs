//! The buffers of a call, from its own rows and from the records for buffers.

use super::row::PartCall;
use crate::schema::{CallSchema, Rows};
use crate::{BufferDirection, TracedBuffer, TracedCall};

/// A buffer with a record of its own.
#[derive(Debug)]
pub(crate) struct PlacedBuffer {
    /// Its place among all buffers of the call.
    pub position: usize,
    pub buffer: TracedBuffer,
}

/// Completes the call with its buffers.
pub(crate) fn finish(
    part: PartCall,
    schema: &CallSchema,
    mut placed: Vec<PlacedBuffer>,
) -> TracedCall {
    let PartCall { mut call, mut held, pieces, lengths, is_own, .. } = part;
    if !is_own {
        held.extend(foreign_pieces(&call, schema, pieces, &lengths));
        call.buffers = held;
        return call;
    }
    held.retain(|held| {
        let is_same = |placed: &PlacedBuffer| {
            placed.buffer.argument == held.argument && placed.buffer.direction == held.direction
        };
        !placed.iter().any(is_same)
    });
    held.extend(pieces);
    if placed.is_empty() {
        call.buffers = held;
        return call;
    }
    placed.sort_by_key(|placed| placed.position);
    let mut buffers = Vec::with_capacity(held.len() + placed.len());
    let mut held = held.into_iter();
    for next in placed {
        let before = next.position.saturating_sub(buffers.len());
        buffers.extend(held.by_ref().take(before));
        buffers.push(next.buffer);
    }
    buffers.extend(held);
    call.buffers = buffers;
    call
}

/// Makes the arrays of vectors and of lists of strings as they are in memory. Other programs' files
/// hold only the elements.
fn foreign_pieces(
    call: &TracedCall,
    schema: &CallSchema,
    pieces: Vec<TracedBuffer>,
    lengths: &[u64],
) -> Vec<TracedBuffer> {
    let input = |argument: u8, data: Vec<u8>| TracedBuffer {
        argument,
        direction: BufferDirection::Input,
        address: call.arguments[usize::from(argument)],
        total_bytes: data.len() as u64,
        data: data.into(),
    };
    let mut buffers = Vec::new();
    match schema.call.rows {
        Rows::One => {}
        Rows::Vector { argument, message, direction } => {
            if message {
                let mut header = vec![0; 56];
                header[24..32].copy_from_slice(&(lengths.len() as u64).to_le_bytes());
                buffers.push(input(argument, header));
            }
            let element = |length: &u64| [0_u64.to_le_bytes(), length.to_le_bytes()].concat();
            buffers.push(input(argument, lengths.iter().flat_map(element).collect()));
            // Some files also hold bytes beyond those transferred. They mean nothing.
            let mut left = u64::try_from(call.result).unwrap_or(0);
            for mut piece in pieces {
                if direction == BufferDirection::Output {
                    piece.data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    piece.total_bytes = piece.data.len() as u64;
                    left -= piece.total_bytes;
                }
                if !piece.data.is_empty() {
                    buffers.push(piece);
                }
            }
        }
        Rows::Exec { path } => {
            for argument in [path + 1, path + 2] {
                let strings: Vec<&TracedBuffer> =
                    pieces.iter().filter(|piece| piece.argument == argument).collect();
                if !strings.is_empty() {
                    buffers.push(input(argument, vec![0; strings.len() * 8]));
                    buffers.extend(strings.into_iter().cloned());
                }
            }
        }
    }
    buffers
}
