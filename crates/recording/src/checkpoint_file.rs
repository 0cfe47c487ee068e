//! A kept checkpoint: one file of pieces. Each piece is compressed and has a checksum. This crate
//! does not know what the pieces mean.
//!
//! A checkpoint belongs to one recording and to the build of the runtime that made it. Opening it
//! for another one is an error.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::ContentId;
use crate::codec::{Codec, Encoder, decode_into};
use crate::error::{Error, Result};
use crate::frame::{read_u32, read_u64, stored_as_number, stored_as_of_number};
use crate::metadata::Metadata;
use crate::recording::Recording;
use crate::source::open_regular;
use crate::store::temporary::TemporaryFile;

/// The version of the file layout and of the meaning of the pieces.
pub const CHECKPOINT_VERSION: u16 = 2;
/// The most uncompressed bytes in a piece.
pub const MAX_PIECE_BYTES: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"RTKC";
const HEADER_BYTES: usize = 64;
const PIECE_HEADER_BYTES: usize = 32;
/// The bytes of a header that its checksum covers.
const CHECKED_BYTES: usize = HEADER_BYTES - 8;
const CHECKED_PIECE_BYTES: usize = PIECE_HEADER_BYTES - 8;
const BUFFER_BYTES: usize = 1 << 18;

/// What a piece holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceName {
    /// The kind of its data.
    pub kind: u8,
    /// The number of the thing of that kind to which it belongs.
    pub which: u32,
    /// A number that belongs to its data, such as an address.
    pub value: u64,
}

/// The recording and the build that a checkpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    recording: u64,
    build: [u8; 32],
}

impl Owner {
    /// Returns the owner for a recording; `None` if the recording's number cannot be read.
    pub(crate) fn of(recording: &Recording) -> Option<Self> {
        Self::of_metadata(recording.metadata())
    }

    /// As [`Owner::of`], for a recording that is being written.
    pub(crate) fn of_metadata(metadata: &Metadata) -> Option<Self> {
        let number = u64::from_str_radix(&metadata.recording_id, 16).ok()?;
        let build =
            ContentId::of(format!("{} {}", metadata.table_hash, metadata.runtime_hash).as_bytes());
        Some(Self { recording: number, build: build.0 })
    }

    /// Returns the recording's number as text, in the form that file names use.
    pub(crate) fn number(self) -> String {
        format!("{:016x}", self.recording)
    }
}

/// Writes a checkpoint. The file appears whole, when it is finished, or not at all.
#[derive(Debug)]
pub struct CheckpointWriter {
    output: BufWriter<File>,
    pub(crate) temporary: TemporaryFile,
    owner: Owner,
    encoder: Encoder,
    end: u64,
    piece_count: u64,
}

impl CheckpointWriter {
    pub(crate) fn create_in(folder: &Path, owner: Owner) -> Result<Self> {
        let mut temporary = TemporaryFile::create_in(folder)?;
        let file = temporary
            .file()
            .try_clone()
            .map_err(|error| Error::io("open", temporary.path(), error))?;
        let mut output = BufWriter::with_capacity(BUFFER_BYTES, file);
        output
            .write_all(&[0; HEADER_BYTES])
            .map_err(|error| Error::io("write to", temporary.path(), error))?;
        Ok(Self {
            output,
            temporary,
            owner,
            encoder: Encoder::new(),
            end: HEADER_BYTES as u64,
            piece_count: 0,
        })
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    ///
    /// # Panics
    /// If the piece has more than [`MAX_PIECE_BYTES`].
    pub fn put(&mut self, name: PieceName, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= MAX_PIECE_BYTES, "a piece has at most {MAX_PIECE_BYTES} bytes");
        let (stored_as, stored) = self.encoder.encode(bytes, Codec::Small);
        let mut header = [0; PIECE_HEADER_BYTES];
        header[0] = name.kind;
        header[1] = stored_as_number(stored_as);
        header[4..8].copy_from_slice(&name.which.to_le_bytes());
        header[8..16].copy_from_slice(&name.value.to_le_bytes());
        header[16..20].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        let hash = piece_hash(&header[..CHECKED_PIECE_BYTES], stored, self.end);
        header[CHECKED_PIECE_BYTES..].copy_from_slice(&hash.to_le_bytes());
        let written = self.output.write_all(&header).and_then(|()| self.output.write_all(stored));
        self.end += (header.len() + stored.len()) as u64;
        self.piece_count += 1;
        written.map_err(|error| Error::io("write to", self.temporary.path(), error))
    }

    /// Returns the number of bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Writes the header. Until then the file has none.
    pub(crate) fn complete(&mut self) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&CHECKPOINT_VERSION.to_le_bytes());
        header[8..16].copy_from_slice(&self.owner.recording.to_le_bytes());
        header[16..48].copy_from_slice(&self.owner.build);
        header[48..56].copy_from_slice(&self.piece_count.to_le_bytes());
        let hash = xxh3_64(&header[..CHECKED_BYTES]);
        header[CHECKED_BYTES..].copy_from_slice(&hash.to_le_bytes());
        let written =
            self.output.flush().and_then(|()| self.output.get_ref().write_all_at(&header, 0));
        written.map_err(|error| Error::io("write to", self.temporary.path(), error))
    }
}

/// Reads a checkpoint piece by piece. Trusts nothing in the file.
#[derive(Debug)]
pub struct CheckpointReader {
    input: BufReader<File>,
    path: PathBuf,
    left: u64,
    offset: u64,
    length: u64,
    stored: Vec<u8>,
    bytes: Vec<u8>,
}

impl CheckpointReader {
    pub(crate) fn open(path: &Path, owner: Owner) -> Result<Self> {
        let file = open_regular(path)?;
        // The time only tells the collection that the file is in use. If the file system refuses
        // it, nothing else is lost.
        let _ = file.set_modified(SystemTime::now());
        Self::of(file, path, owner)
    }

    fn of(file: File, path: &Path, owner: Owner) -> Result<Self> {
        let length = file.metadata().map_err(|error| Error::io("inspect", path, error))?.len();
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut this = Self {
            input,
            path: path.to_path_buf(),
            left: 0,
            offset: 0,
            length,
            stored: Vec::new(),
            bytes: Vec::new(),
        };
        let mut header = [0; HEADER_BYTES];
        this.fill(&mut header)?;
        this.left = this.check(&header, owner)?;
        Ok(this)
    }

    /// Checks the header. Returns the number of pieces.
    fn check(&self, header: &[u8; HEADER_BYTES], owner: Owner) -> Result<u64> {
        if header[..4] != MAGIC {
            return Err(self.bad("it does not begin like a checkpoint"));
        }
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != CHECKPOINT_VERSION {
            return Err(self.bad(&format!(
                "it has version {version}, this retake reads version {CHECKPOINT_VERSION}"
            )));
        }
        if read_u64(header, CHECKED_BYTES) != xxh3_64(&header[..CHECKED_BYTES]) {
            return Err(self.bad("its header is damaged"));
        }
        if read_u64(header, 8) != owner.recording {
            return Err(self.bad("it is of another recording"));
        }
        if header[16..48] != owner.build {
            return Err(self.bad("another build of retake made it"));
        }
        Ok(read_u64(header, 48))
    }

    /// Returns the next piece; `None` after the last.
    ///
    /// # Errors
    /// `BadCheckpoint` if the piece is damaged or if bytes follow the last one; `Io`.
    pub fn next_piece(&mut self) -> Result<Option<(PieceName, &[u8])>> {
        if self.left == 0 {
            return if self.offset == self.length {
                Ok(None)
            } else {
                Err(self.bad("there is more in it than it says"))
            };
        }
        self.left -= 1;
        let start = self.offset;
        let mut header = [0; PIECE_HEADER_BYTES];
        self.fill(&mut header)?;
        let (bytes, stored) = (read_u32(&header, 16) as usize, read_u32(&header, 20) as usize);
        if bytes > MAX_PIECE_BYTES || stored > bytes {
            return Err(self.damaged(start));
        }
        let mut buffer = std::mem::take(&mut self.stored);
        buffer.resize(stored, 0);
        let filled = self.fill(&mut buffer);
        self.stored = buffer;
        filled?;
        if read_u64(&header, CHECKED_PIECE_BYTES)
            != piece_hash(&header[..CHECKED_PIECE_BYTES], &self.stored, start)
        {
            return Err(self.damaged(start));
        }
        let Some(stored_as) = stored_as_of_number(header[1]) else {
            return Err(self.damaged(start));
        };
        self.bytes.resize(bytes, 0);
        if let Err(reason) = decode_into(stored_as, &self.stored, &mut self.bytes) {
            return Err(self.bad(&format!("the piece at {start:#x}: {reason}")));
        }
        let name =
            PieceName { kind: header[0], which: read_u32(&header, 4), value: read_u64(&header, 8) };
        Ok(Some((name, &self.bytes)))
    }

    /// Returns an error that says that something in the file makes no sense.
    pub fn bad(&self, reason: &str) -> Error {
        Error::BadCheckpoint { path: self.path.clone(), reason: reason.to_owned() }
    }

    fn damaged(&self, start: u64) -> Error {
        self.bad(&format!("the piece at {start:#x} is damaged"))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        if bytes.len() as u64 > self.length - self.offset {
            return Err(self.bad("it was cut off"));
        }
        self.input.read_exact(bytes).map_err(|error| Error::io("read", &self.path, error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// Hashes a piece with its offset, so that a moved piece is not taken for the one that belongs
/// there.
fn piece_hash(header: &[u8], stored: &[u8], offset: u64) -> u64 {
    let mut hash = Xxh3::with_seed(offset);
    hash.update(header);
    hash.update(stored);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { recording: 7, build: [3; 32] };

    fn written(folder: &Path) -> Vec<u8> {
        let mut writer = CheckpointWriter::create_in(folder, OWNER).unwrap();
        writer.put(PieceName { kind: 1, which: 2, value: 0x1000 }, &[5; 5000]).unwrap();
        writer.put(PieceName { kind: 9, which: 0, value: 0 }, &vec![1; MAX_PIECE_BYTES]).unwrap();
        writer.put(PieceName { kind: 2, which: 0, value: 8 }, b"few").unwrap();
        writer.complete().unwrap();
        assert_eq!(writer.bytes(), std::fs::metadata(writer.temporary.path()).unwrap().len());
        std::fs::read(writer.temporary.path()).unwrap()
    }

    /// Reads all pieces. The error says what is wrong.
    fn read(
        folder: &Path,
        bytes: &[u8],
        owner: Owner,
    ) -> std::result::Result<Vec<(PieceName, Vec<u8>)>, String> {
        let path = folder.join("checkpoint");
        std::fs::write(&path, bytes).unwrap();
        let mut reader = CheckpointReader::open(&path, owner).map_err(|error| error.to_string())?;
        let mut pieces = Vec::new();
        while let Some((name, bytes)) = reader.next_piece().map_err(|error| error.to_string())? {
            pieces.push((name, bytes.to_vec()));
        }
        Ok(pieces)
    }

    #[test]
    fn pieces_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(folder.path());
        let pieces = read(folder.path(), &bytes, OWNER).unwrap();
        let names: Vec<_> = pieces
            .iter()
            .map(|(name, bytes)| (name.kind, name.which, name.value, bytes.len()))
            .collect();
        assert_eq!(names, [(1, 2, 0x1000, 5000), (9, 0, 0, MAX_PIECE_BYTES), (2, 0, 8, 3)]);
        assert!(pieces[0].1 == [5; 5000] && pieces[2].1 == b"few");
    }

    #[test]
    fn what_is_not_as_it_was_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(folder.path());
        let other = Owner { recording: 8, ..OWNER };
        assert!(read(folder.path(), &bytes, other).unwrap_err().contains("another recording"));
        let other = Owner { build: [4; 32], ..OWNER };
        assert!(read(folder.path(), &bytes, other).unwrap_err().contains("another build"));
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 0x10;
            assert!(
                read(folder.path(), &changed, OWNER).is_err(),
                "byte {index} of {}",
                bytes.len()
            );
        }
        for end in [0, 1, 63, 64, 80, bytes.len() - 1] {
            assert!(read(folder.path(), &bytes[..end], OWNER).is_err(), "cut at {end}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(read(folder.path(), &longer, OWNER).unwrap_err().contains("more in it"));
        assert!(read(folder.path(), b"RTKC", OWNER).unwrap_err().contains("cut off"));
    }
}
