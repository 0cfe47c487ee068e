//! System calls that change mappings. After such a call breakpoints are planted again, because code
//! may have been mapped or unmapped. Watched memory may have been replaced.

use super::Inferior;
use super::planting::ground_of;
use crate::error::Result;
use crate::watchpoints::{Access, Watchpoint};
use retake_kernel::context;
use retake_model::table::number;

/// The calls that change mappings.
const CALLS: [u16; 11] = [
    number::MMAP,
    number::MPROTECT,
    number::MUNMAP,
    number::BRK,
    number::MREMAP,
    number::MADVISE,
    number::SHMAT,
    number::SHMDT,
    number::REMAP_FILE_PAGES,
    number::PKEY_MPROTECT,
    number::PROCESS_MADVISE,
];

/// The watched memory before a thread made such a call.
#[derive(Debug, Default)]
pub(super) struct Before(Option<(i32, Vec<Vec<u8>>)>);

/// The calls that threads must announce because of what they map.
pub(super) fn mapping_calls(inferior: &Inferior) -> &'static [u16] {
    if inferior.stops.heed_mappings(&inferior.text) { &CALLS } else { &[] }
}

/// Handles a thread's announcement of a call or of its return.
pub(super) fn heed_call(inferior: &mut Inferior, tid: i32, kind: u64, call: u64) -> Result<()> {
    let is_heeded = mapping_calls(inferior).iter().any(|known| u64::from(*known) == call);
    match kind {
        context::DEBUG_CALL if is_heeded => {
            inferior.before = Before(Some((tid, watched_memory(inferior))));
        }
        context::DEBUG_RETURN if is_heeded => {
            inferior.text.refresh(inferior.process.pid);
            watch_mapping(inferior, tid)?;
            plant_anew(inferior, tid)?;
        }
        _ => {}
    }
    Ok(())
}

/// The contents of all watched memory. Unmapped memory counts as zeros, like newly mapped memory.
pub(crate) fn watched_memory(inferior: &Inferior) -> Vec<Vec<u8>> {
    inferior.stops.watchpoints.iter().map(|one| contents(inferior, one)).collect()
}

/// The first watchpoint for writes whose memory has changed.
pub(crate) fn changed_since(inferior: &Inferior, before: &[Vec<u8>]) -> Option<Watchpoint> {
    let mut all = inferior.stops.watchpoints.iter().zip(before);
    let is_changed = |(one, before): &(&Watchpoint, &Vec<u8>)| {
        one.access != Access::Read && contents(inferior, one) != **before
    };
    all.find(is_changed).map(|(one, _)| *one)
}

fn contents(inferior: &Inferior, watchpoint: &Watchpoint) -> Vec<u8> {
    let mut bytes = vec![0; watchpoint.bytes as usize];
    inferior.read(watchpoint.address, &mut bytes);
    bytes
}

/// Reports a change that the call of a thread made to watched memory, when that call returns.
fn watch_mapping(inferior: &mut Inferior, tid: i32) -> Result<()> {
    let Some((_, before)) = inferior.before.0.take().filter(|(caller, _)| *caller == tid) else {
        return Ok(());
    };
    if let Some(watchpoint) = changed_since(inferior, &before) {
        inferior.watch_in_call = Some(watchpoint);
        inferior.process.pause_after(tid, Some(0))?;
    }
    Ok(())
}

/// Plants breakpoints again, and sets the processor's own breakpoints in all threads.
fn plant_anew(inferior: &mut Inferior, tid: i32) -> Result<()> {
    if inferior.stops.breakpoints.iter().all(|address| inferior.text.is_lasting_code(*address)) {
        return Ok(());
    }
    inferior.process.stop_all()?;
    let (planting, mut ground) = ground_of(inferior, tid);
    planting.plant_anew(&mut ground)?;
    let code = inferior.stops.watched_code(&inferior.text);
    for other in inferior.process.threads().collect::<Vec<_>>() {
        inferior.stops.watchpoints.arm(other, &code)?;
    }
    Ok(inferior.process.resume_others(tid)?)
}
