//! The stored form of files that are mostly holes: a list of their extents, and the data. A file of
//! terabytes of which a program uses a few pages is stored, hashed and packed as those pages.
//!
//! | bytes | what |
//! |---|---|
//! | 16 | [`MAGIC`] |
//! | 8 | size of the file |
//! | 8 | number of extents |
//! | 16 each | offset and size of an extent, ascending, none of them empty |
//! | | the bytes of the extents, one after the other |
//!
//! A file that itself begins like this is stored in this form, too, so that it is not mistaken for
//! one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;

const MAGIC: &[u8; 16] = b"retake sparse 1\n";
/// The least bytes of holes for which this form is used.
const LEAST_HOLES: u64 = 16 << 20;
/// The most extents accepted: each takes a few bytes of memory here.
const MOST_EXTENTS: u64 = 1 << 22;
const BLOCK_BYTES: usize = 1 << 20;

/// The extents of a file that have data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    bytes: u64,
    /// The offset and size of each extent.
    extents: Vec<(u64, u64)>,
}

impl Layout {
    /// Returns the layout of a file that is to be stored in this form; `None` if it is to be stored
    /// unchanged.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of(file: &File, bytes: u64) -> io::Result<Option<Self>> {
        let allocated = fstat(file)?.st_blocks as u64 * 512;
        let mut head = [0; MAGIC.len()];
        let is_like_one = read_some(file, &mut head, 0)? == head.len() && head == *MAGIC;
        if !is_like_one && bytes.saturating_sub(allocated) < LEAST_HOLES {
            return Ok(None);
        }
        let extents = extents(file, bytes)?;
        let data: u64 = extents.iter().map(|(_, count)| count).sum();
        let is_worth_it = is_like_one || bytes.saturating_sub(data) >= LEAST_HOLES;
        Ok(is_worth_it.then_some(Self { bytes, extents }))
    }

    /// Writes the stored form of the file.
    ///
    /// # Errors
    /// Those of reading and writing; `UnexpectedEof` if the file got shorter.
    pub fn write(&self, file: &File, target: &mut dyn Write) -> io::Result<()> {
        target.write_all(MAGIC)?;
        target.write_all(&self.bytes.to_le_bytes())?;
        target.write_all(&(self.extents.len() as u64).to_le_bytes())?;
        for (offset, count) in &self.extents {
            target.write_all(&offset.to_le_bytes())?;
            target.write_all(&count.to_le_bytes())?;
        }
        let mut block = vec![0; BLOCK_BYTES];
        for (offset, count) in &self.extents {
            for (start, size) in blocks(*offset, *count) {
                file.read_exact_at(&mut block[..size], start)?;
                target.write_all(&block[..size])?;
            }
        }
        Ok(())
    }
}

/// Returns the extents of a file that have data, ascending. If the file system cannot tell holes,
/// that is the whole file.
fn extents(file: &File, bytes: u64) -> io::Result<Vec<(u64, u64)>> {
    // The file is opened anew: searching for holes moves the position, which other processes may
    // share.
    let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let mut extents = Vec::new();
    let mut at = 0;
    while at < bytes {
        let start = match seek(&file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let end = seek(&file, SeekFrom::Hole(start)).unwrap_or(bytes).min(bytes);
        if start >= end {
            break;
        }
        extents.push((start, end - start));
        at = end;
    }
    Ok(extents)
}

/// Returns the size of the original file, or `None` if `stored` is not in this form.
///
/// # Errors
/// Those of reading.
pub fn expanded_size(stored: &File) -> io::Result<Option<u64>> {
    Ok(read_layout(stored)?.map(|layout| layout.bytes))
}

/// Writes the original file into the empty file `target`. Returns `false` if `stored` is not in
/// this form.
///
/// # Errors
/// Those of reading and writing; `InvalidData` if `stored` ends too early.
pub fn expand(stored: &File, target: &File) -> io::Result<bool> {
    let Some(layout) = read_layout(stored)? else { return Ok(false) };
    target.set_len(layout.bytes)?;
    let mut from = (MAGIC.len() + 16 + 16 * layout.extents.len()) as u64;
    let mut block = vec![0; BLOCK_BYTES];
    for (offset, count) in layout.extents {
        for (to, size) in blocks(offset, count) {
            stored.read_exact_at(&mut block[..size], from)?;
            target.write_all_at(&block[..size], to)?;
            from += size as u64;
        }
    }
    Ok(true)
}

fn read_layout(stored: &File) -> io::Result<Option<Layout>> {
    let mut head = [0; MAGIC.len() + 16];
    if read_some(stored, &mut head, 0)? < head.len() || head[..MAGIC.len()] != *MAGIC {
        return Ok(None);
    }
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
    };
    let (bytes, count) = (word(&head, MAGIC.len()), word(&head, MAGIC.len() + 8));
    if count > MOST_EXTENTS {
        return Err(invalid("a sparse file of too many extents"));
    }
    let mut table = Vec::new();
    let whole = 16 * count;
    Positioned { file: stored, at: head.len() as u64 }.take(whole).read_to_end(&mut table)?;
    if table.len() as u64 != whole {
        return Err(invalid("a sparse file whose table of extents is cut off"));
    }
    let extents: Vec<(u64, u64)> =
        table.chunks_exact(16).map(|entry| (word(entry, 0), word(entry, 8))).collect();
    let mut end = 0;
    for &(offset, count) in &extents {
        let next = offset.checked_add(count).filter(|next| *next <= bytes);
        if offset < end || count == 0 || next.is_none() {
            return Err(invalid("a sparse file whose extents are not in order"));
        }
        end = offset + count;
    }
    Ok(Some(Layout { bytes, extents }))
}

/// Splits an extent into pieces of at most a block. Returns their offsets and sizes.
fn blocks(offset: u64, count: u64) -> impl Iterator<Item = (u64, usize)> {
    let starts = (0..count).step_by(BLOCK_BYTES);
    starts.map(move |done| (offset + done, (count - done).min(BLOCK_BYTES as u64) as usize))
}

/// Reads as many bytes as there are, up to the size of the buffer.
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut reader = Positioned { file, at: offset };
    let mut done = 0;
    while done < buffer.len() {
        match reader.read(&mut buffer[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

/// A reader that does not move the position of its file.
struct Positioned<'file> {
    file: &'file File,
    at: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = loop {
            match self.file.read_at(buffer, self.at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.at += count as u64;
        Ok(count)
    }
}
