//! Reads the index at the end of a recording file, which gives the places of its frames.

use crate::error::{Error, FramePlace, Result};
use crate::frame::{FrameHeader, FrameKind, HEADER_BYTES, PlacedFrame, read_u64};
use crate::frame_writer::INDEX_ENTRY_BYTES;
use crate::source::Source;

/// Returns the entries of the index, or the reason why there is no usable index.
pub(crate) fn read_index(source: &Source) -> Result<std::result::Result<Vec<PlacedFrame>, String>> {
    let Some(trailer_offset) = source.length().checked_sub(HEADER_BYTES as u64) else {
        return Ok(Err("the file is too short".to_owned()));
    };
    let trailer = match source.read_header(trailer_offset)? {
        Ok(header) if header.kind == FrameKind::Trailer => header,
        _ => {
            return Ok(Err("the recording was not finished, or its end is missing".to_owned()));
        }
    };
    let mut entries = Vec::new();
    let mut offset = trailer.offset;
    let mut sequence = 0;
    let mut bytes = Vec::new();
    while offset < trailer_offset {
        let place = FramePlace::at(offset);
        let header = match source.read_header(offset)? {
            Ok(header) => header,
            Err(fault) => {
                return Ok(Err(format!(
                    "{place}, part of the index, is damaged: {}",
                    fault.describe()
                )));
            }
        };
        let expected = header.kind == FrameKind::Index
            && header.sequence == sequence
            && header.recording == trailer.recording;
        if !expected {
            return Ok(Err(format!("{place} should be part of the index")));
        }
        match source.read_stored(offset, &header, &mut bytes) {
            Ok(()) => {}
            Err(Error::Damaged { reason, .. }) => {
                return Ok(Err(format!("{place}, part of the index: {reason}")));
            }
            Err(error) => return Err(error),
        }
        if let Err(reason) = decode_entries(&bytes, trailer.recording, trailer.offset, &mut entries)
        {
            return Ok(Err(format!("{place}, part of the index: {reason}")));
        }
        offset += header.frame_bytes();
        sequence += 1;
    }
    Ok(if offset == trailer_offset {
        Ok(entries)
    } else {
        Err("the index overlaps the trailer".to_owned())
    })
}

/// Appends the entries in `bytes` to `entries`. They must belong to this recording, be in order,
/// not overlap, and lie before the index.
fn decode_entries(
    bytes: &[u8],
    recording: u64,
    index_offset: u64,
    entries: &mut Vec<PlacedFrame>,
) -> std::result::Result<(), &'static str> {
    let (parts, []) = bytes.as_chunks::<INDEX_ENTRY_BYTES>() else {
        return Err("its size is not that of whole entries");
    };
    let mut free_from = entries.last().map_or(0, |(offset, header)| offset + header.frame_bytes());
    for part in parts {
        let offset = read_u64(part, 0);
        let mut header_bytes = [0; HEADER_BYTES];
        header_bytes.copy_from_slice(&part[8..]);
        let header = FrameHeader::decode(&header_bytes, offset)
            .map_err(|_| "an entry is not the header of a frame")?;
        let end =
            offset.checked_add(header.frame_bytes()).ok_or("an entry lies outside the file")?;
        if offset < free_from || end > index_offset {
            return Err("an entry is out of order or lies outside the file");
        }
        if header.recording != recording {
            return Err("an entry is of another recording");
        }
        free_from = end;
        entries.push((offset, header));
    }
    Ok(())
}
