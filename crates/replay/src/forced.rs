//! Helping a replayed thread to stop where it was forced: what its code looks like around there, and where a stub has room.
//! The runtime plants and compares; see `docs/FORCED.md`.

use retake_kernel::maps::{self, Mapping};
use retake_kernel::shared::{RUNTIME_END, RUNTIME_TEXT};
use retake_kernel::{memory, shared};
use retake_patch::watch::{self, Text};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

const PAGE_BYTES: u64 = 4096;
/// A relative jump must reach the stub, and the stub what the displaced instructions refer to.
const REACH: u64 = 0x4000_0000;
/// Nothing below can be mapped.
const LOWEST: u64 = 0x10_0000;
const HIGHEST: u64 = 0x7fff_ffff_0000;
/// Kept free below a mapping, which may be a stack that grows.
const ROOM_BELOW: u64 = 0x20_0000;
/// Layout of `struct watch_answer`.
const CODE_OFFSET: u64 = 0x600;
const CODE_BYTES: usize = 96;

/// Answers REQUEST_WATCH: 0, or -1 when the process cannot be looked at.
pub(crate) fn answer(slot: &shared::Slot) -> i64 {
    let argument = |at: usize| slot.lines.request_arguments[at].load(Relaxed);
    let pid = slot.pid.load(Relaxed) as i32;
    match examine(pid, argument(0)).and_then(|bytes| memory::write(pid, argument(1), &bytes)) {
        Ok(()) => 0,
        Err(_) => -1, // the runtime does without: a trap and single steps
    }
}

/// The bytes of a `struct watch_answer`.
fn examine(pid: i32, address: u64) -> io::Result<Vec<u8>> {
    let all = maps::of_process(pid)?;
    let code = all.iter().find(|mapping| (mapping.start..mapping.end).contains(&address)).ok_or_else(|| io::Error::other("no code there"))?;
    let stub = free_page(&all, address).unwrap_or(0);
    let mut text = Text::new(|at: u64, page: &mut [u8; PAGE_BYTES as usize]| memory::read(pid, at, page).is_ok());
    let mut plan = watch::plan(&mut text, address, stub + CODE_OFFSET);
    if plan.code.len() > CODE_BYTES || stub == 0 {
        plan = watch::Plan { patch_bytes: 1, code: Vec::new() };
    }
    if address + plan.patch_bytes as u64 > code.end {
        plan.patch_bytes = 1; // goes on in another mapping: then what was displaced leads on too far, but nothing of it is overwritten
    }
    let words = [stub, u64::from(code.protection()), plan.patch_bytes as u64, plan.code.len() as u64];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(&plan.code);
    bytes.resize(words.len() * 8 + CODE_BYTES, 0);
    Ok(bytes)
}

/// The free page nearest to `address`, if one is near enough.
fn free_page(mappings: &[Mapping], address: u64) -> Option<u64> {
    let ends = mappings.iter().map(|mapping| mapping.end);
    let starts = mappings.iter().map(|mapping| mapping.start);
    let gaps = std::iter::once(LOWEST).chain(ends).zip(starts.chain(std::iter::once(HIGHEST)));
    gaps.flat_map(|(low, high)| [low, high.saturating_sub(ROOM_BELOW)].map(|page| (low, page & !(PAGE_BYTES - 1), high)))
        .filter(|&(low, page, high)| page >= low.max(LOWEST) && page + PAGE_BYTES + ROOM_BELOW <= high)
        .map(|(_, page, _)| page)
        .filter(|page| !(RUNTIME_TEXT..RUNTIME_END).contains(page) && page.abs_diff(address) < REACH)
        .min_by_key(|page| page.abs_diff(address))
}
