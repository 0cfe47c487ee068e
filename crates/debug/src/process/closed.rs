//! Text that a process has not executed yet: all of it is traps. Each leads to the instructions
//! that begin there, which are put back and noted.
//!
//! Who reads such text as data reads traps: so this is for copies, whose ways are compared with
//! what the process came to.

use super::{Process, TRAP};
use crate::ranges::Ranges;
use retake_patch::range::straight_run;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Instructions are looked at up to here.
const LONGEST_RUN: usize = 256;

/// Such text.
#[derive(Debug)]
pub(super) struct Closed {
    text: Vec<Range<u64>>,
    /// The memory of a process that has the text as it is.
    original: File,
    open: Ranges,
    /// How often a trap was met.
    traps: u64,
}

impl Process {
    /// Fills text with traps; `original`: the number of a process that has it as it is, as long as
    /// this one runs.
    ///
    /// # Errors
    /// It is not there.
    pub fn close_text(&mut self, text: Vec<Range<u64>>, original: i32) -> io::Result<()> {
        let traps = vec![TRAP; PIECE_BYTES];
        for range in &text {
            for address in range.clone().step_by(PIECE_BYTES) {
                self.write(address, &traps[..PIECE_BYTES.min((range.end - address) as usize)])?;
            }
        }
        let original = File::open(format!("/proc/{original}/mem"))?;
        self.closed = Some(Closed { text, original, open: Ranges::default(), traps: 0 });
        Ok(())
    }

    /// What of it was executed.
    pub fn opened(&self) -> Ranges {
        self.closed.as_ref().map(|closed| closed.open.clone()).unwrap_or_default()
    }

    /// Whether all the rest of it is still closed. A program may map a file anew where it was: what
    /// it executes there then, nobody notes.
    pub fn is_still_closed(&self) -> bool {
        let Some(closed) = &self.closed else { return false };
        let mut bytes = vec![0; PIECE_BYTES];
        closed.text.iter().all(|text| {
            text.clone().step_by(PIECE_BYTES).all(|start| {
                let piece = &mut bytes[..PIECE_BYTES.min((text.end - start) as usize)];
                let count = piece.len();
                let is_trap = |byte: &u8| *byte == TRAP;
                let gaps = closed.open.gaps(start, start + count as u64);
                self.memory.read_exact_at(piece, start).is_ok()
                    && gaps.iter().all(|&(from, to)| {
                        piece[(from - start) as usize..(to - start) as usize].iter().all(is_trap)
                    })
            })
        })
    }

    /// How many traps were met in it.
    pub fn opening_traps(&self) -> u64 {
        self.closed.as_ref().map_or(0, |closed| closed.traps)
    }

    /// Puts back so many bytes, as if they had been executed.
    ///
    /// # Errors
    /// They are not there.
    pub fn open(&mut self, address: u64, bytes: usize) -> io::Result<()> {
        let Some(mut closed) = self.closed.take() else { return Ok(()) };
        let result = self.put_back(&mut closed, address, bytes);
        self.closed = Some(closed);
        result
    }

    fn put_back(&self, closed: &mut Closed, address: u64, bytes: usize) -> io::Result<()> {
        let mut code = vec![0; bytes];
        closed.original.read_exact_at(&mut code, address)?;
        for (start, end) in closed.open.gaps(address, address + bytes as u64) {
            self.write(start, &code[(start - address) as usize..(end - address) as usize])?;
        }
        closed.open.insert(address, address + bytes as u64);
        Ok(())
    }

    /// A trap was met: puts back what begins there, if that is closed.
    pub(super) fn open_at(&mut self, address: u64) -> io::Result<bool> {
        let Some(closed) = &mut self.closed else { return Ok(false) };
        let Some(text) = closed.text.iter().find(|text| text.contains(&address)) else {
            return Ok(false);
        };
        if closed.open.touch(address, 1) {
            return Ok(false);
        }
        closed.traps += 1;
        let mut code = [0; LONGEST_RUN];
        let most = LONGEST_RUN.min((text.end - address) as usize);
        closed.original.read_exact_at(&mut code[..most], address)?;
        let bytes = straight_run(address, &code[..most]);
        self.open(address, bytes)?;
        Ok(bytes > 0)
    }
}
