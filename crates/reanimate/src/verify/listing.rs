//! Directory listings. The file system determines the order, the offsets and the number of entries
//! in a call. Only the names and types are compared.

use std::collections::HashMap;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use crate::calls::u16_at;

/// The most entries of a directory that are compared. Larger directories are only listed.
const MAXIMUM_ENTRIES: usize = 1 << 20;

/// An entry as the kernel wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// `DT_*`, if the file system gives the type.
    pub kind: Option<u8>,
}

/// Reads the output of `getdents` (`has_type` false) or `getdents64`. An incomplete entry is left
/// out.
pub fn entries(bytes: &[u8], has_type: bool) -> impl Iterator<Item = Entry> {
    const LENGTH_OFFSET: usize = 16;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, LENGTH_OFFSET)?);
        let record = rest.get(..length)?;
        rest = &rest[length..];
        let name_offset = if has_type { 19 } else { 18 };
        let name = record.get(name_offset..)?.split(|byte| *byte == 0).next()?.to_vec();
        let kind = if has_type { record.get(18) } else { record.last() }.copied();
        Some(Entry { name, kind: kind.filter(|kind| *kind != libc::DT_UNKNOWN) })
    })
}

/// The entries that a directory had when its listing began, without those that the trace has listed
/// since.
#[derive(Debug, Default)]
pub struct Listing {
    left: HashMap<Vec<u8>, u8>,
    /// Whether the directory was too large to keep.
    is_partial: bool,
}

impl Listing {
    /// Lists a directory from its beginning.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn read(directory: impl std::os::fd::AsFd) -> Result<Self, Errno> {
        rustix::fs::seek(&directory, rustix::fs::SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(64 << 10);
        let mut listing = Self::default();
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if listing.left.len() >= MAXIMUM_ENTRIES {
                listing.is_partial = true;
                break;
            }
            listing
                .left
                .insert(entry.file_name().to_bytes().to_vec(), type_number(entry.file_type()));
        }
        Ok(listing)
    }

    /// Removes entries that the trace listed. Returns those that do not exist, then those that have
    /// another type.
    pub fn take(&mut self, listed: impl Iterator<Item = Entry>) -> (Vec<Entry>, Vec<Entry>) {
        let (mut missing, mut changed) = (Vec::new(), Vec::new());
        for entry in listed {
            match self.left.remove(&entry.name) {
                None if self.is_partial => {}
                None => missing.push(entry),
                Some(libc::DT_UNKNOWN) => {}
                Some(kind) if entry.kind.is_some_and(|expected| kind != expected) => {
                    changed.push(entry)
                }
                Some(_) => {}
            }
        }
        (missing, changed)
    }

    /// The entries that the trace did not list although its listing was complete.
    pub fn rest(&self) -> Vec<&[u8]> {
        if self.is_partial {
            return Vec::new();
        }
        self.left.keys().map(Vec::as_slice).collect()
    }
}

fn type_number(kind: FileType) -> u8 {
    match kind {
        FileType::RegularFile => libc::DT_REG,
        FileType::Directory => libc::DT_DIR,
        FileType::Symlink => libc::DT_LNK,
        FileType::Fifo => libc::DT_FIFO,
        FileType::Socket => libc::DT_SOCK,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::BlockDevice => libc::DT_BLK,
        FileType::Unknown => libc::DT_UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an entry in the format of `getdents64`.
    pub fn raw(name: &str, kind: u8) -> Vec<u8> {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let mut bytes = vec![0; length];
        bytes[16..18].copy_from_slice(&(length as u16).to_le_bytes());
        bytes[18] = kind;
        bytes[19..19 + name.len()].copy_from_slice(name.as_bytes());
        bytes
    }

    #[test]
    fn entries_are_read_with_care() {
        let bytes = [raw("a", libc::DT_REG), raw("directory", libc::DT_DIR)].concat();
        let names: Vec<_> = entries(&bytes, true).map(|entry| entry.name).collect();
        assert_eq!(names, [b"a".to_vec(), b"directory".to_vec()]);
        assert_eq!(entries(&bytes[..bytes.len() - 1], true).count(), 1);
        let mut endless = raw("a", 0);
        endless[16] = 0;
        assert_eq!(entries(&endless, true).count(), 0);
    }

    #[test]
    fn order_and_portions_do_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["one", "two", "three"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let mut listing = Listing::read(std::fs::File::open(folder.path()).unwrap()).unwrap();
        let first = [raw("three", libc::DT_REG), raw(".", libc::DT_DIR)].concat();
        assert_eq!(listing.take(entries(&first, true)), (Vec::new(), Vec::new()));
        let second =
            [raw("..", libc::DT_DIR), raw("four", libc::DT_REG), raw("one", libc::DT_DIR)].concat();
        let (missing, changed) = listing.take(entries(&second, true));
        assert_eq!(
            (missing[0].name.as_slice(), changed[0].name.as_slice()),
            (&b"four"[..], &b"one"[..])
        );
        assert_eq!(listing.rest(), [b"two"]);
    }
}
