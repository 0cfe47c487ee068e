//! The patcher as a whole, from a file's bytes to a verdict.

use crate::bytes::{page_ceiling, page_floor};
use crate::candidates::find_candidates;
use crate::choice::{Chosen, Context, Pads, Plan};
use crate::elf::{ElfView, LoadSegment};
use crate::emit::{Emitted, OutOfReach, emit, jumps};
use crate::error::PatchError;
use crate::functions::find_functions;
use crate::gather::{Gathered, gather, recognise};
use crate::image::{
    Image, ImageSegment, Placement, Refusal, RefusedSite, SiteKind, Unpatched, UnpatchedReason,
    Verdict,
};
use crate::jump::Patch;
use crate::lazy_binding;
use crate::looks;
use crate::passages;
use crate::sections::{self, Wanted, choose_wanted};
use crate::spins;
use crate::survey::Role;
use crate::trapped;

/// The most candidates in a file. Real text has far fewer, and 200 MB of random bytes have a tenth
/// of it. This bounds the cost of a hostile file.
const CANDIDATE_LIMIT: usize = 1 << 17;

/// What to patch. The default is everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// Patch `syscall`.
    pub system_calls: bool,
    /// Patch `rdtsc` and `rdtscp`.
    pub time_stamp_counter: bool,
    /// Patch `cpuid`.
    pub cpuid: bool,
    /// A file with more bytes of text gets no image for `cpuid` alone: it executes `cpuid` only a
    /// few times at start, and the image of a compiler takes 100 MB.
    pub cpuid_text_limit: u64,
    /// Turn a `cpuid` that cannot be patched into [`CPUID_TRAP`], for processors on which `cpuid`
    /// itself does not trap.
    pub trap_cpuid: bool,
    /// Turn RDRAND, RDSEED, RDPID, RDGSBASE and WRGSBASE into traps in place.
    pub trap_others: bool,
    /// Make atomic instructions and the C library's functions that synchronise threads sections.
    pub sections: bool,
}

/// Replaces a `cpuid`: `int $0xa2`, which faults with a general protection error. Only one byte
/// differs.
pub const CPUID_TRAP: [u8; 2] = [0xcd, 0xa2];

/// Replaces every `syscall` that is surely one, patched or not, except in signal restorers:
/// `int $5`, which faults in the same way. A thread that reaches it past the jump is noticed even
/// where the kernel does not dispatch calls.
pub const CALL_TRAP: [u8; 2] = [0xcd, 0x05];

/// Replace every `rdtsc` and `rdtscp` that is surely one, patched or not, in the same way. The
/// counter itself then need not trap, which would cost time at every context switch.
pub const COUNTER_TRAPS: [&[u8]; 2] = [&[0xcd, 0x31], &[0xcd, 0xf9, NOP]];

const NOP: u8 = 0x90;

impl Default for Options {
    fn default() -> Self {
        Self {
            system_calls: true,
            time_stamp_counter: true,
            cpuid: true,
            cpuid_text_limit: 4 << 20,
            trap_cpuid: false,
            trap_others: true,
            sections: false,
        }
    }
}

impl Options {
    /// Only instructions that do not trap by themselves here, although their answers depend on the
    /// processor core or the time.
    pub fn untrappable() -> Self {
        Self { system_calls: false, time_stamp_counter: false, trap_cpuid: true, ..Self::default() }
    }

    /// Only instructions that do not trap by themselves on any processor.
    pub fn never_trapping() -> Self {
        Self { cpuid: false, trap_cpuid: false, ..Self::untrappable() }
    }

    /// Whether the calls of functions that lock are counted, and rounds of spinning. Where these
    /// functions are sections, that is not needed.
    fn passages(&self) -> bool {
        self.system_calls && !self.sections
    }

    fn wants(&self, kind: SiteKind) -> bool {
        match kind {
            SiteKind::SystemCall => self.system_calls,
            SiteKind::Rdtsc | SiteKind::Rdtscp => self.time_stamp_counter,
            SiteKind::Cpuid => self.cpuid,
            SiteKind::Atomic
            | SiteKind::SectionBegin
            | SiteKind::SectionEnd
            | SiteKind::Binding => self.sections,
            SiteKind::Passage | SiteKind::Spin => self.passages(),
        }
    }
}

/// Returns the patched image of a file, or `None` if its own text is to be used. [`examine`] also
/// tells why.
///
/// # Errors If the file is not a well-formed x86-64 program or library.
pub fn build_image(
    elf: &[u8],
    placement: Placement,
    options: &Options,
) -> Result<Option<Image>, PatchError> {
    Ok(examine(elf, placement, options)?.into_image())
}

/// Decides how to patch a file, given as all of its bytes.
///
/// # Errors If the file is not a well-formed x86-64 program or library.
pub fn examine(elf: &[u8], placement: Placement, options: &Options) -> Result<Verdict, PatchError> {
    let elf = ElfView::parse(elf)?;
    let candidates = find_candidates(&elf);
    let trappable = trapped::find(&elf, options.trap_others);
    let pauses = if options.passages() { spins::candidates(&elf) } else { Vec::new() };
    let may_spin = options.passages() && (spins::searches_loops(&elf) || !pauses.is_empty());
    if candidates.is_empty() && trappable.is_empty() && !may_spin && !options.sections {
        return Ok(unpatched(UnpatchedReason::NoSites, Vec::new(), false));
    }
    if candidates.len().max(trappable.len()).max(pauses.len()) > CANDIDATE_LIMIT {
        return Ok(unpatched(UnpatchedReason::TooManyPatterns, Vec::new(), true));
    }
    let mut functions = find_functions(&elf, &candidates);
    if options.sections && functions.known {
        let looks = looks::find(&elf, &functions.chunks);
        functions.declared = functions.declared.with_looks(looks);
    }
    let recognised = recognise(&elf, &functions, &candidates);
    let trapped = trapped::edits(&elf, &functions, &trappable);
    let wanted = match options.sections {
        true => sections::find(&elf, &functions),
        false if options.passages() => Wanted::passages(
            passages::find(&elf, &functions),
            spins::find(&elf, &functions, &pauses),
        ),
        false => Wanted::default(),
    };
    if recognised.sites.is_empty() && wanted.is_empty() && trapped.is_empty() {
        let verdict = unpatched(UnpatchedReason::NoSites, Vec::new(), recognised.loose_sites);
        return Ok(verdict.with_unreached(recognised.unreached));
    }
    let mut places = [&recognised.sites[..], &wanted.places].concat();
    places.sort_unstable();
    let Gathered { survey, targets, references, targets_complete } =
        gather(&elf, &functions, &places);
    let context = Context {
        elf: &elf,
        listing: &survey.listing,
        targets: &targets,
        branches: &survey.branches,
        references: &references,
        targets_complete,
        suspect: &survey.suspect,
        functions_known: functions.known,
    };
    let mut chosen = choose_all(&context, options, Pads::new(survey.pads.clone(), &targets));
    choose_wanted(&context, &functions.chunks, &wanted, survey.pads.clone(), &mut chosen);
    chosen.trapped = trapped;
    let verdict = conclude(&elf, placement, options, chosen, recognised.loose_sites);
    Ok(verdict.with_unreached(recognised.unreached))
}

fn unpatched(reason: UnpatchedReason, refused: Vec<RefusedSite>, unknown_calls: bool) -> Verdict {
    Verdict::Unpatched(Unpatched { reason, refused, unknown_calls })
}

/// Makes the image if there is anything to patch, an image is worthwhile, and the stubs are in
/// reach.
fn conclude(
    elf: &ElfView,
    placement: Placement,
    options: &Options,
    chosen: Chosen,
    unknown_calls: bool,
) -> Verdict {
    let Chosen { plans, refused, trapped } = chosen;
    let mut edits = traps(elf, options, &plans, &refused);
    let trapped_addresses = trapped.iter().map(|(address, _)| *address).collect();
    edits.extend(trapped);
    let saves = lazy_binding::patches(elf);
    let save_addresses = saves.iter().map(|(address, _)| *address).collect();
    edits.extend(saves);
    let is_unknown = |site: &RefusedSite| {
        site.kind.must_be_seen() && site.reason != Refusal::SignalReturn && !is_sure(elf, site)
    };
    let unknown_calls = unknown_calls || refused.iter().any(is_unknown);
    if plans.is_empty() && edits.is_empty() {
        return unpatched(UnpatchedReason::AllRefused, refused, unknown_calls);
    }
    let text_bytes: u64 = elf.text_segments().map(|segment| segment.file_bytes).sum();
    if text_bytes > options.cpuid_text_limit
        && plans.iter().all(|plan| plan.kind == SiteKind::Cpuid)
    {
        return unpatched(UnpatchedReason::NotWorthwhile, refused, unknown_calls);
    }
    match assemble(elf, placement, &plans, edits) {
        Ok((segments, emitted)) => Verdict::Patched(Image {
            segments,
            stub_address: emitted.stub_address,
            stubs: emitted.stubs,
            low: elf.low,
            high: elf.high,
            sites: emitted.sites,
            refused,
            saves: save_addresses,
            trapped: trapped_addresses,
            unreached: Vec::new(),
            unknown_calls,
        }),
        Err(OutOfReach) => {
            let mut kinds =
                plans.iter().map(|plan| plan.kind).chain(refused.iter().map(|site| site.kind));
            let unknown_calls = unknown_calls || kinds.any(SiteKind::must_be_seen);
            unpatched(UnpatchedReason::OutOfReach, refused, unknown_calls)
        }
    }
}

/// Chooses a plan for each site, in order of address.
fn choose_all(context: &Context, options: &Options, mut pads: Pads) -> Chosen {
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    let mut floor = 0;
    for (index, listed) in context.listing.iter().enumerate() {
        let Role::Site(kind) = listed.role else {
            continue;
        };
        let choice = if options.wants(kind) {
            context.choose(index, kind, floor, &mut pads)
        } else {
            Err(Refusal::NotWanted)
        };
        match choice {
            Ok(plan) => {
                assert!(plan.patch_start() >= floor && plan.patch_end <= plan.end());
                floor = plan.end();
                plans.push(plan);
            }
            Err(reason) => refused.push(RefusedSite { kind, address: listed.address, reason }),
        }
    }
    Chosen { plans, refused, trapped: Vec::new() }
}

/// Whether a refused site is surely the instruction, without prefixes.
fn is_sure(elf: &ElfView, site: &RefusedSite) -> bool {
    let starts_with = |opcode| elf.bytes_from(site.address).starts_with(opcode);
    matches!(site.reason, Refusal::NoRoom | Refusal::JumpTarget)
        && site.kind.opcode().is_some_and(starts_with)
}

/// The edits that make instructions trap: those after a jump, and those that are surely
/// instructions but could not be patched.
fn traps(elf: &ElfView, options: &Options, plans: &[Plan], refused: &[RefusedSite]) -> Vec<Patch> {
    let behind = plans.iter().filter(|plan| plan.kind.must_be_seen()).filter_map(|plan| {
        let trap = trap(plan.kind, options)?;
        // Prefixes have no effect on the instruction, but would belong to the trap.
        let mut bytes = vec![NOP; usize::from(plan.site.length)];
        bytes.truncate(bytes.len() - trap.len());
        bytes.extend(trap);
        Some((plan.site.address, bytes))
    });
    let rest = refused
        .iter()
        .filter(|site| is_sure(elf, site))
        .filter_map(|site| Some((site.address, trap(site.kind, options)?.to_vec())));
    behind.chain(rest).collect()
}

/// The trap that replaces an instruction, if it needs one.
fn trap(kind: SiteKind, options: &Options) -> Option<&'static [u8]> {
    match kind {
        SiteKind::SystemCall => Some(&CALL_TRAP),
        SiteKind::Rdtsc => Some(COUNTER_TRAPS[0]),
        SiteKind::Rdtscp => Some(COUNTER_TRAPS[1]),
        SiteKind::Cpuid => options.trap_cpuid.then_some(&CPUID_TRAP),
        SiteKind::Atomic
        | SiteKind::SectionBegin
        | SiteKind::SectionEnd
        | SiteKind::Passage
        | SiteKind::Spin
        | SiteKind::Binding => None,
    }
}

/// Writes the stubs and the patched copies of all segments that have patches.
fn assemble(
    elf: &ElfView,
    placement: Placement,
    plans: &[Plan],
    mut patches: Vec<Patch>,
) -> Result<(Vec<ImageSegment>, Emitted), OutOfReach> {
    let emitted = emit(elf, placement, plans)?;
    for site in &emitted.sites {
        patches.extend(jumps(site, emitted.stub_address)?);
    }
    let mut segments = Vec::new();
    for segment in elf.text_segments() {
        let mut image: Option<ImageSegment> = None;
        for (address, bytes) in patches.iter().filter(|(address, _)| segment.holds(*address)) {
            let image = image.get_or_insert_with(|| mapped_pages(elf, segment));
            let at = (address - image.address) as usize;
            image.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        }
        segments.extend(image);
    }
    Ok((segments, emitted))
}

/// The whole pages of a segment as the kernel maps them: the bytes before and after the segment on
/// its pages also come from the file.
fn mapped_pages(elf: &ElfView, segment: &LoadSegment) -> ImageSegment {
    let start = page_floor(segment.file_offset);
    let end = page_ceiling(segment.file_offset + segment.file_bytes).expect("inside the file");
    let mut bytes = elf.data[start as usize..elf.data.len().min(end as usize)].to_vec();
    bytes.resize((end - start) as usize, 0);
    ImageSegment { file_offset: start, address: page_floor(segment.address), bytes }
}
