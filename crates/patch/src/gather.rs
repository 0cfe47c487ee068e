//! Telling sites from look-alikes, and collecting what may jump near them.

use crate::bytes::{page_ceiling, page_floor};
use crate::candidates::Candidate;
use crate::chunk::Chunk;
use crate::elf::ElfView;
use crate::functions::Functions;
use crate::image::SiteKind;
use crate::landing_pads::landing_pad_targets;
use crate::pointers::{pointer_targets, table_targets};
use crate::scan::{Hit, is_unknown_jump, scan_text};
use crate::survey::{Listed, Role, Survey, survey};
use crate::windows::Windows;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use std::ops::Range;

/// Bytes of the longest instruction of interest, and of any other way into the kernel.
const LONGEST_SITE: u64 = 3;

/// Bytes around a candidate in which the instruction that holds it must start and end.
const INSTRUCTION_BYTES: u64 = 16;

/// Bytes around a site that matter: the longest run of instructions that is displaced (8 of 15
/// bytes each), and from there as far as a short jump reaches.
const SITE_REACH_BYTES: u64 = 8 * 15 + 130;

/// The instructions of interest in a file.
pub(crate) struct Recognised {
    /// Their addresses, ascending.
    pub sites: Vec<u64>,
    /// Whole pages without a known function in which there are bytes that could call the kernel or
    /// read the counter: data, most likely.
    pub unreached: Vec<Range<u64>>,
    /// Whether there are such bytes elsewhere, where no instruction is known, or as one that is no
    /// site.
    pub loose_sites: bool,
}

/// The pages that hold what is loose, and whether something loose is not on such pages alone.
fn unreached(
    elf: &ElfView,
    functions: &Functions,
    loose: impl Iterator<Item = u64>,
) -> (Vec<Range<u64>>, bool) {
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut elsewhere = false;
    for address in loose {
        let pages = pages_between(elf, functions, address)
            .filter(|pages| pages.contains(&address) && address + LONGEST_SITE <= pages.end);
        match pages {
            Some(pages) if found.last() == Some(&pages) => {}
            Some(pages) => found.push(pages),
            None => elsewhere = true,
        }
    }
    (found, elsewhere)
}

/// The whole pages between the known functions before and after an address.
fn pages_between(elf: &ElfView, functions: &Functions, address: u64) -> Option<Range<u64>> {
    let gap = gap(elf, functions, address)?;
    Some(page_ceiling(gap.start)?..page_floor(gap.end))
}

/// What lies between two known functions, which are in the same text.
fn gap(elf: &ElfView, functions: &Functions, address: u64) -> Option<Range<u64>> {
    let segment = elf.text_segments().find(|segment| segment.holds(address))?;
    let next = functions.chunks.partition_point(|chunk| chunk.start <= address);
    let gap = functions.chunks[..next].last()?.end..functions.chunks.get(next)?.start;
    (functions.known
        && gap.contains(&address)
        && gap.start >= segment.address
        && gap.end <= segment.file_end())
    .then_some(gap)
}

/// Goes once through the text between known functions, which in programs without unwind tables is
/// nearly all of it.
struct Gaps<'a> {
    elf: &'a ElfView<'a>,
    functions: &'a Functions,
    gap: Range<u64>,
    decoder: Decoder<'a>,
    /// What was decoded last, in this gap.
    last: Instruction,
}

impl<'a> Gaps<'a> {
    fn new(elf: &'a ElfView<'a>, functions: &'a Functions) -> Self {
        Self {
            elf,
            functions,
            gap: 0..0,
            decoder: Decoder::new(64, &[], DecoderOptions::NONE),
            last: Instruction::default(),
        }
    }

    fn decode(&self, from: u64) -> Decoder<'a> {
        Decoder::with_ip(
            64,
            &self.elf.bytes_from(from)[..(self.gap.end - from) as usize],
            from,
            DecoderOptions::NONE,
        )
    }

    /// Whether the bytes of one of the other ways into the kernel, which 64-bit code does not use,
    /// are such by chance: between known functions, and either inside an instruction of code that
    /// has no symbol, or in front of bytes that are no instructions, before which nothing jumps. To
    /// be asked in ascending order.
    fn is_chance_gate(&mut self, candidate: &Candidate) -> bool {
        let Some(gap) =
            gap(self.elf, self.functions, candidate.address).filter(|_| candidate.kind.is_none())
        else {
            return false;
        };
        if self.gap != gap {
            self.gap = gap;
            self.decoder = self.decode(self.gap.start);
            self.last = self.decoder.decode();
        }
        while !self.last.is_invalid() && self.last.next_ip() <= candidate.address {
            self.last = self.decoder.decode();
        }
        let is_inside = !self.last.is_invalid() && self.last.ip() < candidate.address;
        let runs_on = |instruction: &Instruction| {
            matches!(instruction.flow_control(), FlowControl::Next | FlowControl::Interrupt)
                && !instruction.is_invalid()
        };
        is_inside
            || self
                .decode(candidate.address)
                .into_iter()
                .find(|instruction| !runs_on(instruction))
                .is_some_and(|instruction| instruction.is_invalid())
    }
}

/// Decodes the functions with candidates, to see which are instructions.
pub(crate) fn recognise(
    elf: &ElfView,
    functions: &Functions,
    candidates: &[Candidate],
) -> Recognised {
    let addresses = || candidates.iter().map(|candidate| candidate.address);
    let windows = Windows::around(elf, addresses(), INSTRUCTION_BYTES);
    let wanted = chunks_near(&functions.chunks, addresses(), 0);
    let survey = survey(elf, functions, &windows, |index| wanted[index]);
    let is_site = |listed: &&Listed| matches!(listed.role, Role::Site(_));
    let sites: Vec<Listed> = survey.listing.iter().filter(is_site).copied().collect();
    let is_known = |candidate: &Candidate| {
        // A site in a suspect function will be refused, and is counted then; a look-alike in one
        // proves nothing.
        let index = sites.partition_point(|site| site.address <= candidate.address);
        let at_site = sites[..index].last().is_some_and(|site| candidate.address < site.end());
        at_site
            || functions.known
                && survey
                    .covering(candidate.address)
                    .is_some_and(|listed| listed.role != Role::Gate)
    };
    let matters = |candidate: &&Candidate| candidate.kind.is_none_or(SiteKind::must_be_seen);
    let mut gaps = Gaps::new(elf, functions);
    let loose = candidates
        .iter()
        .filter(matters)
        .filter(|candidate| !is_known(candidate) && !gaps.is_chance_gate(candidate));
    let (unreached, loose_sites) =
        unreached(elf, functions, loose.map(|candidate| candidate.address));
    Recognised { sites: sites.iter().map(|site| site.address).collect(), unreached, loose_sites }
}

/// What [`gather`] finds.
pub(crate) struct Gathered {
    pub survey: Survey,
    /// Addresses near sites that something may jump to, sorted.
    pub targets: Vec<u64>,
    /// Those of them to which other things lead than branches of functions, sorted.
    pub references: Vec<u64>,
    /// Whether these are all.
    pub targets_complete: bool,
}

/// Collects all that may jump near the sites, which ascend.
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
    for function in landing_pad_targets(elf, &windows, &functions.exception_tables, &mut references)
    {
        if let Ok(index) = known.binary_search_by_key(&function, |chunk| chunk.start) {
            survey.suspect[index] = true;
        }
    }
    // Data that happens to look like an address inside an instruction is not one; branches do lead
    // there (over a LOCK prefix).
    references.retain(|address| !survey.is_inside_instruction(*address));
    survey.branches.sort_unstable();
    references.append(&mut targets);
    references.sort_unstable();
    targets.extend(survey.branches.iter().map(|branch| branch.target));
    targets.extend(&references);
    targets.sort_unstable();
    targets.dedup();
    Gathered { survey, targets, references, targets_complete }
}

/// Where code outside all known functions jumps.
fn unknown_target(elf: &ElfView, hit: &Hit) -> Option<u64> {
    is_unknown_jump(elf, hit).then_some(hit.target)
}

/// The chunk that holds an address.
pub(crate) fn chunk_index(chunks: &[Chunk], address: u64) -> Option<usize> {
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
