//! Finds the frames of a file without its index.
//!
//! The data of every frame are checked, too: after a crash, a header may be on disk without them.
//! If there is no frame at a place, the scan searches for the next one. A header's checksum covers
//! its place, so nothing inside a chunk's data is taken for a frame.

use crate::catalogue::Catalogue;
use crate::error::{Error, FramePlace, Result};
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_BYTES, MAGIC};
use crate::source::Source;
use crate::warning::Warning;

const SEARCH_BYTES: usize = 256 << 10;

/// Adds every readable frame of `source` to `catalogue`, and warns about the rest.
pub(crate) fn scan(source: &Source, catalogue: &mut Catalogue) -> Result<()> {
    let mut recording = None;
    let mut stored = Vec::new();
    let mut offset = 0;
    while offset < source.length() {
        let reason = match source.read_header(offset)? {
            Ok(header) if recording.is_none_or(|number| number == header.recording) => {
                recording = Some(header.recording);
                add_checked(source, catalogue, offset, header, &mut stored)?;
                offset += header.frame_bytes();
                continue;
            }
            Ok(_) => "it is a frame of another recording".to_owned(),
            Err(fault) => fault.describe(),
        };
        let next = find_frame(source, offset + ALIGNMENT, recording)?.unwrap_or(source.length());
        let lost = Warning::LostBytes { file_offset: offset, bytes: next - offset, reason };
        catalogue.warnings.push(lost);
        offset = next;
    }
    Ok(())
}

/// Checks what readers with an index do not read: the headers in their places, all metadata frames,
/// and the padding after frames. Calls `note` for each damage.
pub(crate) fn check_unindexed(
    source: &Source,
    note: &mut dyn FnMut(Result<()>) -> Result<()>,
) -> Result<()> {
    let mut stored = Vec::new();
    let mut offset = 0;
    while offset < source.length() {
        match source.read_header(offset)? {
            Ok(header) => {
                note(check_frame(source, offset, &header, &mut stored))?;
                offset += header.frame_bytes();
            }
            Err(fault) => {
                note(Err(source.damaged(FramePlace::at(offset), &fault.describe())))?;
                offset = find_frame(source, offset + ALIGNMENT, None)?.unwrap_or(source.length());
            }
        }
    }
    Ok(())
}

fn check_frame(
    source: &Source,
    offset: u64,
    header: &FrameHeader,
    stored: &mut Vec<u8>,
) -> Result<()> {
    if header.kind == FrameKind::Metadata {
        source.read_stored(offset, header, stored)?;
    }
    let mut padding = [0; ALIGNMENT as usize];
    let data_end = HEADER_BYTES as u64 + u64::from(header.stored_bytes);
    let padding = &mut padding[..(header.frame_bytes() - data_end) as usize];
    source.read_exact_at(offset + data_end, padding)?;
    match padding.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => {
            Err(source.damaged(header.place(offset), "the bytes that fill it up are not zeros"))
        }
    }
}

fn add_checked(
    source: &Source,
    catalogue: &mut Catalogue,
    offset: u64,
    header: FrameHeader,
    stored: &mut Vec<u8>,
) -> Result<()> {
    match source.read_stored(offset, &header, stored) {
        Ok(()) => catalogue.add(source, offset, header),
        Err(Error::Damaged { place, reason, .. }) => {
            catalogue.warnings.push(Warning::Damaged { place, reason });
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Returns the place of the first frame at or after `offset`.
fn find_frame(source: &Source, offset: u64, recording: Option<u64>) -> Result<Option<u64>> {
    let mut window = vec![0; SEARCH_BYTES];
    let mut start = offset;
    while start < source.length() {
        let count = source.read_at(start, &mut window)?;
        for at in (0..count.saturating_sub(HEADER_BYTES - 1)).step_by(ALIGNMENT as usize) {
            let place = start + at as u64;
            if is_frame(&window[at..], place, recording) && source.read_header(place)?.is_ok() {
                return Ok(Some(place));
            }
        }
        if count < window.len() {
            break;
        }
        // The windows overlap, so that a header across the border of two is found.
        start += (SEARCH_BYTES - HEADER_BYTES) as u64;
    }
    Ok(None)
}

fn is_frame(bytes: &[u8], offset: u64, recording: Option<u64>) -> bool {
    let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>().filter(|bytes| bytes[..4] == MAGIC)
    else {
        return false;
    };
    let header = FrameHeader::decode(bytes, offset);
    header.is_ok_and(|header| recording.is_none_or(|number| number == header.recording))
}
