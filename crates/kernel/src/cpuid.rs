//! What the processor says about itself, as recorded programs see it.

use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

/// An answer of CPUID. `subleaf` is `u32::MAX` if it does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub leaf: u32,
    pub subleaf: u32,
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

const RDRAND: u32 = 1 << 30; // leaf 1 ecx
const OSXSAVE: u32 = 1 << 27; // leaf 1 ecx
const HLE: u32 = 1 << 4; // leaf 7 ebx
const RTM: u32 = 1 << 11; // leaf 7 ebx
const RDSEED: u32 = 1 << 18; // leaf 7 ebx
const FSGSBASE: u32 = 1; // leaf 7 ebx
const WAITPKG: u32 = 1 << 5; // leaf 7 ecx
const RDPID: u32 = 1 << 22; // leaf 7 ecx
const SHADOW_STACK: u32 = 1 << 7; // leaf 7 ecx
const TILES: u32 = 1 << 22 | 1 << 24 | 1 << 25; // leaf 7 edx: AMX-BF16, AMX-TILE, AMX-INT8
const MORE_TILES: u32 = 1 << 21; // leaf 7, subleaf 1, eax: AMX-FP16

/// The state components that a process has only after it asked the kernel for permission
/// (`ARCH_REQ_XCOMP_PERM`): AMX tiles. Before that, signal frames lack them, and restoring them
/// faults.
const ON_PERMISSION: u64 = 1 << 18;

/// A bound above the subleaves of any leaf that programs ask for.
const MOST_SUBLEAVES: u32 = 32;
/// The bound of the numbers of state components.
const COMPONENTS: u32 = 63;
/// The size of the x87 and SSE registers and of the area's header.
const LEGACY_BYTES: u32 = 576;

/// The subleaves of a leaf.
enum Subleaves {
    /// The subleaf does not matter.
    None,
    /// One for each state component that exists.
    Components,
    /// Up to the number in eax of the first one.
    Highest,
    /// Up to this number.
    UpTo(u32),
    /// Up to the first one for which this is true.
    Until(fn(&Answer) -> bool),
}

fn subleaves(leaf: u32) -> Subleaves {
    match leaf {
        4 | 0x8000_001d => Subleaves::Until(|cache| cache.eax & 0x1f == 0),
        0xb | 0x1f | 0x8000_0026 => Subleaves::Until(|level| level.ecx >> 8 & 0xff == 0),
        7 | 0x14 | 0x17 | 0x18 | 0x1d | 0x20 | 0x24 => Subleaves::Highest,
        0xd => Subleaves::Components,
        0xf | 0x1e => Subleaves::UpTo(1),
        0x10 | 0x12 | 0x8000_0020 => Subleaves::UpTo(3),
        _ => Subleaves::None,
    }
}

/// Returns all answers of this machine, without what a recording cannot reproduce: RDRAND, RDSEED,
/// RDPID, transactions, tiles, and the number of the core. One CPUID takes up to 20 us on a virtual
/// machine.
pub fn table() -> Vec<Answer> {
    let mut answers = Vec::new();
    for base in [0u32, 0x4000_0000, 0x8000_0000] {
        let highest = __cpuid_count(base, 0).eax;
        if highest < base || highest > base + 0x40 {
            continue;
        }
        for leaf in base..=highest {
            push_leaf(&mut answers, leaf, ask);
        }
    }
    answers
}

/// Adds the answers of one leaf. Missing subleaves are answered with zeros, which end the loops in
/// which programs look for the last one.
fn push_leaf(answers: &mut Vec<Answer>, leaf: u32, ask: impl Fn(u32, u32) -> Answer) {
    let first = ask(leaf, 0);
    let is_last = |answer: &Answer| match subleaves(leaf) {
        Subleaves::Until(is_last) => is_last(answer),
        Subleaves::Highest => answer.subleaf >= first.eax,
        Subleaves::UpTo(last) => answer.subleaf >= last,
        Subleaves::None | Subleaves::Components => true,
    };
    match subleaves(leaf) {
        Subleaves::None => answers.push(mask(Answer { subleaf: u32::MAX, ..first })),
        Subleaves::Components => {
            let second = ask(leaf, 1);
            let bits = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            let present = bits(first.eax, first.edx) | bits(second.ecx, second.edx);
            answers.extend([first, second]);
            answers.extend(
                (2..COMPONENTS)
                    .filter(|number| present >> number & 1 == 1)
                    .map(|number| ask(leaf, number)),
            );
        }
        _ => {
            answers.push(mask(first));
            let mut at = first;
            while !is_last(&at) && at.subleaf < MOST_SUBLEAVES {
                at = ask(leaf, at.subleaf + 1);
                answers.push(mask(at));
            }
        }
    }
}

fn ask(leaf: u32, subleaf: u32) -> Answer {
    let found = __cpuid_count(leaf, subleaf);
    Answer { leaf, subleaf, eax: found.eax, ebx: found.ebx, ecx: found.ecx, edx: found.edx }
}

fn mask(mut answer: Answer) -> Answer {
    match (answer.leaf, answer.subleaf) {
        (1, _) => {
            answer.ecx &= !RDRAND;
            answer.ebx &= 0x00ff_ffff; // initial APIC ID: the core we are on
        }
        (7, 0) => {
            answer.ebx &= !(HLE | RTM | RDSEED | FSGSBASE);
            answer.ecx &= !(WAITPKG | RDPID | SHADOW_STACK);
            answer.edx &= !TILES;
        }
        (7, 1) => answer.eax &= !MORE_TILES,
        (0xb | 0x1f, _) => answer.edx = 0,
        _ => {}
    }
    answer
}

/// Returns the state components that signal frames save, and the size of that area in bytes: XCR0
/// without the components that need permission.
pub fn extended_state() -> (u64, u32) {
    if __cpuid_count(1, 0).ecx & OSXSAVE == 0 {
        return (3, LEGACY_BYTES);
    }
    // SAFETY: OSXSAVE says that the instruction is there.
    let enabled = unsafe { read_features() };
    let features = enabled & !ON_PERMISSION;
    let end = |number| {
        let (size, place) = component(number);
        place + size
    };
    let ends = (2..COMPONENTS).filter(|number| features >> number & 1 == 1).map(end);
    (features, ends.fold(LEGACY_BYTES, u32::max))
}

/// Returns the size and offset in bytes of a state component in that area.
pub fn component(number: u32) -> (u32, u32) {
    let found = __cpuid_count(0xd, number);
    (found.eax, found.ebx)
}

#[target_feature(enable = "xsave")]
fn read_features() -> u64 {
    // SAFETY: register 0 exists wherever the instruction does.
    unsafe { _xgetbv(0) }
}

/// Returns the frequency of the time-stamp counter in ticks per second, as precisely as CPUID knows
/// it; 2.5 GHz if CPUID does not.
pub fn ticks_per_second() -> u64 {
    let clock = __cpuid_count(0x15, 0);
    if __cpuid_count(0, 0).eax >= 0x15 && clock.eax != 0 && clock.ebx != 0 && clock.ecx != 0 {
        return u64::from(clock.ecx) * u64::from(clock.ebx) / u64::from(clock.eax);
    }
    let megahertz = if __cpuid_count(0, 0).eax >= 0x16 {
        u64::from(__cpuid_count(0x16, 0).eax & 0xffff)
    } else {
        0
    };
    if megahertz == 0 { 2_500_000_000 } else { megahertz * 1_000_000 }
}

/// Whether this process can make CPUID fault (ARCH_SET_CPUID).
pub fn can_fault() -> bool {
    description().contains(" cpuid_fault")
}

/// Returns the entry of the first processor in /proc/cpuinfo; empty if it cannot be read. The file
/// may have hundreds of entries, and reading all would take time.
pub fn description() -> &'static str {
    static DESCRIPTION: OnceLock<String> = OnceLock::new();
    DESCRIPTION.get_or_init(|| {
        let lines =
            File::open("/proc/cpuinfo").map(|file| BufReader::with_capacity(4096, file).lines());
        let first =
            lines.into_iter().flatten().map_while(Result::ok).take_while(|line| !line.is_empty());
        first.flat_map(|line| [line, "\n".to_owned()]).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(leaf: u32, answers: &[[u32; 4]]) -> Vec<u32> {
        let mut all = Vec::new();
        push_leaf(&mut all, leaf, |leaf, subleaf| {
            let [eax, ebx, ecx, edx] = answers.get(subleaf as usize).copied().unwrap_or_default();
            Answer { leaf, subleaf, eax, ebx, ecx, edx }
        });
        all.iter().map(|answer| answer.subleaf).collect()
    }

    /// Programs ask for subleaves in order until an answer says that there are no more.
    #[test]
    fn subleaves_end() {
        let cache = [0x121, 0, 0, 0];
        for leaf in [4, 0x8000_001d] {
            assert_eq!(asked(leaf, &[cache, cache, cache]), [0, 1, 2, 3], "{leaf:#x}");
            assert_eq!(asked(leaf, &[]), [0], "{leaf:#x}");
        }
        assert_eq!(asked(0xb, &[[1, 2, 0x100, 0], [4, 8, 0x201, 0]]), [0, 1, 2]);
        assert_eq!(asked(7, &[[2, 0, 0, 0]]), [0, 1, 2]);
        assert_eq!(asked(0xd, &[[7, 0, 0, 0], [0, 0, 0x100, 0]]), [0, 1, 2, 8]);
        assert_eq!(asked(0x8000_0008, &[[1, 2, 3, 4]; 8]), [u32::MAX]);
        assert_eq!(asked(4, &[cache; 100]).len(), MOST_SUBLEAVES as usize + 1);
    }

    #[test]
    fn every_answer_of_this_machine_has_a_place() {
        let table = table();
        assert!(table.len() < crate::shared::MAX_CPUID, "{}", table.len());
        let same =
            |one: &Answer, other: &Answer| (one.leaf, one.subleaf) == (other.leaf, other.subleaf);
        assert!(
            (0..table.len()).all(|at| !table[at + 1..].iter().any(|other| same(&table[at], other)))
        );
    }
}
