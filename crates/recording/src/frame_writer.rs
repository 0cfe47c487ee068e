//! Appends frames to a file, and records their places for the index.
//!
//! Invariant: `end` moves only after a whole frame has been written. After an error, the file
//! counts as unchanged and the same frame can be written again, without a duplicate or a hole.

use std::fmt;
use std::io::IoSlice;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_BYTES, MAX_CHUNK_BYTES, StoredAs};
use crate::storage::{Storage, write_all_at};

/// The size of an index entry: a frame's file offset and its header.
pub(crate) const INDEX_ENTRY_BYTES: usize = 8 + HEADER_BYTES;
const INDEX_ENTRIES_PER_FRAME: usize = MAX_CHUNK_BYTES / INDEX_ENTRY_BYTES;

/// The writing end of a recording file.
pub(crate) struct FrameWriter {
    storage: Box<dyn Storage>,
    path: PathBuf,
    recording: u64,
    end: u64,
    /// The offsets and headers of all frames so far, in the order of the index.
    entries: Vec<(u64, FrameHeader)>,
}

impl fmt::Debug for FrameWriter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FrameWriter")
            .field("path", &self.path)
            .field("end", &self.end)
            .finish()
    }
}

impl FrameWriter {
    /// Creates a writer to `storage`, which must be empty. Errors name it `path`.
    pub(crate) fn new(storage: Box<dyn Storage>, path: &Path, recording: u64) -> Self {
        Self::resume(storage, path, recording, 0, Vec::new())
    }

    /// Creates a writer that appends after existing frames.
    pub(crate) fn resume(
        storage: Box<dyn Storage>,
        path: &Path,
        recording: u64,
        end: u64,
        entries: Vec<(u64, FrameHeader)>,
    ) -> Self {
        Self { storage, path: path.to_path_buf(), recording, end, entries }
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the recording's number, which all frames carry.
    pub(crate) fn recording(&self) -> u64 {
        self.recording
    }

    /// Returns the offsets and headers of all frames so far.
    pub(crate) fn entries(&self) -> &[(u64, FrameHeader)] {
        &self.entries
    }

    /// Appends a frame. Its `header` must already describe `stored`.
    pub(crate) fn put(&mut self, header: FrameHeader, stored: &[u8]) -> Result<()> {
        assert_eq!(header.stored_bytes as usize, stored.len());
        let header = FrameHeader { recording: self.recording, ..header };
        let header_bytes = header.encode(self.end);
        let padding_bytes = (header.frame_bytes() as usize) - HEADER_BYTES - stored.len();
        let padding = &[0; ALIGNMENT as usize][..padding_bytes];
        let mut slices = [IoSlice::new(&header_bytes), IoSlice::new(stored), IoSlice::new(padding)];
        if let Err(error) = write_all_at(&mut *self.storage, self.end, &mut slices) {
            // The part of the frame that was written has no meaning, and the next attempt
            // overwrites it. Cutting it off only spares readers a warning, so it may fail.
            let _ = self.storage.truncate(self.end);
            return Err(Error::io("write to", &self.path, error));
        }
        self.entries.push((self.end, header));
        self.end += header.frame_bytes();
        Ok(())
    }

    /// Appends a frame with uncompressed bytes.
    pub(crate) fn put_raw(&mut self, mut header: FrameHeader, bytes: &[u8]) -> Result<()> {
        header.describe_payload(StoredAs::Raw, bytes.len(), bytes);
        self.put(header, bytes)
    }

    /// Appends the metadata `last`, the index and the trailer. After an error the file is as
    /// before, and the call can be repeated.
    pub(crate) fn put_ending(&mut self, last: &[u8]) -> Result<()> {
        let (end, entry_count) = (self.end, self.entries.len());
        let result = self.try_put_ending(last);
        if result.is_err() {
            self.end = end;
            self.entries.truncate(entry_count);
            let _ = self.storage.truncate(end);
        } else {
            self.storage.release(self.end);
        }
        result
    }

    fn try_put_ending(&mut self, metadata: &[u8]) -> Result<()> {
        self.put_raw(FrameHeader::new(FrameKind::Metadata), metadata)?;
        let index_offset = self.end;
        let entries = self.entries.clone();
        for (sequence, part) in entries.chunks(INDEX_ENTRIES_PER_FRAME).enumerate() {
            let mut bytes = Vec::with_capacity(part.len() * INDEX_ENTRY_BYTES);
            for (offset, header) in part {
                bytes.extend_from_slice(&offset.to_le_bytes());
                bytes.extend_from_slice(&header.encode(*offset));
            }
            let header =
                FrameHeader { sequence: sequence as u32, ..FrameHeader::new(FrameKind::Index) };
            self.put_raw(header, &bytes)?;
        }
        let trailer = FrameHeader { offset: index_offset, ..FrameHeader::new(FrameKind::Trailer) };
        self.put_raw(trailer, &[])
    }

    /// Waits until everything written would survive a power loss.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.storage.sync().map_err(|error| Error::io("sync", &self.path, error))
    }
}
