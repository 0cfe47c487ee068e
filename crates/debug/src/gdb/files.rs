//! Files that the debugger has open.

use crate::inferior::Inferior;
use crate::program::Program;
use retake_snapshot::in_runtime;
use std::fmt::Write;
use std::fs::File;

/// The most files that the debugger may have open.
const MOST_OPEN: usize = 1024;

/// An open file.
pub(super) enum Open {
    /// A file on this machine.
    Stored(File),
    /// Contents that are in no file.
    Made(Vec<u8>),
}

/// The open files, by descriptor.
#[derive(Default)]
pub(super) struct Files {
    open: Vec<Option<Open>>,
}

impl Files {
    /// Adds a file. Returns its descriptor; `None` if too many are open.
    pub fn add(&mut self, file: Open) -> Option<u32> {
        let free = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
        if free >= MOST_OPEN {
            return None;
        }
        self.open.resize_with(self.open.len().max(free + 1), || None);
        self.open[free] = Some(file);
        u32::try_from(free).ok()
    }

    /// The file of a descriptor.
    pub fn get(&self, descriptor: u32) -> Option<&Open> {
        self.open.get(descriptor as usize).and_then(Option::as_ref)
    }

    /// Frees a descriptor. Returns whether it was open.
    pub fn close(&mut self, descriptor: u32) -> bool {
        self.open.get_mut(descriptor as usize).and_then(Option::take).is_some()
    }
}

/// The lines of `/proc/PID/maps` without our own mappings.
pub(super) fn maps_text(inferior: &Inferior, program: &Program) -> String {
    let mut text = String::new();
    let names = program.names(inferior);
    for mapping in inferior.text.mappings().iter().filter(|mapping| {
        !in_runtime(mapping.start)
            && !inferior.text.is_stub(mapping.start)
            && !inferior.process.memory.is_probe_page(mapping.start)
    }) {
        let bit = |set, letter| if set { letter } else { '-' };
        let (read, write, execute) =
            (bit(mapping.readable, 'r'), bit(mapping.writable, 'w'), bit(mapping.executable, 'x'));
        let original = if mapping.name.starts_with('/') {
            inferior.text.original_at(mapping.start)
        } else {
            None
        };
        let known = original
            .and_then(|file| names.get(&file))
            .map(String::as_str)
            .or_else(|| program.role(mapping));
        let (offset, name) = (inferior.text.file_offset(mapping), known.unwrap_or(&mapping.name));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:08x}-{:08x} {read}{write}{execute}p {offset:08x} 00:00 0 {name}",
            mapping.start, mapping.end
        );
    }
    text
}

/// Copies the requested part of `bytes`. Returns its size, which is 0 at the end.
pub(super) fn part(bytes: &[u8], offset: u64, length: usize, buffer: &mut [u8]) -> usize {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let count = (bytes.len() - start).min(length).min(buffer.len());
    buffer[..count].copy_from_slice(&bytes[start..start + count]);
    count
}
