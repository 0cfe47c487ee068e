//! Telling sites from look-alikes, and collecting what may jump near them.

use crate::candidates::Candidate;
use crate::elf::ElfView;
use crate::functions::{Chunk, Functions};
use crate::image::SiteKind;
use crate::landing_pads::landing_pad_targets;
use crate::pointers::{pointer_targets, table_targets};
use crate::scan::{Hit, is_unknown_jump, scan_text};
use crate::survey::{Listed, Role, Survey, survey};
use crate::windows::Windows;

/// Bytes around a candidate in which the instruction that holds it must start and end.
const INSTRUCTION_BYTES: u64 = 16;

/// Bytes around a site that matter: the longest run of instructions that is displaced (8 of 15 bytes each), and from there as far as a short jump reaches.
const SITE_REACH_BYTES: u64 = 8 * 15 + 130;

/// The instructions of interest in a file.
pub(crate) struct Recognised {
    /// Their addresses, ascending.
    pub sites: Vec<u64>,
    /// Whether bytes that could call the kernel occur where no instruction is known, or are one that is no site.
    pub loose_calls: bool,
}

/// Decodes the functions with candidates, to see which are instructions.
pub(crate) fn recognise(elf: &ElfView, functions: &Functions, candidates: &[Candidate]) -> Recognised {
    let addresses = || candidates.iter().map(|candidate| candidate.address);
    let windows = Windows::around(elf, addresses(), INSTRUCTION_BYTES);
    let wanted = chunks_near(&functions.chunks, addresses(), 0);
    let survey = survey(elf, functions, &windows, |index| wanted[index]);
    let is_site = |listed: &&Listed| matches!(listed.role, Role::Site(_));
    let sites: Vec<Listed> = survey.listing.iter().filter(is_site).copied().collect();
    let is_known = |candidate: &Candidate| {
        // A site in a suspect function will be refused, and is counted then; a look-alike in one proves nothing.
        let index = sites.partition_point(|site| site.address <= candidate.address);
        let at_site = sites[..index].last().is_some_and(|site| candidate.address < site.end());
        at_site || functions.known && survey.covering(candidate.address).is_some_and(|listed| listed.role != Role::Gate)
    };
    let may_call = |candidate: &&Candidate| matches!(candidate.kind, Some(SiteKind::SystemCall) | None);
    let loose_calls = candidates.iter().filter(may_call).any(|candidate| !is_known(candidate));
    Recognised { sites: sites.iter().map(|site| site.address).collect(), loose_calls }
}

/// What [`gather`] finds.
pub(crate) struct Gathered {
    pub survey: Survey,
    /// Addresses near sites that something may jump to, sorted.
    pub targets: Vec<u64>,
    /// Whether these are all.
    pub targets_complete: bool,
}

/// Collects all that may jump near the sites.
pub(crate) fn gather(elf: &ElfView, functions: &Functions, sites: &[u64]) -> Gathered {
    let windows = Windows::around(elf, sites.iter().copied(), SITE_REACH_BYTES);
    let scan = scan_text(elf, &windows);
    let known: &[Chunk] = if functions.known { &functions.chunks } else { &[] };
    let mut wanted = chunks_near(&functions.chunks, sites.iter().copied(), SITE_REACH_BYTES);
    let mut targets = Vec::new();
    for hit in &scan.hits {
        match chunk_index(&functions.chunks, hit.address) {
            Some(index) => wanted[index] = true,
            None => targets.extend(unknown_target(elf, hit)),
        }
    }
    let mut survey = survey(elf, functions, &windows, |index| wanted[index]);
    let mut references = std::mem::take(&mut survey.references);
    pointer_targets(elf, &windows, &mut references);
    let targets_complete = table_targets(elf, &windows, known, scan.table_bases, &mut references);
    for function in landing_pad_targets(elf, &windows, &functions.exception_tables, &mut references) {
        if let Ok(index) = known.binary_search_by_key(&function, |chunk| chunk.start) {
            survey.suspect[index] = true;
        }
    }
    // Data that happens to look like an address inside an instruction is not one; branches do lead there (over a LOCK prefix).
    references.retain(|address| !survey.is_inside_instruction(*address));
    targets.append(&mut survey.branches);
    targets.append(&mut references);
    targets.sort_unstable();
    targets.dedup();
    Gathered { survey, targets, targets_complete }
}

/// Where code outside all known functions jumps.
fn unknown_target(elf: &ElfView, hit: &Hit) -> Option<u64> {
    is_unknown_jump(elf, hit).then_some(hit.target)
}

fn chunk_index(chunks: &[Chunk], address: u64) -> Option<usize> {
    let index = chunks.partition_point(|chunk| chunk.start <= address).checked_sub(1)?;
    (address < chunks[index].end).then_some(index)
}

/// For each chunk, whether it has bytes within `reach` of one of `addresses`, which ascend.
fn chunks_near(chunks: &[Chunk], addresses: impl Iterator<Item = u64>, reach: u64) -> Vec<bool> {
    let mut near = vec![false; chunks.len()];
    for address in addresses {
        let (low, high) = (address.saturating_sub(reach), address + reach);
        let first = chunks.partition_point(|chunk| chunk.end <= low);
        let touched = chunks[first..].iter().take_while(|chunk| chunk.start <= high).count();
        near[first..first + touched].fill(true);
    }
    near
}
