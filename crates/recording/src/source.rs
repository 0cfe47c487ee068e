//! The bytes of a recording file, read from any place in it, every length checked against what is
//! there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::codec::decode_into;
use crate::error::{Error, FramePlace, Result};
use crate::frame::{FrameHeader, HEADER_BYTES, HeaderFault, StoredAs, payload_hash};

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

/// An open recording file. Its size is taken once: what a recorder adds later is not seen.
#[derive(Debug)]
pub(crate) struct Source {
    bytes: Bytes,
    length: u64,
    path: PathBuf,
}

impl Source {
    /// Opens a regular file. Anything else is refused without waiting on it: a pipe would block, a
    /// device might answer.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        let length = file.metadata().map_err(|error| Error::io("inspect", path, error))?.len();
        Ok(Self { bytes: Bytes::File(file), length, path: path.to_path_buf() })
    }

    /// Bytes in memory; `path` is what errors call them.
    pub(crate) fn from_bytes(bytes: Vec<u8>, path: &Path) -> Self {
        Self { length: bytes.len() as u64, bytes: Bytes::Memory(bytes), path: path.to_path_buf() }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// True if a recorder holds the file at the moment.
    pub(crate) fn is_being_recorded(&self) -> bool {
        match &self.bytes {
            Bytes::File(file) => {
                matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
            }
            Bytes::Memory(_) => false,
        }
    }

    /// Fills `output` from `offset`.
    pub(crate) fn read_exact_at(&self, offset: u64, output: &mut [u8]) -> Result<()> {
        let result = match &self.bytes {
            Bytes::File(file) => file.read_exact_at(output, offset),
            Bytes::Memory(bytes) => {
                let range = usize::try_from(offset)
                    .ok()
                    .and_then(|start| bytes.get(start..)?.get(..output.len()));
                range
                    .map(|range| output.copy_from_slice(range))
                    .ok_or(io::ErrorKind::UnexpectedEof.into())
            }
        };
        result.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damaged(FramePlace::at(offset), "the file ends within it")
            }
            _ => Error::io("read", &self.path, error),
        })
    }

    /// Reads as much as fits into `output` or is left from `offset`; returns how much.
    pub(crate) fn read_at(&self, offset: u64, output: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(output.len());
        self.read_exact_at(offset, &mut output[..count])?;
        Ok(count)
    }

    /// Reads and checks the header at `offset`. The whole frame lies in the file when this
    /// succeeds.
    pub(crate) fn read_header(
        &self,
        offset: u64,
    ) -> Result<std::result::Result<FrameHeader, HeaderFault>> {
        let mut bytes = [0; HEADER_BYTES];
        if self.length.saturating_sub(offset) < HEADER_BYTES as u64 {
            return Ok(Err(HeaderFault::Inconsistent("the file ends within its header")));
        }
        self.read_exact_at(offset, &mut bytes)?;
        Ok(FrameHeader::decode(&bytes, offset).and_then(|header| {
            match offset.checked_add(header.frame_bytes()) {
                Some(end) if end <= self.length => Ok(header),
                _ => Err(HeaderFault::Inconsistent("the file ends within it")),
            }
        }))
    }

    /// Reads what the frame at `offset` stores into `stored`, and checks it.
    pub(crate) fn read_stored(
        &self,
        offset: u64,
        header: &FrameHeader,
        stored: &mut Vec<u8>,
    ) -> Result<()> {
        resize_within(stored, header.stored_bytes as usize);
        self.read_stored_into(offset, header, stored)
    }

    fn read_stored_into(&self, offset: u64, header: &FrameHeader, stored: &mut [u8]) -> Result<()> {
        self.read_exact_at(offset.saturating_add(HEADER_BYTES as u64), stored)?;
        if payload_hash(stored) == header.stored_hash {
            Ok(())
        } else {
            Err(self.damaged(header.place(offset), "the checksum of its data is wrong"))
        }
    }

    /// Reads, checks and decompresses the frame at `offset`, which must have exactly this `header`,
    /// into `output`; `stored` is room to work in.
    pub(crate) fn read_frame(
        &self,
        offset: u64,
        header: &FrameHeader,
        stored: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<()> {
        resize_within(output, header.uncompressed_bytes as usize);
        self.read_frame_into(offset, header, stored, output)
    }

    /// As [`Source::read_frame`], into exactly as many bytes as the frame has uncompressed.
    pub(crate) fn read_frame_into(
        &self,
        offset: u64,
        header: &FrameHeader,
        stored: &mut Vec<u8>,
        output: &mut [u8],
    ) -> Result<()> {
        let place = header.place(offset);
        match self.read_header(offset)? {
            Ok(found) if found == *header => {}
            Ok(_) => return Err(self.damaged(place, "the index says something else about it")),
            Err(fault) => return Err(self.damaged(place, &fault.describe())),
        }
        if header.stored_as == StoredAs::Raw && header.stored_bytes as usize == output.len() {
            return self.read_stored_into(offset, header, output);
        }
        self.read_stored(offset, header, stored)?;
        decode_into(header.stored_as, stored, output).map_err(|reason| self.damaged(place, reason))
    }

    pub(crate) fn damaged(&self, place: FramePlace, reason: &str) -> Error {
        Error::Damaged { path: self.path.clone(), place, reason: reason.to_owned() }
    }
}

/// Sizes a buffer to `bytes`, which a decoded header has bounded.
fn resize_within(buffer: &mut Vec<u8>, bytes: usize) {
    assert!(bytes <= crate::frame::MAX_CHUNK_BYTES);
    buffer.resize(bytes, 0);
}

/// Opens a regular file for reading; a symbolic link at the end of the path, a pipe or a device is
/// refused.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file: File = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| Error::io("open", path, error.into()))?
        .into();
    let kind = file.metadata().map_err(|error| Error::io("inspect", path, error))?;
    if kind.is_file() {
        Ok(file)
    } else {
        Err(Error::NotARecording {
            path: path.to_path_buf(),
            reason: "it is not a regular file".to_owned(),
        })
    }
}
