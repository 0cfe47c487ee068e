//! The output of the program. Each piece is shown once, the first time that the program prints it.
//! Running the same code again prints nothing.
//!
//! Replayed processes append their output to a file. Each piece follows a header that `console.c`
//! writes.

use retake_model::event::Console as Which;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEADER_BYTES: usize = 24;
const PIECE_BYTES: usize = 64 << 10;
const ERROR: u32 = 2;
/// The file that replayed processes append to.
const INCOMING: &str = "console";

/// A stored piece of output.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Its offset in the file of stored output.
    at: u64,
    bytes: u32,
    is_error: bool,
}

/// Takes a piece: the number of its output and the offset in it, whether it was standard error, and
/// the bytes.
type TakePiece<'a> = &'a mut dyn FnMut((u64, u64), bool, &[u8]);

/// All output so far.
pub(crate) struct Console {
    incoming: File,
    read: u64,
    given_back: u64,
    kept: File,
    kept_bytes: u64,
    /// The pieces, by the output's number among all outputs and the offset in it.
    pieces: BTreeMap<(u64, u64), Piece>,
    /// The stream that gets each new piece.
    pub listener: Option<Box<dyn Write>>,
}

impl Console {
    /// Makes a console with files in `folder`. Also returns the file to which the processes append.
    ///
    /// # Errors
    /// The files cannot be made.
    pub fn new(folder: &Path) -> io::Result<(Self, File)> {
        let path = folder.join(INCOMING);
        let appended = File::options().create_new(true).append(true).open(&path)?;
        let incoming = File::options().read(true).write(true).open(&path)?;
        let kept = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(folder.join("console-kept"))?;
        Ok((
            Self {
                incoming,
                read: 0,
                given_back: 0,
                kept,
                kept_bytes: 0,
                pieces: BTreeMap::new(),
                listener: None,
            },
            appended,
        ))
    }

    /// Opens the file for the processes of another replay. Output that they print again is known.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn again(folder: &Path) -> io::Result<File> {
        File::options().append(true).open(folder.join(INCOMING))
    }

    /// Reads the new output of the processes. A listener that is gone is no error.
    ///
    /// # Errors
    /// The output cannot be read or stored.
    pub fn collect(&mut self) -> io::Result<()> {
        let end = self.incoming.metadata()?.len();
        while self.read + HEADER_BYTES as u64 <= end {
            let mut header = [0; HEADER_BYTES];
            self.incoming.read_exact_at(&mut header, self.read)?;
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
            let (ticket, offset) = (word(0), word(8));
            let (descriptor, bytes) = (word(16) as u32, (word(16) >> 32) as u32);
            let start = self.read + HEADER_BYTES as u64;
            if start + u64::from(bytes) > end {
                // The rest has not been written yet.
                break;
            }
            if let Entry::Vacant(place) = self.pieces.entry((ticket, offset)) {
                place.insert(Piece { at: self.kept_bytes, bytes, is_error: descriptor == ERROR });
                self.keep(start, u64::from(bytes))?;
            }
            self.read = start + u64::from(bytes);
        }
        self.give_back();
        Ok(())
    }

    /// Frees the space of the output that was read, since a program may print much again and again.
    fn give_back(&mut self) {
        let whole = self.read - self.read % PIECE_BYTES as u64;
        if whole > self.given_back {
            let flags =
                rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            // If the file system cannot punch holes, the file stays large until the session ends.
            let _ = rustix::fs::fallocate(
                &self.incoming,
                flags,
                self.given_back,
                whole - self.given_back,
            );
            self.given_back = whole;
        }
    }

    fn keep(&mut self, start: u64, bytes: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let mut buffer = vec![0; PIECE_BYTES.min((bytes - done) as usize)];
            self.incoming.read_exact_at(&mut buffer, start + done)?;
            self.keep_bytes(&buffer)?;
            done += buffer.len() as u64;
        }
        Ok(())
    }

    fn keep_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.kept.write_all_at(bytes, self.kept_bytes)?;
        self.kept_bytes += bytes.len() as u64;
        if let Some(listener) = &mut self.listener
            && listener.write_all(bytes).is_err()
        {
            self.listener = None;
        }
        Ok(())
    }

    /// Adds a piece that the program printed in a part of its run that this session skipped.
    ///
    /// # Errors
    /// As [`Console::collect`].
    pub fn add(&mut self, place: (u64, u64), is_error: bool, bytes: &[u8]) -> io::Result<()> {
        if let Entry::Vacant(place) = self.pieces.entry(place) {
            place.insert(Piece { at: self.kept_bytes, bytes: bytes.len() as u32, is_error });
            self.keep_bytes(bytes)?;
        }
        Ok(())
    }

    /// Hands over all pieces of the wanted outputs.
    ///
    /// # Errors
    /// The pieces cannot be read.
    pub fn each(&self, is_wanted: &dyn Fn(u64) -> bool, take: TakePiece<'_>) -> io::Result<()> {
        for (&(ticket, offset), piece) in
            self.pieces.iter().filter(|((ticket, _), _)| is_wanted(*ticket))
        {
            let mut done = 0;
            while done < u64::from(piece.bytes) {
                let mut buffer = vec![0; PIECE_BYTES.min((u64::from(piece.bytes) - done) as usize)];
                self.kept.read_exact_at(&mut buffer, piece.at + done)?;
                take((ticket, offset + done), piece.is_error, &buffer);
                done += buffer.len() as u64;
            }
        }
        Ok(())
    }

    /// Hands over the outputs with numbers up to `last`, of one kind or both.
    ///
    /// # Errors
    /// The outputs cannot be read.
    pub fn printed(
        &self,
        last: u64,
        which: Option<Which>,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        self.each(&|ticket| ticket <= last, &mut |_, is_error, bytes| {
            if which.is_none_or(|which| (which == Which::Err) == is_error) {
                take(bytes);
            }
        })
    }
}

/// Output as text, because gdb's scripts accept nothing else. Invalid bytes become `\xaa`.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(ticket: u64, descriptor: u32, offset: u64, text: &str) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [ticket, offset].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(descriptor.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.bytes());
        bytes
    }

    #[test]
    fn every_piece_is_kept_once_and_in_order() {
        let folder =
            std::env::temp_dir().join(format!("retake-console-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut console, mut file) = Console::new(&folder).unwrap();
        let pieces = [
            record(4, 1, 0, "two\n"),
            record(2, 1, 0, "one\n"),
            record(3, 2, 0, "error\n"),
            record(2, 1, 0, "one\n"),
        ];
        for piece in &pieces {
            file.write_all(piece).unwrap();
        }
        // Half of a piece is there.
        file.write_all(&record(5, 1, 0, "later")[..26]).unwrap();
        console.collect().unwrap();
        let text = |last: u64, which: Option<Which>| {
            let mut all = Vec::new();
            console.printed(last, which, &mut |bytes| all.extend_from_slice(bytes)).unwrap();
            String::from_utf8(all).unwrap()
        };
        assert_eq!(text(9, None), "one\nerror\ntwo\n");
        assert_eq!(text(3, None), "one\nerror\n");
        assert_eq!(text(9, Some(Which::Out)), "one\ntwo\n");
        assert_eq!(text(9, Some(Which::Err)), "error\n");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(readable(b"\xc3\xbc\xaa\n"), "\u{fc}\\xaa\n");
    }
}
