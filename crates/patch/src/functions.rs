//! The functions of a file: the parts of the text that may be decoded as instructions.
//!
//! Text contains data too (most of libcrypto's `0f 05` are tables). Only the ranges that a symbol,
//! an unwinding table or Go's function table calls functions are decoded.

use crate::bytes::u32_at;
use crate::candidates::Candidate;
use crate::chunk::Chunk;
use crate::declared::Declared;
use crate::elf::{ElfView, Section};
use crate::flow::inferred_end;
use crate::image::{SYSCALL, SiteKind};
use crate::jump::JUMP_BYTES;
use crate::pclntab::go_functions;
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, EhFrame, EhFrameHdr, EndianSlice,
    LittleEndian, UnwindSection,
};
use std::collections::HashMap;

type Header<'data> = CommonInformationEntry<EndianSlice<'data, LittleEndian>>;

/// The most bytes decoded to infer the ends of functions. Without a limit, symbols at the same
/// places would make the time quadratic.
const INFERENCE_TOTAL_BYTES: usize = 1 << 26;

/// All system calls have numbers below this.
const NUMBER_LIMIT: u32 = 1024;

/// A function with an exception table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExceptionTable {
    pub function: u64,
    pub address: u64,
}

/// The functions of a file.
pub(crate) struct Functions {
    /// The chunks by address. A chunk ends where another function starts.
    pub chunks: Vec<Chunk>,
    pub exception_tables: Vec<ExceptionTable>,
    /// Whether the file tells its functions. If not, `chunks` are all of its text.
    pub known: bool,
    /// The compiler's declarations about single instructions.
    pub declared: Declared,
}

/// Collects all functions that the file tells of.
pub(crate) fn find_functions(elf: &ElfView, candidates: &[Candidate]) -> Functions {
    let mut ranges = Vec::new();
    let mut starts = Vec::new();
    for symbol in elf.function_symbols() {
        match symbol.bytes {
            0 => starts.push(symbol.address),
            bytes => ranges
                .push(Chunk { start: symbol.address, end: symbol.address.saturating_add(bytes) }),
        }
    }
    let mut exception_tables = Vec::new();
    unwind_ranges(elf, &mut ranges, &mut exception_tables);
    ranges.extend(go_functions(elf));
    // Libraries have no entry point: address 0 is the ELF header then.
    if elf.entry != 0 && !(ranges.is_empty() && starts.is_empty()) {
        starts.push(elf.entry);
    }
    starts.sort_unstable();
    starts.dedup();
    let mut left_bytes = INFERENCE_TOTAL_BYTES;
    for start in starts.into_iter().filter(|start| elf.is_text(*start)) {
        let Some(end) = inferred_end(elf, start, &mut left_bytes) else {
            continue;
        };
        ranges.push(Chunk { start, end });
    }
    let chunks = cut(elf, ranges);
    if chunks.is_empty() {
        return Functions {
            chunks: all_text(elf, candidates),
            exception_tables: Vec::new(),
            known: false,
            declared: Declared::default(),
        };
    }
    let chunks = with_plain_calls(elf, chunks, candidates);
    Functions { chunks, exception_tables, known: true, declared: Declared::of(elf) }
}

/// Clips ranges to the text and cuts them at every start, so that they do not overlap, and each
/// function is decoded from its beginning.
fn cut(elf: &ElfView, mut ranges: Vec<Chunk>) -> Vec<Chunk> {
    ranges.retain_mut(|range| {
        let Some(segment) = elf.text_segments().find(|segment| segment.holds(range.start)) else {
            return false;
        };
        range.end = range.end.min(segment.file_end());
        range.start < range.end
    });
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut chunks: Vec<Chunk> = Vec::with_capacity(ranges.len());
    let mut covered = 0;
    for (index, range) in ranges.iter().enumerate() {
        covered = covered.max(range.end);
        let next = ranges.get(index + 1).map_or(u64::MAX, |next| next.start);
        if next > range.start {
            chunks.push(Chunk { start: range.start, end: covered.min(next) });
        }
    }
    chunks
}

/// The text for a linear sweep: the `.text` section if there is one, or whole segments. The sweep
/// starts anew at every plain system call, so that data before it cannot hide it.
fn all_text(elf: &ElfView, candidates: &[Candidate]) -> Vec<Chunk> {
    let section = elf.section(b".text").map(|text| Chunk {
        start: text.address,
        end: text.address.saturating_add(text.bytes.len() as u64),
    });
    let mut ranges = cut(elf, section.into_iter().collect());
    if ranges.is_empty() {
        ranges.extend(
            elf.text_segments()
                .map(|segment| Chunk { start: segment.address, end: segment.file_end() }),
        );
    }
    ranges.extend(plain_calls(elf, candidates));
    cut(elf, ranges)
}

/// Adds the plain system calls outside all known functions. The C library ends the unwinding entry
/// of `clone` and `clone3` right before the call.
fn with_plain_calls(elf: &ElfView, mut chunks: Vec<Chunk>, candidates: &[Candidate]) -> Vec<Chunk> {
    let mut outside = Vec::new();
    for call in plain_calls(elf, candidates) {
        let after = chunks.partition_point(|chunk| chunk.end <= call.start);
        match chunks.get_mut(after) {
            Some(chunk) if chunk.start <= call.start && chunk.end == call.start + JUMP_BYTES => {
                chunk.end = call.end
            }
            Some(chunk) if chunk.start < call.end => {}
            _ => outside.push(call),
        }
    }
    chunks.extend(outside);
    chunks.sort_unstable_by_key(|chunk| chunk.start);
    chunks
}

fn plain_calls(elf: &ElfView, candidates: &[Candidate]) -> impl Iterator<Item = Chunk> {
    let calls = candidates.iter().filter(|candidate| candidate.kind == Some(SiteKind::SystemCall));
    calls.filter_map(|candidate| {
        let start = candidate.address.checked_sub(JUMP_BYTES)?;
        is_plain_call(elf.bytes_from(start)).then_some(Chunk { start, end: candidate.address + 2 })
    })
}

/// Whether `bytes` begin with `mov $number,%eax; syscall`. These seven bytes have no other meaning,
/// inside a function or not.
pub(crate) fn is_plain_call(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0xb8)
        && u32_at(bytes, 1).is_some_and(|number| number < NUMBER_LIMIT)
        && bytes[JUMP_BYTES as usize..].starts_with(&SYSCALL)
}

/// Adds the functions of the unwinding table, which is found by its section or else by its program
/// header.
fn unwind_ranges(elf: &ElfView, ranges: &mut Vec<Chunk>, tables: &mut Vec<ExceptionTable>) {
    let Some(frames) = elf.section(b".eh_frame").or_else(|| frames_by_header(elf)) else {
        return;
    };
    let mut bases = BaseAddresses::default().set_eh_frame(frames.address);
    if let Some(text) = elf.section(b".text") {
        bases = bases.set_text(text.address);
    }
    let section = EhFrame::new(frames.bytes, LittleEndian);
    // Many entries share one header. Parsing it once keeps the time for a hostile table linear.
    let mut headers: HashMap<usize, gimli::Result<Header>> = HashMap::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let frame = partial.parse(|section, bases, offset| {
            let header =
                headers.entry(offset.0).or_insert_with(|| section.cie_from_offset(bases, offset));
            header.clone()
        });
        let Ok(frame) = frame else { continue };
        let start = frame.initial_address();
        let end = start.saturating_add(frame.len());
        ranges.push(Chunk { start, end });
        if let Some(gimli::Pointer::Direct(address)) = frame.lsda() {
            tables.push(ExceptionTable { function: start, address });
        }
    }
}

fn frames_by_header<'data>(elf: &ElfView<'data>) -> Option<Section<'data>> {
    let header = elf.unwind_header()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.address);
    let parsed = EhFrameHdr::new(header.bytes, LittleEndian).parse(&bases, 8).ok()?;
    let gimli::Pointer::Direct(address) = parsed.eh_frame_ptr() else {
        return None;
    };
    let bytes = elf.bytes_from(address);
    (!bytes.is_empty()).then_some(Section { address, bytes })
}
