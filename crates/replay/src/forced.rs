//! Helps a replayed thread to stop at a forced point: describes the code around the point, and
//! finds room for a stub. The runtime plants the stub and compares; see `docs/FORCED.md`.

use retake_contract::context::{
    WATCH_CODE_BYTES, WATCH_CODE_OFFSET, WATCH_NO_START, WATCH_PATCH_BYTES, watch_answer,
};
use retake_contract::put_words;
use retake_kernel::maps::{self, Mapping};
use retake_kernel::shared::{RUNTIME_END, RUNTIME_TEXT};
use retake_kernel::{memory, shared};
use retake_patch::watch::{self, Moved, Place, Text};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

const PAGE_BYTES: u64 = 4096;
/// How far away a stub may be: a relative jump must reach the stub, and the displaced instructions
/// there must reach what they refer to.
const REACH: u64 = 0x4000_0000;
/// The lowest address that can be mapped.
const LOWEST: u64 = 0x10_0000;
const HIGHEST: u64 = 0x7fff_ffff_0000;
/// The bytes kept free below a mapping, which may be a stack that grows.
const ROOM_BELOW: u64 = 0x20_0000;
/// The number of pages tried in each gap. Every value of the upper bytes of a distance comes up
/// among them.
const MOST_PAGES: usize = (2 * REACH / PAGE_BYTES) as usize;

/// Answers REQUEST_WATCH of a thread of a process: 0, or -1 if the process cannot be read.
pub(crate) fn answer(pid: i32, slot: &shared::Slot) -> i64 {
    let argument = |at: usize| slot.request.arguments[at].load(Relaxed);
    match examine(pid, argument(0)).and_then(|bytes| memory::write(pid, argument(1), &bytes)) {
        Ok(()) => 0,
        // The runtime then uses a trap and single steps.
        Err(_) => -1,
    }
}

/// Returns the bytes of a `struct watch_answer`.
fn examine(pid: i32, address: u64) -> io::Result<Vec<u8>> {
    let all = maps::of_process(pid)?;
    let code = all
        .iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&address))
        .ok_or_else(|| io::Error::other("no code there"))?;
    let mut text = Text::new(|at: u64, page: &mut [u8; PAGE_BYTES as usize]| {
        memory::read(pid, at, page).is_ok()
    });
    let stub = Place::at(&mut text, address)
        .and_then(|place| stub_for(&place, &all, code, address))
        .unwrap_or_default();
    let flags_dead = u64::from(watch::flags_are_dead(&mut text, address));
    let mut bytes = vec![0; watch_answer::LAYOUT_BYTES as usize];
    put_words(&mut bytes, watch_answer::STUB, &[stub.page]);
    put_words(&mut bytes, watch_answer::ENTRY, &[stub.entry]);
    put_words(&mut bytes, watch_answer::PROTECTION, &[code.protection().into()]);
    put_words(&mut bytes, watch_answer::PATCH_BYTES, &[stub.patch_bytes.max(1)]);
    put_words(&mut bytes, watch_answer::CODE_BYTES, &[stub.moved.code.len() as u64]);
    put_words(&mut bytes, watch_answer::FLAGS_DEAD, &[flags_dead]);
    let starts = &mut bytes[watch_answer::STARTS as usize..][..WATCH_PATCH_BYTES];
    starts.fill(WATCH_NO_START);
    for (offset, place) in &stub.moved.starts {
        starts[usize::from(*offset)] = *place;
    }
    bytes[watch_answer::CODE as usize..][..stub.moved.code.len()].copy_from_slice(&stub.moved.code);
    Ok(bytes)
}

/// Where the stub is, and the code displaced into it. All zero if there is no stub.
#[derive(Default)]
struct Stub {
    page: u64,
    entry: u64,
    patch_bytes: u64,
    moved: Moved,
}

/// Returns a stub that a jump leads to, if the bytes of the jump can be such that they trap where
/// they must. Otherwise returns one that a trap leads to.
fn stub_for(place: &Place, all: &[Mapping], code: &Mapping, address: u64) -> Option<Stub> {
    [place.clone(), place.with_trap()].iter().find_map(|place| {
        let patch_bytes = place.patch_bytes();
        if patch_bytes > WATCH_PATCH_BYTES || address + patch_bytes as u64 > code.end {
            return None; // the displaced code goes on in another mapping
        }
        let (page, entry) = free_page(all, address, |page| place.entry_in(page))?;
        let moved = place
            .moved(page + WATCH_CODE_OFFSET)
            .filter(|moved| moved.code.len() <= WATCH_CODE_BYTES)?;
        Some(Stub { page, entry, patch_bytes: patch_bytes as u64, moved })
    })
}

/// Returns the nearest free page within reach for which `entry` finds an entry, and that entry.
fn free_page(
    mappings: &[Mapping],
    address: u64,
    entry: impl Fn(u64) -> Option<u64>,
) -> Option<(u64, u64)> {
    let ends = mappings.iter().map(|mapping| mapping.end);
    let starts = mappings.iter().map(|mapping| mapping.start);
    let lowest = address.saturating_sub(REACH).max(LOWEST);
    let highest = (address + REACH).min(HIGHEST);
    let gaps = std::iter::once(LOWEST).chain(ends).zip(starts.chain(std::iter::once(HIGHEST)));
    let usable = |page: &u64| !(RUNTIME_TEXT..RUNTIME_END).contains(page);
    gaps.map(|(low, high)| {
        (low.max(lowest), high.saturating_sub(ROOM_BELOW + PAGE_BYTES).min(highest))
    })
    .filter(|(low, last)| low <= last)
    .filter_map(|(low, last)| {
        let up = (low..=last).step_by(PAGE_BYTES as usize).take(MOST_PAGES);
        let down =
            (0..=(last - low) / PAGE_BYTES).map(|pages| last - pages * PAGE_BYTES).take(MOST_PAGES);
        let found = |page: u64| entry(page).map(|entry| (page, entry));
        if low >= address {
            up.filter(usable).find_map(found)
        } else {
            down.filter(usable).find_map(found)
        }
    })
    .min_by_key(|(page, _)| page.abs_diff(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0x5555_0000_1000;
    /// `lea 0x12345678(%rbx),%rax`. A jump overwrites all of it, so it may lead anywhere.
    const INSTRUCTION: &[u8] = b"\x48\x8d\x83\x78\x56\x34\x12";

    /// The bytes overwritten at [`CODE`] if the mapping has `bytes` bytes from there on.
    fn patch_bytes(bytes: u64) -> Option<u64> {
        let mut text = Text::new(|address: u64, page: &mut [u8; PAGE_BYTES as usize]| {
            page.fill(0x90);
            page[..INSTRUCTION.len()].copy_from_slice(INSTRUCTION);
            address == CODE
        });
        let place = Place::at(&mut text, CODE).unwrap();
        let line = format!("{CODE:x}-{:x} r-xp 00000000 00:00 0", CODE + bytes);
        let code = maps::parse(&line).unwrap().remove(0);
        stub_for(&place, std::slice::from_ref(&code), &code, CODE).map(|stub| stub.patch_bytes)
    }

    #[test]
    fn nothing_is_planted_beyond_the_end_of_the_mapping() {
        let whole = INSTRUCTION.len() as u64;
        assert_eq!(patch_bytes(whole + 1), Some(whole));
        assert_eq!(patch_bytes(whole), Some(whole));
        // A trap still fits.
        assert_eq!(patch_bytes(whole - 1), Some(1));
    }
}
