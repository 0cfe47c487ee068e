//! Text that a process has not executed yet, filled with traps. A trap shows that the instructions
//! there are executed: they are put back and noted.
//!
//! A program that reads such text as data reads traps. So only copies get it, and their course is
//! compared with that of the process.

use crate::memory::{Memory, TRAP};
use crate::ranges::Ranges;
use retake_patch::range::straight_run;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The number of bytes written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The longest run of instructions that one trap puts back, in bytes.
const LONGEST_RUN: usize = 256;

/// Closed text of a process.
#[derive(Debug)]
pub struct ClosedText {
    text: Vec<Range<u64>>,
    /// The memory of a process that has the original text.
    original: File,
    open: Ranges,
    /// How many traps were hit.
    traps: u64,
}

impl ClosedText {
    /// Fills text with traps. `original` is the ID of a process that has the original text and
    /// outlives this one.
    ///
    /// # Errors
    /// The text cannot be written.
    pub fn close(memory: &Memory, text: Vec<Range<u64>>, original: i32) -> io::Result<Self> {
        let traps = vec![TRAP; PIECE_BYTES];
        for range in &text {
            for address in range.clone().step_by(PIECE_BYTES) {
                let count = PIECE_BYTES.min((range.end - address) as usize);
                memory.write(address, &traps[..count])?;
            }
        }
        let original = File::open(format!("/proc/{original}/mem"))?;
        Ok(Self { text, original, open: Ranges::default(), traps: 0 })
    }

    /// The parts of the text that were executed.
    pub fn opened(&self) -> &Ranges {
        &self.open
    }

    /// Whether the rest of the text is still closed. A program may map a file again over the text,
    /// and what it then executes there is not noted.
    pub fn is_still_closed(&self, memory: &Memory) -> bool {
        let mut bytes = vec![0; PIECE_BYTES];
        self.text.iter().all(|text| {
            text.clone().step_by(PIECE_BYTES).all(|start| {
                let piece = &mut bytes[..PIECE_BYTES.min((text.end - start) as usize)];
                let count = piece.len();
                let is_trap = |byte: &u8| *byte == TRAP;
                let gaps = self.open.gaps(start, start + count as u64);
                memory.read_as_it_is(start, piece).is_ok()
                    && gaps.iter().all(|&(from, to)| {
                        piece[(from - start) as usize..(to - start) as usize].iter().all(is_trap)
                    })
            })
        })
    }

    /// How many traps were hit in the text.
    pub fn traps(&self) -> u64 {
        self.traps
    }

    /// Puts this many bytes back, as if they had been executed.
    ///
    /// # Errors
    /// The bytes cannot be read or written.
    pub fn open(&mut self, memory: &Memory, address: u64, bytes: usize) -> io::Result<()> {
        let mut code = vec![0; bytes];
        self.original.read_exact_at(&mut code, address)?;
        for (start, end) in self.open.gaps(address, address + bytes as u64) {
            memory.write(start, &code[(start - address) as usize..(end - address) as usize])?;
        }
        self.open.insert(address, address + bytes as u64);
        Ok(())
    }

    /// Handles a trap: puts back the instructions there, if they are closed. Returns whether they
    /// were.
    pub(crate) fn open_at(&mut self, memory: &Memory, address: u64) -> io::Result<bool> {
        let Some(text) = self.text.iter().find(|text| text.contains(&address)) else {
            return Ok(false);
        };
        if self.open.touch(address, 1) {
            return Ok(false);
        }
        self.traps += 1;
        let mut code = [0; LONGEST_RUN];
        let most = LONGEST_RUN.min((text.end - address) as usize);
        self.original.read_exact_at(&mut code[..most], address)?;
        let bytes = straight_run(address, &code[..most]);
        self.open(memory, address, bytes)?;
        Ok(bytes > 0)
    }
}
