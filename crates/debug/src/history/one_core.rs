//! Keeps a process on one core if its code may notice on which core it runs.
//!
//! The CPUID instruction tells. In files it is patched, and if the processor can trap it, it is
//! answered from the recording. On other processors, code that the program makes at run time
//! executes it. Then every run through that code must see the same core, or memory would differ
//! between runs.

use crate::error::Result;
use crate::history::target::Target;
use retake_kernel::call_tracer::Processors;
use retake_kernel::shared::{Header, OPTION_NO_CPUID_FAULT};
use retake_model::Event;
use retake_recording::{EventReader, Recording};
use std::sync::atomic::Ordering::{Relaxed, Release};

const MMAP: u16 = libc::SYS_mmap as u16;
const CHANGES_PROTECTION: [u16; 2] = [libc::SYS_mprotect as u16, libc::SYS_pkey_mprotect as u16];

/// Keeps the process of `target`, which waits with one thread, on one core if needed, with all
/// threads and copies that it will have.
///
/// # Errors
/// The recording cannot be read, or the machine forbids it.
pub(crate) fn keep_on_one_core(
    header: &Header,
    recording: &Recording,
    target: &Target,
    pid: i32,
) -> Result<()> {
    if header.options.load(Relaxed) & OPTION_NO_CPUID_FAULT == 0 || !makes_code(recording, target)?
    {
        return Ok(());
    }
    let Some(core) = Processors::of(pid)?.first() else { return Ok(()) };
    core.give(pid)?;
    header.is_on_one_core.store(1, Release);
    Ok(())
}

/// Whether a process may execute code that is not in a file.
fn makes_code(recording: &Recording, target: &Target) -> Result<bool> {
    for stream in recording.streams().filter(|stream| stream.info.pid == target.pid) {
        let mut reader = EventReader::new(recording, stream.info.id)?;
        while let Some(numbered) = reader.next()? {
            let Ok(event) = &numbered.event else { break };
            if event.number() != MMAP && !CHANGES_PROTECTION.contains(&event.number()) {
                continue;
            }
            if let Event::Call(call) = event.decode()
                && is_for_code(call.number(), |index| call.argument(index).unwrap_or(0))
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a call makes memory executable that is not just part of a file.
fn is_for_code(number: u16, argument: impl Fn(usize) -> u64) -> bool {
    let (protection, flags) = (argument(2) as i32, argument(3) as i32);
    let is_changeable =
        flags & (libc::MAP_ANONYMOUS | libc::MAP_SHARED) != 0 || protection & libc::PROT_WRITE != 0;
    protection & libc::PROT_EXEC != 0
        && (CHANGES_PROTECTION.contains(&number) || number == MMAP && is_changeable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_no_code_made_at_run_time() {
        let (execute, write) =
            (libc::PROT_READ | libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE);
        let mapped = |protection: i32, flags: i32| {
            is_for_code(MMAP, |index| [0, 4096, protection as u64, flags as u64][index])
        };
        assert!(
            !mapped(execute, libc::MAP_PRIVATE)
                && !mapped(write, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
        );
        assert!(
            mapped(execute, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
                && mapped(execute, libc::MAP_SHARED)
        );
        assert!(mapped(execute | libc::PROT_WRITE, libc::MAP_PRIVATE));
        let protected = |protection: i32| {
            is_for_code(libc::SYS_mprotect as u16, |index| [0, 4096, protection as u64, 0][index])
        };
        assert!(protected(execute) && !protected(write));
    }
}
