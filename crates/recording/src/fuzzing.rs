//! The functions that fuzz targets call. Ordinary tests call them, too, with the same inputs.

use std::io::Read;

use crate::frame::{
    ALIGNMENT, FORMAT_VERSION, HEADER_BYTES, MAGIC, payload_hash, read_u32, restamp,
};
use crate::frame_writer::INDEX_ENTRY_BYTES;
use crate::recording::Recording;

/// The most bytes read for one input: a small file may claim, or compress, far more.
const READ_LIMIT_BYTES: u64 = 64 << 20;

/// Opens a recording and reads as much of it as possible. Must return for any bytes.
pub fn exercise(bytes: Vec<u8>) {
    let Ok(recording) = Recording::from_bytes(bytes) else {
        return;
    };
    recording.warnings().iter().for_each(|warning| drop(warning.to_string()));
    let mut budget = READ_LIMIT_BYTES;
    for summary in recording.streams() {
        assert_eq!(
            recording.stream(summary.info.id).map(|reader| reader.summary()).ok(),
            Some(summary.clone())
        );
        if summary.bytes > budget {
            continue;
        }
        budget -= summary.bytes;
        let mut reader = recording.stream(summary.info.id).expect("the stream was listed");
        let mut bytes = Vec::new();
        if reader.read_to_end(&mut bytes).is_ok() {
            assert_eq!(bytes.len() as u64, summary.bytes, "stream {}", summary.info.id);
        }
        let _ = reader.seek_to_offset(summary.bytes / 2);
        assert!(reader.position() <= summary.bytes);
    }
    for (id, bytes) in recording.contents().unwrap_or_default() {
        if bytes <= budget {
            budget -= bytes;
            let _ = recording.copy_content(id, &mut std::io::sink());
        }
    }
}

/// Repairs checksums, lengths and similar fields of mutated bytes, in every frame and in every
/// index entry, so that the code after these checks is exercised, too.
pub fn repair(bytes: &mut [u8]) {
    let mut recording = [0; 8];
    let mut at = 0;
    while at + HEADER_BYTES <= bytes.len() {
        let rest = bytes.len() - at - HEADER_BYTES;
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes[at..at + HEADER_BYTES]);
        if at == 0 {
            recording.copy_from_slice(&header[48..56]);
        }
        let stored_bytes = (read_u32(&header, 36) as usize).min(rest);
        let payload = at + HEADER_BYTES..at + HEADER_BYTES + stored_bytes;
        if header[6] == INDEX_KIND {
            repair_index(&mut bytes[payload.clone()], recording);
        }
        let hash = payload_hash(&bytes[payload]);
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        header[36..40].copy_from_slice(&(stored_bytes as u32).to_le_bytes());
        if header[7] == RAW {
            header[32..36].copy_from_slice(&(stored_bytes as u32).to_le_bytes());
        }
        header[40..48].copy_from_slice(&hash.to_le_bytes());
        header[48..56].copy_from_slice(&recording);
        restamp(&mut header, at as u64);
        bytes[at..at + HEADER_BYTES].copy_from_slice(&header);
        at += HEADER_BYTES + stored_bytes.next_multiple_of(ALIGNMENT as usize);
    }
}

const INDEX_KIND: u8 = 6;
const RAW: u8 = 0;

fn repair_index(payload: &mut [u8], recording: [u8; 8]) {
    for entry in payload.chunks_exact_mut(INDEX_ENTRY_BYTES) {
        let (offset, header) = entry.split_at_mut(8);
        let offset = u64::from_le_bytes(offset.try_into().expect("eight bytes"));
        let header: &mut [u8; HEADER_BYTES] = header.try_into().expect("the size of a header");
        header[48..56].copy_from_slice(&recording);
        restamp(header, offset);
    }
}
