//! The vDSO of this boot, and its changes. They are computed once, and kept in the store's cache.

use retake_kernel::maps;
use retake_kernel::memory;
use retake_kernel::shared::{self, Header};
use retake_patch::{BOOTSTRAP_BYTES, build_vdso_patch, image_version, without_runtime};
use retake_recording::{ContentId, Store};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::sync::atomic::Ordering::Relaxed;

/// The result of [`build_vdso_patch`], as far as recording needs it. Offsets are from the vDSO's
/// first byte.
#[derive(Debug, Serialize, Deserialize)]
struct Changes {
    edits: Vec<(u64, Vec<u8>)>,
    bootstrap_offset: Option<u64>,
    /// Whether every function is replaced, so that nothing in it calls the kernel.
    is_covered: bool,
    /// The numbers of system calls, each with the offset at which its original function can be
    /// called.
    originals: Vec<(u32, u64)>,
}

impl Changes {
    fn build(vdso: &[u8]) -> Result<Self, String> {
        let patch = build_vdso_patch(vdso).map_err(|error| error.to_string())?;
        Ok(Self {
            edits: patch.edits.into_iter().map(|edit| (edit.offset, edit.bytes)).collect(),
            bootstrap_offset: patch.bootstrap_offset,
            is_covered: patch.left_alone.is_empty(),
            originals: patch.functions.iter().filter_map(|function| function.original).collect(),
        })
    }

    fn from_cache(store: &Store, key: &str, vdso: &[u8]) -> Option<Self> {
        let mut bytes = Vec::new();
        store.named_cache("vdso", key).ok()??.read_to_end(&mut bytes).ok()?;
        let changes: Self = serde_json::from_slice(&bytes).ok()?;
        let fits = |offset: u64, bytes: usize| {
            offset.checked_add(bytes as u64).is_some_and(|end| end <= vdso.len() as u64)
        };
        let usable = changes.edits.iter().all(|(offset, bytes)| fits(*offset, bytes.len()))
            && changes.bootstrap_offset.is_none_or(|offset| fits(offset, BOOTSTRAP_BYTES))
            && changes.originals.iter().all(|(_, offset)| fits(*offset, 1));
        usable.then_some(changes)
    }

    fn get(store: &Store, vdso: &[u8]) -> Result<Self, String> {
        let key = format!("{}-{}", ContentId::of(vdso), image_version());
        if let Some(changes) = Self::from_cache(store, &key, vdso) {
            return Ok(changes);
        }
        let changes = Self::build(vdso)?;
        // If the store cannot keep it, the next start takes half a millisecond longer. Other users
        // of the store report the error.
        let _ =
            serde_json::to_vec(&changes).map(|bytes| store.put_named_cache("vdso", &key, &bytes));
        Ok(changes)
    }
}

/// The vDSO that every process of this boot has, and its changes.
#[derive(Debug)]
pub struct Vdso {
    bytes: Vec<u8>,
    changes: Changes,
}

impl Vdso {
    /// The vDSO of this process. Without a store, the changes are computed.
    pub(crate) fn own(store: Option<&Store>) -> Result<Self, String> {
        let bytes = own_bytes().map_err(|error| error.to_string())?;
        let changes = match store {
            Some(store) => Changes::get(store, &bytes)?,
            None => Changes::build(&bytes)?,
        };
        Ok(Self { bytes, changes })
    }

    /// Whether every function was replaced, so that nothing in it calls the kernel.
    pub fn is_covered(&self) -> bool {
        self.changes.is_covered
    }

    /// The vDSO for a program that is recorded no more. Its functions are those of the kernel. What
    /// we put into its padding stays: handlers may return there, and it needs no runtime.
    pub fn for_unrecorded(&self) -> Vec<u8> {
        let mut bytes = self.patched();
        for (offset, edit) in &self.changes.edits {
            let range = *offset as usize..*offset as usize + edit.len();
            if self.bytes[range.clone()].iter().any(|byte| *byte != 0) {
                bytes[range.clone()].copy_from_slice(&self.bytes[range]);
            } else {
                without_runtime(&mut bytes[range]);
            }
        }
        bytes
    }

    /// The vDSO that a recorded program sees, with our jumps.
    pub fn patched(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for (offset, edit) in &self.changes.edits {
            let at = *offset as usize;
            bytes[at..at + edit.len()].copy_from_slice(edit);
        }
        bytes
    }

    /// The offset at which the bootstrap goes.
    pub fn bootstrap_offset(&self) -> Option<u64> {
        self.changes.bootstrap_offset
    }

    /// Tells the runtime about the changes.
    pub(crate) fn describe(&self, header: &Header) {
        header.vdso_bytes.store(self.bytes.len() as u32, Relaxed);
        let mut count = 0;
        for (offset, edit) in &self.changes.edits {
            for (piece, code) in edit.chunks(shared::VDSO_CODE_BYTES).enumerate() {
                let Some(slot) = header.vdso_patches.get(count) else { return };
                slot.offset
                    .store(*offset as u32 + (piece * shared::VDSO_CODE_BYTES) as u32, Relaxed);
                slot.bytes.store(code.len() as u32, Relaxed);
                shared::store_bytes(&slot.code, code);
                count += 1;
            }
        }
        header.vdso_patch_count.store(count as u32, Relaxed);
        for (clock, (number, offset)) in header.vdso_clocks.iter().zip(&self.changes.originals) {
            clock.number.store(*number, Relaxed);
            clock.offset.store(*offset as u32, Relaxed);
        }
    }
}

fn own_bytes() -> io::Result<Vec<u8>> {
    let pid = std::process::id() as i32;
    let mapping = maps::of_process(pid)?
        .into_iter()
        .find(|mapping| mapping.name == "[vdso]")
        .ok_or_else(|| io::Error::other("this process has none"))?;
    memory::read_vec(pid, mapping.start, (mapping.end - mapping.start) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cache_says_is_what_is_worked_out() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let worked_out = Vdso::own(None).unwrap();
        for _ in 0..2 {
            let cached = Vdso::own(Some(&store)).unwrap();
            assert_eq!(cached.patched(), worked_out.patched());
            assert_eq!(cached.bootstrap_offset(), worked_out.bootstrap_offset());
            assert_eq!(cached.changes.originals, worked_out.changes.originals);
        }
    }

    #[test]
    fn changes_beyond_the_vdso_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let vdso = own_bytes().unwrap();
        let wrong = Changes {
            edits: vec![(vdso.len() as u64 - 1, vec![0; 2])],
            bootstrap_offset: None,
            is_covered: true,
            originals: Vec::new(),
        };
        store.put_named_cache("vdso", "key", &serde_json::to_vec(&wrong).unwrap()).unwrap();
        assert!(Changes::from_cache(&store, "key", &vdso).is_none());
    }
}
