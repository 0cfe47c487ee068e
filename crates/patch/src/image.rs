//! The result of patching: images, sites, and the verdict on a file.
//!
//! All addresses are *link-time* addresses, as in the file's program headers. If the file is loaded
//! elsewhere, the load bias must be added to each of them, with wrapping arithmetic.

use crate::PAGE_BYTES;
use crate::jump::JUMP_BYTES;
use crate::lazy_binding;
use std::fmt;
use std::ops::Range;

/// The position of the stub area relative to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// From the first page after the file's last segment, for libraries and the dynamic linker.
    After,
    /// Up to the page of the file's first segment, for main programs, whose heap follows them.
    Before,
}

/// The kind of a site, which decides what its stub does.
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
    /// An instruction that reads and writes memory in one step, and is a section of its own.
    Atomic,
    /// The beginning of a function that is one section.
    SectionBegin,
    /// An instruction that leaves such a function.
    SectionEnd,
    /// The beginning of a function whose calls are counted in the thread's context (`passages`).
    /// When the count becomes negative, the runtime is entered.
    Passage,
    /// An instruction that a thread executes in each round while it spins. The rounds are counted
    /// in the same way (`rounds`).
    Spin,
    /// Where a thread comes that calls a function by way of a slot which the dynamic linker has not
    /// bound yet.
    Binding,
}

impl SiteKind {
    /// All kinds.
    pub const ALL: [SiteKind; 10] = [
        SiteKind::SystemCall,
        SiteKind::Rdtsc,
        SiteKind::Rdtscp,
        SiteKind::Cpuid,
        SiteKind::Atomic,
        SiteKind::SectionBegin,
        SiteKind::SectionEnd,
        SiteKind::Passage,
        SiteKind::Spin,
        SiteKind::Binding,
    ];

    /// The kinds that are one instruction, which the runtime executes instead.
    pub const REPLACED: [SiteKind; 4] =
        [SiteKind::SystemCall, SiteKind::Rdtsc, SiteKind::Rdtscp, SiteKind::Cpuid];

    /// Whether the runtime must see each execution. It need not see CPUID, which traps by itself,
    /// or always gives the same answer.
    pub fn must_be_seen(self) -> bool {
        matches!(self, SiteKind::SystemCall | SiteKind::Rdtsc | SiteKind::Rdtscp)
    }

    /// Whether it belongs to a section. The program executes the instruction itself then.
    pub fn is_of_section(self) -> bool {
        matches!(self, SiteKind::Atomic | SiteKind::SectionBegin | SiteKind::SectionEnd)
    }

    /// The opcode of an instruction that the runtime executes instead, without prefixes. `None` if
    /// the program executes it.
    pub fn opcode(self) -> Option<&'static [u8]> {
        match self {
            SiteKind::SystemCall => Some(&SYSCALL),
            SiteKind::Rdtsc => Some(&[0x0f, 0x31]),
            SiteKind::Rdtscp => Some(&[0x0f, 0x01, 0xf9]),
            SiteKind::Cpuid => Some(&[0x0f, 0xa2]),
            SiteKind::Atomic
            | SiteKind::SectionBegin
            | SiteKind::SectionEnd
            | SiteKind::Passage
            | SiteKind::Spin
            | SiteKind::Binding => None,
        }
    }
}

/// Bytes of the longest edit of an instruction that becomes a trap in place.
const TRAPPED_BYTES: u64 = 3;

/// `syscall`
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The result of patching a file.
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

    /// The sites that were recognised but not patched.
    pub fn refused(&self) -> &[RefusedSite] {
        match self {
            Verdict::Patched(image) => &image.refused,
            Verdict::Unpatched(unpatched) => &unpatched.refused,
        }
    }

    /// Adds the unreached pages. A page counts as a place of unknown calls if there is no image to
    /// handle it, or if patches are on it.
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

/// The facts about a file that got no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpatched {
    /// The reason.
    pub reason: UnpatchedReason,
    /// The sites that were recognised. Empty if the text has none.
    pub refused: Vec<RefusedSite>,
    /// See [`Image::unknown_calls`].
    pub unknown_calls: bool,
}

/// Why a file got no image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpatchedReason {
    /// No executable segment contains a pattern of interest.
    NoSites,
    /// There are patterns, but no site could be patched.
    AllRefused,
    /// The file is so large that a stub is more than 2 GiB away from its site, or from what a
    /// displaced instruction refers to.
    OutOfReach,
    /// The text is large and executes only `cpuid`: see [`crate::Options::cpuid_text_limit`].
    NotWorthwhile,
    /// The text has more patterns than any program. It was not examined.
    TooManyPatterns,
}

/// A patched copy of the executable segments of a file, and the stubs its jumps lead to.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// One for each executable segment that has patched sites, by address.
    pub segments: Vec<ImageSegment>,
    /// Link-time address of the stubs, page-aligned. With [`Placement::Before`] and a file linked
    /// at 0 it is below zero and has wrapped around. Its sum with the load bias is right
    /// nevertheless.
    pub stub_address: u64,
    /// The stub area in whole pages. It begins with an 8-byte literal for each [`crate::Entry`]:
    /// the addresses of the runtime's entries.
    pub stubs: Vec<u8>,
    /// Page-aligned start of the first loadable segment.
    pub low: u64,
    /// Page-aligned end of the last loadable segment in memory.
    pub high: u64,
    /// The patched sites, by address.
    pub sites: Vec<Site>,
    /// The sites that were recognised but not patched, by address.
    pub refused: Vec<RefusedSite>,
    /// Instructions of the dynamic linker that save and restore registers, and were replaced by
    /// FXSAVE and FXRSTOR of the same length.
    pub saves: Vec<u64>,
    /// Addresses of instructions that became traps without a stub: RDRAND and similar ones, and
    /// those that would change `%gs`.
    pub trapped: Vec<u64>,
    /// Whole pages, not rewritten by the image, that have no known function but bytes of such
    /// instructions (see below). They are probably tables, as in libcrypto. The loader of the file
    /// must make sure that they are not executed unnoticed.
    pub unreached: Vec<Range<u64>>,
    /// Whether the executable bytes have, at any offset, an instruction that calls the kernel or
    /// reads the time-stamp counter, unless it was patched (with no way past the patch), is proven
    /// to be inside another instruction, or is on unreached pages. If this is false for all text of
    /// a process, the kernel need not make these instructions trap. Signal restorers
    /// ([`Refusal::SignalReturn`]) do not count.
    pub unknown_calls: bool,
}

/// Leaves out the bytes, which are of no use to a reader.
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
    /// Ranges of rewritten text, as address and length. The rest of the image is equal to the file.
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

    /// Runs of pages that contain everything rewritten, by address: at most `most`, or one for each
    /// segment if there are more segments. The largest gaps are left to the file: its pages come
    /// from the page cache, many at a time.
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

    /// Returns the address in the file's text that an address in the stub area stands for. A
    /// debugger shows the program there. `None` for an address outside the stubs.
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

/// One patched segment: the bytes that the kernel would map for this part of the file, with the
/// patches.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageSegment {
    /// Page-aligned offset in the file.
    pub file_offset: u64,
    /// Page-aligned link-time address.
    pub address: u64,
    /// Whole pages; zero after the end of the file.
    pub bytes: Vec<u8>,
}

/// Runs of rewritten pages are joined if they are closer together than this, in bytes.
const NEAR_BYTES: u64 = 0x10000;

/// Whole pages of a patched segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Index of the segment.
    pub segment: usize,
    /// Page-aligned link-time address.
    pub address: u64,
    /// Size in bytes, a multiple of the page size.
    pub bytes: u64,
}

/// One patched instruction, or the first one of a function that is a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Kind of the site.
    pub kind: SiteKind,
    /// Address of the instruction.
    pub address: u64,
    /// Length of the instruction in bytes, with prefixes.
    pub length: u8,
    /// Address of the jump: 5 bytes, or 2 if it leads to padding.
    pub patch_address: u64,
    /// Bytes overwritten: the jump, then `int3` up to the next instruction that was kept.
    pub patch_length: u8,
    /// Address of the 5-byte jump in padding, to which a 2-byte jump leads.
    pub pad_address: Option<u64>,
    /// The stub to which the jump leads.
    pub stub: StubInfo,
}

/// One stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StubInfo {
    /// Offset in the stub area.
    pub offset: u32,
    /// Bytes of code.
    pub length: u32,
    /// The link-time address that the stub leaves in `%rcx`, at which the runtime continues. It is
    /// in the text, or in the stub if instructions after the site were displaced, or if the site
    /// belongs to a section. For an atomic instruction it is that of the first call.
    pub continue_at: u64,
    /// The instructions of the text that the parts of the stub stand for, by offset. The first is
    /// at offset 0.
    pub points: Vec<StubPoint>,
}

/// A part of a stub, up to the next point, that stands for the instruction at `text_address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StubPoint {
    /// Bytes from the start of the stub.
    pub offset: u32,
    /// Link-time address in the file's text.
    pub text_address: u64,
}

/// An instruction that was recognised but not patched. It still works, by a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedSite {
    /// Kind of the site.
    pub kind: SiteKind,
    /// Address of the instruction.
    pub address: u64,
    /// The reason.
    pub reason: Refusal,
}

/// Why a site is not patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has the bytes by which unwinders and debuggers recognise a signal frame.
    SignalReturn,
    /// It has no five adjacent bytes of instructions that can be displaced.
    NoRoom,
    /// It has five such bytes, but something may jump into them.
    JumpTarget,
    /// Its function does not decode cleanly.
    SuspectFunction,
    /// The file does not tell its functions, and the site is not of the one form that is safe
    /// nevertheless.
    NoFunctionTable,
    /// The options exclude its kind.
    NotWanted,
    /// A function that would be a section may run code of the program for ever.
    IndirectCall,
    /// A function that would be a section never returns, or its parts are unknown.
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
        // The jump before 0x11_0000 is on the page before. Runs 64 kB apart are not joined.
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
