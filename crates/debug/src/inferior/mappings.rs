//! System calls that change what is mapped. Behind them breakpoints are put in place again: code
//! may have come where none was, or gone. And watched memory may be another one.

use super::Inferior;
use crate::error::Result;
use crate::watchpoints::{Access, Watchpoint};
use retake_kernel::context;
use retake_model::table::number;

/// The calls.
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

/// What watched memory was before a thread made such a call.
#[derive(Debug, Default)]
pub(super) struct Before(Option<(i32, Vec<Vec<u8>>)>);

impl Inferior {
    /// The calls that threads are to announce because of what they map.
    pub(super) fn mapping_calls(&self) -> &'static [u16] {
        if self.stops.heed_mappings(&self.text) { &CALLS } else { &[] }
    }

    /// A thread announces a call, or that one returns.
    pub(super) fn heed_call(&mut self, tid: i32, kind: u64, call: u64) -> Result<()> {
        let is_heeded = self.mapping_calls().iter().any(|known| u64::from(*known) == call);
        match kind {
            context::DEBUG_CALL if is_heeded => {
                self.before = Before(Some((tid, self.watched_memory())));
            }
            context::DEBUG_RETURN if is_heeded => {
                self.text.refresh(self.process.pid);
                self.watch_mapping(tid)?;
                self.plant_anew(tid)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The contents of all that is watched. Where nothing is, they are zeros: as those of memory
    /// that comes there.
    pub fn watched_memory(&self) -> Vec<Vec<u8>> {
        self.stops.watchpoints.iter().map(|one| self.contents(one)).collect()
    }

    /// The first watchpoint whose memory is another one now, of those that are for changes.
    pub fn changed_since(&self, before: &[Vec<u8>]) -> Option<Watchpoint> {
        let mut all = self.stops.watchpoints.iter().zip(before);
        let is_changed = |(one, before): &(&Watchpoint, &Vec<u8>)| {
            one.access != Access::Read && self.contents(one) != **before
        };
        all.find(is_changed).map(|(one, _)| *one)
    }

    fn contents(&self, watchpoint: &Watchpoint) -> Vec<u8> {
        let mut bytes = vec![0; watchpoint.bytes as usize];
        self.read(watchpoint.address, &mut bytes);
        bytes
    }

    /// The program sees what its call changed when that returns.
    fn watch_mapping(&mut self, tid: i32) -> Result<()> {
        let Some((_, before)) = self.before.0.take().filter(|(caller, _)| *caller == tid) else {
            return Ok(());
        };
        if let Some(watchpoint) = self.changed_since(&before) {
            self.watch_in_call = Some(watchpoint);
            self.process.pause_after(tid, Some(0))?;
        }
        Ok(())
    }

    /// Puts breakpoints where they belong now. The processor's own are set in all threads.
    fn plant_anew(&mut self, tid: i32) -> Result<()> {
        if self.stops.breakpoints.iter().all(|address| self.text.is_lasting_code(*address)) {
            return Ok(());
        }
        self.process.stop_all()?;
        let (planting, mut ground) = self.ground_of(tid);
        planting.plant_anew(&mut ground)?;
        let code = self.stops.watched_code(&self.text);
        for other in self.process.threads().collect::<Vec<_>>() {
            self.stops.watchpoints.arm(other, &code)?;
        }
        Ok(self.process.resume_others(tid)?)
    }
}
