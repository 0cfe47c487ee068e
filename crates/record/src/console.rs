//! Finds where the program's output goes: which inherited descriptors lead to our standard output
//! and error, and how the runtime recognizes other descriptors that lead there.

use retake_kernel::inheritance;
use retake_kernel::shared::{self, Console, Header, Slot};
use retake_kernel::terminal;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

const CONSOLES: [u8; 2] = [shared::DESCRIPTOR_CONSOLE_OUT, shared::DESCRIPTOR_CONSOLE_ERR];

/// An open file, identified independently of the name by which it was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Terminal(u32),
    /// Device and inode number.
    File(u64, u64),
}

/// Identifies what is open at a descriptor. A character device other than a terminal does not
/// count, because its output is not read.
fn open_as(descriptor: i32) -> Option<Open> {
    let metadata =
        std::fs::metadata(Path::new("/proc/self/fd").join(descriptor.to_string())).ok()?;
    if metadata.file_type().is_char_device() {
        return terminal::device(descriptor).map(Open::Terminal);
    }
    Some(Open::File(metadata.dev(), metadata.ino()))
}

fn store(console: &Console, output: Option<Open>) {
    match output {
        Some(Open::Terminal(device)) => console.terminal.store(device, Relaxed),
        Some(Open::File(device, inode)) => {
            console.device.store(device, Relaxed);
            console.inode.store(inode, Relaxed);
        }
        None => {}
    }
}

/// Describes the console to the runtime, in the header and in the first process's slot.
pub fn describe(header: &Header, slot: &Slot) {
    // A descriptor that was closed when we started is closed for the program, too. What we have
    // opened there since is not its console.
    let outputs =
        [1, 2].map(|output| (!inheritance::was_closed(output)).then(|| open_as(output))?);
    for (console, output) in header.consoles.iter().zip(outputs) {
        store(console, output);
    }
    for descriptor in open_descriptors() {
        let index = match descriptor {
            0..=2 if inheritance::was_closed(descriptor) => None,
            1 => Some(0),
            2 => Some(1),
            _ => open_as(descriptor)
                .and_then(|this| outputs.iter().position(|output| *output == Some(this))),
        };
        if let Some(index) = index {
            note(slot, descriptor, CONSOLES[index]);
        }
    }
}

/// As [`describe`], for a process that runs already. The outputs of the process `named`, which the
/// user has named, are the console.
pub fn describe_of(pid: i32, named: i32, header: &Header, slot: &Slot) {
    let outputs = [1, 2].map(|output| open_in(named, output));
    if pid == named {
        for (console, output) in header.consoles.iter().zip(outputs) {
            store(console, output);
        }
    }
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    for descriptor in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        let this = open_in(pid, descriptor);
        let is = |index: usize| pid == named || this.is_some() && this == outputs[index];
        let index = match descriptor {
            1 if is(0) => Some(0),
            2 if is(1) => Some(1),
            _ => this.and_then(|this| outputs.iter().position(|output| *output == Some(this))),
        };
        if let Some(index) = index {
            note(slot, descriptor, CONSOLES[index]);
        }
    }
}

/// As [`open_as`], in another process.
fn open_in(pid: i32, descriptor: i32) -> Option<Open> {
    let metadata = std::fs::metadata(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    if metadata.file_type().is_char_device() {
        let device = metadata.rdev();
        let is_terminal = matches!(libc::major(device), 4 | 136..=143 | 204);
        return is_terminal.then_some(Open::Terminal(device as u32));
    }
    Some(Open::File(metadata.dev(), metadata.ino()))
}

fn open_descriptors() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn note(slot: &Slot, descriptor: i32, which: u8) {
    let uses = &slot.carried.uses;
    if let Some(low) = uses.low.get(descriptor as usize) {
        low.store(which, Relaxed);
        return;
    }
    let count = uses.high_count.load(Relaxed);
    if let Some(high) = uses.high.get(count as usize) {
        high.descriptor.store(descriptor as u32, Relaxed);
        high.r#use.store(u32::from(which), Relaxed);
        uses.high_count.store(count + 1, Relaxed);
    }
}
