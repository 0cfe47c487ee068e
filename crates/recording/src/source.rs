//! Random access to the bytes of a recording file. Every length is checked against the file's size.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
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

/// An open recording file. Its size is read once; bytes that a recorder adds later are ignored.
#[derive(Debug)]
pub(crate) struct Source {
    bytes: Bytes,
    length: u64,
    path: PathBuf,
}

impl Source {
    /// Opens a regular file. Refuses anything else without waiting for it: a pipe would block, and
    /// opening a device might have an effect.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        let length = file.metadata().map_err(|error| Error::io("inspect", path, error))?.len();
        Ok(Self { bytes: Bytes::File(file), length, path: path.to_path_buf() })
    }

    /// Creates a source from bytes in memory. Errors name it `path`.
    pub(crate) fn from_bytes(bytes: Vec<u8>, path: &Path) -> Self {
        Self { length: bytes.len() as u64, bytes: Bytes::Memory(bytes), path: path.to_path_buf() }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a recorder has the file locked now.
    pub(crate) fn is_being_recorded(&self) -> bool {
        match &self.bytes {
            Bytes::File(file) => match file.try_lock_shared() {
                Err(error) => matches!(error, std::fs::TryLockError::WouldBlock),
                Ok(()) => {
                    // Others may ask the same, or remove the recording.
                    let _ = file.unlock();
                    false
                }
            },
            Bytes::Memory(_) => false,
        }
    }

    /// Fills `output` with the bytes from `offset` on.
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

    /// Whether the file is still at its path, and has not been replaced by another one.
    pub(crate) fn is_still_there(&self) -> bool {
        let Bytes::File(file) = &self.bytes else { return false };
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let now = std::fs::symlink_metadata(&self.path).map(identity);
        now.is_ok_and(|now| file.metadata().map(identity).is_ok_and(|own| own == now))
    }

    /// Reads as many bytes from `offset` on as are left and fit into `output`. Returns their
    /// number.
    pub(crate) fn read_at(&self, offset: u64, output: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(output.len());
        self.read_exact_at(offset, &mut output[..count])?;
        Ok(count)
    }

    /// Reads and checks the header at `offset`. On success, the whole frame lies within the file.
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

    /// Reads the stored bytes of the frame at `offset` into `stored`, and checks them.
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

    /// Reads, checks and decompresses the frame at `offset` into `output`. The frame must have
    /// exactly this `header`; `stored` is a working buffer.
    pub(crate) fn read_frame(
        &self,
        offset: u64,
        header: &FrameHeader,
        stored: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<()> {
        self.refuse_left_out(offset, header)?;
        resize_within(output, header.uncompressed_bytes as usize);
        self.read_frame_into(offset, header, stored, output)
    }

    /// As [`Source::read_frame`], into a buffer of exactly the uncompressed size.
    pub(crate) fn read_frame_into(
        &self,
        offset: u64,
        header: &FrameHeader,
        stored: &mut Vec<u8>,
        output: &mut [u8],
    ) -> Result<()> {
        self.refuse_left_out(offset, header)?;
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

    fn refuse_left_out(&self, offset: u64, header: &FrameHeader) -> Result<()> {
        match header.is_left_out() {
            true => Err(Error::LeftOut { path: self.path.clone(), place: header.place(offset) }),
            false => Ok(()),
        }
    }

    pub(crate) fn damaged(&self, place: FramePlace, reason: &str) -> Error {
        Error::Damaged { path: self.path.clone(), place, reason: reason.to_owned() }
    }
}

/// Resizes a buffer to `bytes`, a size that a decoded header has bounded.
fn resize_within(buffer: &mut Vec<u8>, bytes: usize) {
    assert!(bytes <= crate::frame::MAX_CHUNK_BYTES);
    buffer.resize(bytes, 0);
}

/// Opens a regular file for reading. Refuses a symbolic link at the end of the path, a pipe and a
/// device.
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
