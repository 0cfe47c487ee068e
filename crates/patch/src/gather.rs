//! Separation of sites from look-alikes, and collection of the addresses near them that something
//! may jump to.

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

/// Bytes of the longest instruction of interest, and of the other ways into the kernel.
const LONGEST_SITE: u64 = 3;

/// Distance from a candidate within which the instruction that contains it must start and end.
const INSTRUCTION_BYTES: u64 = 16;

/// Bytes around a site that matter: the longest displaced run (8 instructions of 15 bytes), and the
/// reach of a short jump from there.
const SITE_REACH_BYTES: u64 = 8 * 15 + 130;

/// The instructions of interest in a file.
pub(crate) struct Recognised {
    /// Their addresses, ascending.
    pub sites: Vec<u64>,
    /// Whole pages without a known function that contain bytes of a call or of a counter read. They
    /// are probably data.
    pub unreached: Vec<Range<u64>>,
    /// Whether such bytes occur elsewhere, either where no instruction is known, or as an
    /// instruction that is no site.
    pub loose_sites: bool,
}

/// The pages that hold loose bytes, and whether there are loose bytes elsewhere.
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

/// The range between two known functions in the same segment.
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

/// One pass over the text between known functions. In programs without unwinding tables, that is
/// nearly all text.
struct Gaps<'a> {
    elf: &'a ElfView<'a>,
    functions: &'a Functions,
    gap: Range<u64>,
    decoder: Decoder<'a>,
    /// The instruction decoded last in this gap.
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

    /// Whether the bytes of `int $0x80` or `sysenter`, which 64-bit code does not use, occur by
    /// chance. That is so between known functions, inside an instruction of code without a symbol,
    /// or before bytes that are no instructions if no jump is between. Candidates must come in
    /// ascending order.
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

/// Decodes the functions with candidates, and finds out which candidates are instructions.
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
        // A site in a suspect function counts here, because it will be refused and counted then. A
        // look-alike in one proves nothing.
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

/// The result of [`gather`].
pub(crate) struct Gathered {
    pub survey: Survey,
    /// Addresses near sites that something may jump to, sorted.
    pub targets: Vec<u64>,
    /// Addresses among the targets that something other than a branch of a function refers to,
    /// sorted.
    pub references: Vec<u64>,
    /// Whether the targets are complete.
    pub targets_complete: bool,
}

/// Collects everything that may jump near the sites, which are in ascending order.
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
    // A word of data that looks like an address inside an instruction is no reference. Branches do
    // lead there, over a LOCK prefix.
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

/// The target of a jump in code outside all known functions.
fn unknown_target(elf: &ElfView, hit: &Hit) -> Option<u64> {
    is_unknown_jump(elf, hit).then_some(hit.target)
}

/// Returns the index of the chunk that contains an address.
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
