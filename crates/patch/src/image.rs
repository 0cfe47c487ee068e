//! The result of patching: images, sites, and the verdict on a file.
//!
//! All addresses are *link-time* addresses, as the file's program headers give them. Where the file
//! is loaded at another place, add the load bias with wrapping arithmetic to each of them.

use crate::PAGE_BYTES;
use crate::jump::JUMP_BYTES;
use crate::lazy_binding;
use std::fmt;
use std::ops::Range;

/// Where the stub area lies relative to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// From the first page after the file's last segment: libraries and the dynamic linker.
    After,
    /// Ending at the page of the file's first segment: main programs, whose heap follows them.
    Before,
}

/// What a site is, and so what its stub does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// `syscall`
    SystemCall,
    /// `rdtsc`
    Rdtsc,
    /// `rdtscp`
    Rdtscp,
    /// `cpuid`
    Cpuid,
    /// An instruction that reads and writes memory in one step: a section of its own.
    Atomic,
    /// Where a function begins that is a section as a whole.
    SectionBegin,
    /// An instruction by which such a function is left.
    SectionEnd,
    /// Where a function begins whose calls are counted in the thread's context, at `%gs:0x140`:
    /// when the count becomes negative, the runtime is entered.
    Passage,
}

impl SiteKind {
    /// Every kind.
    pub const ALL: [SiteKind; 8] = [
        SiteKind::SystemCall,
        SiteKind::Rdtsc,
        SiteKind::Rdtscp,
        SiteKind::Cpuid,
        SiteKind::Atomic,
        SiteKind::SectionBegin,
        SiteKind::SectionEnd,
        SiteKind::Passage,
    ];

    /// Those that are one instruction each, for which the runtime stands in.
    pub const REPLACED: [SiteKind; 4] =
        [SiteKind::SystemCall, SiteKind::Rdtsc, SiteKind::Rdtscp, SiteKind::Cpuid];

    /// Whether it must not be executed unnoticed. CPUID may: it traps by itself, or answers alike.
    pub fn must_be_seen(self) -> bool {
        matches!(self, SiteKind::SystemCall | SiteKind::Rdtsc | SiteKind::Rdtscp)
    }

    /// Whether it belongs to a section, so that the instruction is executed by the program itself.
    pub fn is_of_section(self) -> bool {
        matches!(self, SiteKind::Atomic | SiteKind::SectionBegin | SiteKind::SectionEnd)
    }

    /// The instruction without prefixes, for which the runtime stands in; nothing where the program
    /// executes it itself.
    pub fn opcode(self) -> Option<&'static [u8]> {
        match self {
            SiteKind::SystemCall => Some(&SYSCALL),
            SiteKind::Rdtsc => Some(&[0x0f, 0x31]),
            SiteKind::Rdtscp => Some(&[0x0f, 0x01, 0xf9]),
            SiteKind::Cpuid => Some(&[0x0f, 0xa2]),
            SiteKind::Atomic
            | SiteKind::SectionBegin
            | SiteKind::SectionEnd
            | SiteKind::Passage => None,
        }
    }
}

/// Bytes of the longest edit of an instruction that becomes a trap where it is.
const TRAPPED_BYTES: u64 = 3;

/// `syscall`
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// At least one site was patched.
    Patched(Image),
    /// The file's own text is to be used.
    Unpatched(Unpatched),
}

impl Verdict {
    /// The image, if there is one.
    pub fn into_image(self) -> Option<Image> {
        match self {
            Verdict::Patched(image) => Some(image),
            Verdict::Unpatched(_) => None,
        }
    }

    /// The sites that were recognised and left alone.
    pub fn refused(&self) -> &[RefusedSite] {
        match self {
            Verdict::Patched(image) => &image.refused,
            Verdict::Unpatched(unpatched) => &unpatched.refused,
        }
    }

    /// Without an image nobody takes care of them, nor if patches lie on them.
    pub(crate) fn with_unreached(mut self, unreached: Vec<Range<u64>>) -> Self {
        match &mut self {
            Verdict::Patched(image) => {
                let is_free = |pages: &Range<u64>| {
                    image
                        .rewritten()
                        .all(|(start, bytes)| start + bytes <= pages.start || start >= pages.end)
                };
                image.unknown_calls |= !unreached.iter().all(is_free);
                image.unreached = unreached;
            }
            Verdict::Unpatched(unpatched) => unpatched.unknown_calls |= !unreached.is_empty(),
        }
        self
    }

    /// Whether the text may call the kernel or read the counter at a place that is not patched: see
    /// [`Image::unknown_calls`].
    pub fn unknown_calls(&self) -> bool {
        match self {
            Verdict::Patched(image) => image.unknown_calls,
            Verdict::Unpatched(unpatched) => unpatched.unknown_calls,
        }
    }
}

/// What is known of a file that got no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpatched {
    /// Why there is none.
    pub reason: UnpatchedReason,
    /// Sites that were recognised; empty where the text has none.
    pub refused: Vec<RefusedSite>,
    /// As [`Image::unknown_calls`].
    pub unknown_calls: bool,
}

/// Why a file got no image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpatchedReason {
    /// No executable segment contains a pattern of interest.
    NoSites,
    /// There are patterns, but none could be accepted.
    AllRefused,
    /// The file is so large that a stub and its site, or what a displaced instruction refers to,
    /// are more than 2 GiB apart.
    OutOfReach,
    /// The text is large and executes only `cpuid`: see [`crate::Options::cpuid_text_limit`].
    NotWorthwhile,
    /// The text is full of patterns, as no program's is: it was not examined.
    TooManyPatterns,
}

/// A patched copy of the executable segments of a file, and the stubs its jumps lead to.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// One for each executable segment that has patched sites, by address.
    pub segments: Vec<ImageSegment>,
    /// Where the stubs go: a link-time, page-aligned address. With [`Placement::Before`] and a file
    /// linked at 0 it lies below zero and has wrapped around; the sum with the load bias is right
    /// all the same.
    pub stub_address: u64,
    /// The stub area: whole pages, beginning with an 8-byte literal for each [`crate::Entry`], the
    /// addresses of the runtime's entries.
    pub stubs: Vec<u8>,
    /// Page-aligned start of the first loadable segment.
    pub low: u64,
    /// Page-aligned end of the last loadable segment in memory.
    pub high: u64,
    /// What was patched, by address.
    pub sites: Vec<Site>,
    /// What was recognised and left alone, by address.
    pub refused: Vec<RefusedSite>,
    /// Instructions of the dynamic linker that save and restore registers, which shorter ones of
    /// the same length replace.
    pub saves: Vec<u64>,
    /// Where instructions became traps that no stub stands for: RDRAND and its kin, and what would
    /// change `%gs`.
    pub trapped: Vec<u64>,
    /// Whole pages, untouched by the image, in which no function is known, but the bytes of such
    /// instructions occur (see below): tables, most likely, as in libcrypto. The loader of the file
    /// must take care that they are not executed unnoticed.
    pub unreached: Vec<Range<u64>>,
    /// Whether the bytes of an instruction that calls the kernel or reads the time-stamp counter
    /// occur, at any offset in executable bytes, where they were neither patched (with no way past
    /// the patch) nor proven to be inside another instruction, nor are on unreached pages. Where
    /// this is false for all text of a process, the kernel need not make them trap, but for the
    /// signal restorers ([`Refusal::SignalReturn`]), which do not count.
    pub unknown_calls: bool,
}

/// Without the bytes, which nobody wants to see.
impl fmt::Debug for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Image")
            .field("segments", &self.segments)
            .field("stub_address", &format_args!("{:#x}", self.stub_address))
            .field("stub_bytes", &self.stubs.len())
            .field("low", &format_args!("{:#x}", self.low))
            .field("high", &format_args!("{:#x}", self.high))
            .field("sites", &self.sites)
            .field("refused", &self.refused)
            .field("unknown_calls", &self.unknown_calls)
            .finish()
    }
}

impl fmt::Debug for ImageSegment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ImageSegment")
            .field("file_offset", &format_args!("{:#x}", self.file_offset))
            .field("address", &format_args!("{:#x}", self.address))
            .field("byte_count", &self.bytes.len())
            .finish()
    }
}

impl Image {
    /// Ranges of text, as address and bytes, outside which the image is the file.
    pub fn rewritten(&self) -> impl Iterator<Item = (u64, u64)> {
        let sites = self.sites.iter().flat_map(|site| {
            let jump = (site.patch_address, u64::from(site.patch_length));
            let far_jump = site.pad_address.map(|pad| (pad, JUMP_BYTES));
            [Some(jump), far_jump, Some((site.address, u64::from(site.length)))]
        });
        let traps = self
            .refused
            .iter()
            .filter_map(|site| Some((site.address, site.kind.opcode()?.len() as u64)));
        let saves = self.saves.iter().map(|address| (*address, lazy_binding::INSTRUCTION_BYTES));
        let trapped = self.trapped.iter().map(|address| (*address, TRAPPED_BYTES));
        sites.flatten().chain(traps).chain(saves).chain(trapped)
    }

    /// Runs of pages that hold everything rewritten, by address: at most `most` of them, or one for
    /// each segment. What lies between runs is the file's own, and so much of it that leaving it
    /// alone pays: pages of the file come from the page cache, and many at once.
    pub fn rewritten_runs(&self, most: usize) -> Vec<Run> {
        let mut pages: Vec<u64> = self
            .rewritten()
            .flat_map(|(start, bytes)| [start, start + bytes - 1])
            .map(|address| address / PAGE_BYTES)
            .collect();
        pages.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for page in pages {
            let address = page * PAGE_BYTES;
            let Some(segment) = self.segments.iter().position(|segment| {
                address.wrapping_sub(segment.address) < segment.bytes.len() as u64
            }) else {
                continue;
            };
            match runs.last_mut() {
                Some(run)
                    if run.segment == segment && address < run.address + run.bytes + NEAR_BYTES =>
                {
                    run.bytes = address + PAGE_BYTES - run.address
                }
                _ => runs.push(Run { segment, address, bytes: PAGE_BYTES }),
            }
        }
        while runs.len() > most {
            let gap = |at: usize| runs[at + 1].address - runs[at].address - runs[at].bytes;
            let same_segment =
                (0..runs.len() - 1).filter(|&at| runs[at].segment == runs[at + 1].segment);
            let Some(at) = same_segment.min_by_key(|&at| gap(at)) else { break };
            let next = runs.remove(at + 1);
            runs[at].bytes = next.address + next.bytes - runs[at].address;
        }
        runs
    }

    /// The address in the file's text that an address in the stub area stands for: where a debugger
    /// should say the program is. `None` for an address outside the stubs.
    pub fn text_address(&self, stub_address: u64) -> Option<u64> {
        let offset = stub_address.wrapping_sub(self.stub_address);
        if offset >= self.stubs.len() as u64 {
            return None;
        }
        let index = self.sites.partition_point(|site| u64::from(site.stub.offset) <= offset);
        let stub = &self.sites.get(index.checked_sub(1)?)?.stub;
        let within = u32::try_from(offset).ok()?.checked_sub(stub.offset)?;
        if within >= stub.length {
            return None;
        }
        let index = stub.points.partition_point(|point| point.offset <= within);
        stub.points.get(index.checked_sub(1)?).map(|point| point.text_address)
    }
}

/// One patched segment: what the kernel would show when it maps this part of the file, with the
/// patches in it.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageSegment {
    /// Page-aligned offset in the file.
    pub file_offset: u64,
    /// Page-aligned link-time address.
    pub address: u64,
    /// Whole pages; zero after the end of the file.
    pub bytes: Vec<u8>,
}

/// Runs of rewritten pages that lie closer together than this are one.
const NEAR_BYTES: u64 = 0x10000;

/// Whole pages of a patched segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Index of the segment.
    pub segment: usize,
    /// Page-aligned link-time address.
    pub address: u64,
    /// Whole pages.
    pub bytes: u64,
}

/// One patched instruction, or the first one of a function that is a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// What it asks for.
    pub kind: SiteKind,
    /// Address of the instruction.
    pub address: u64,
    /// Its bytes, prefixes included.
    pub length: u8,
    /// Where the jump is: 5 bytes, or 2 where it goes by way of padding.
    pub patch_address: u64,
    /// Bytes overwritten: the jump, then `int3` up to the next instruction that was kept.
    pub patch_length: u8,
    /// Where in padding the 5-byte jump is to which the 2-byte jump leads.
    pub pad_address: Option<u64>,
    /// Where the jump leads.
    pub stub: StubInfo,
}

/// One stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StubInfo {
    /// Offset in the stub area.
    pub offset: u32,
    /// Bytes of code.
    pub length: u32,
    /// The link-time address that the stub leaves in `%rcx`: where the runtime returns to. In the
    /// text, or in the stub where instructions after the site were displaced, or the site belongs
    /// to a section. An atomic instruction's is that of the first call.
    pub continue_at: u64,
    /// Which instruction of the text each part of the stub stands for, by offset; the first is at
    /// offset 0.
    pub points: Vec<StubPoint>,
}

/// From `offset` on (to the next point), the stub stands for the instruction at `text_address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StubPoint {
    /// Bytes from the start of the stub.
    pub offset: u32,
    /// Link-time address in the file's text.
    pub text_address: u64,
}

/// An instruction that was recognised and left alone: it works all the same, by a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedSite {
    /// What it asks for.
    pub kind: SiteKind,
    /// Address of the instruction.
    pub address: u64,
    /// Why.
    pub reason: Refusal,
}

/// Why a site is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes by which unwinders and debuggers recognise a signal frame.
    SignalReturn,
    /// No five bytes of instructions that can run elsewhere adjoin it.
    NoRoom,
    /// Five bytes do, but something may jump into them.
    JumpTarget,
    /// The function it is in does not decode cleanly.
    SuspectFunction,
    /// The file says nothing about its functions, and the site has not the one form that is safe
    /// regardless.
    NoFunctionTable,
    /// The options exclude its kind.
    NotWanted,
    /// A function that would be a section may run code of the program, for ever.
    IndirectCall,
    /// A function that would be a section is never left, or its parts cannot be told.
    NoExit,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(address: u64) -> Site {
        let stub = StubInfo { offset: 0, length: 0, continue_at: 0, points: Vec::new() };
        Site {
            kind: SiteKind::SystemCall,
            address,
            length: 2,
            patch_address: address - 5,
            patch_length: 5,
            pad_address: None,
            stub,
        }
    }

    fn image(sites: &[u64]) -> Image {
        let segment = |address: u64, pages: u64| ImageSegment {
            file_offset: address,
            address,
            bytes: vec![0; (pages * PAGE_BYTES) as usize],
        };
        Image {
            segments: vec![segment(0x10_0000, 0x800), segment(0x100_0000, 1)],
            stub_address: 0,
            stubs: Vec::new(),
            low: 0,
            high: 0,
            sites: sites.iter().copied().map(site).collect(),
            refused: Vec::new(),
            saves: Vec::new(),
            trapped: Vec::new(),
            unreached: Vec::new(),
            unknown_calls: false,
        }
    }

    fn runs(sites: &[u64], most: usize) -> Vec<(usize, u64, u64)> {
        image(sites)
            .rewritten_runs(most)
            .into_iter()
            .map(|run| (run.segment, run.address, run.bytes))
            .collect()
    }

    #[test]
    fn runs_hold_all_that_is_rewritten_and_little_else() {
        let sites = [0x10_0010, 0x11_0000, 0x20_0000, 0x50_0ffe, 0x80_0010, 0x100_0010];
        // The jump before 0x11_0000 is on the page before. What is 64 kB apart is apart.
        let apart = [
            (0, 0x10_0000, 0x1_1000),
            (0, 0x1f_f000, 0x2000),
            (0, 0x50_0000, 0x1000),
            (0, 0x80_0000, 0x1000),
            (1, 0x100_0000, 0x1000),
        ];
        assert_eq!(runs(&sites, 8), apart);
        let joined = [
            (0, 0x10_0000, 0x10_1000),
            (0, 0x50_0000, 0x1000),
            (0, 0x80_0000, 0x1000),
            (1, 0x100_0000, 0x1000),
        ];
        assert_eq!(runs(&sites, 4), joined, "the nearest are joined");
        assert_eq!(runs(&sites, 1).len(), 2, "never across segments");
    }
}
