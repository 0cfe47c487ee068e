//! What the processor says of itself, as recorded programs get to see it.

use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

/// One answer of CPUID. `subleaf` is `u32::MAX` where it does not matter.
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
const WAITPKG: u32 = 1 << 5; // leaf 7 ecx
const RDPID: u32 = 1 << 22; // leaf 7 ecx
const SHADOW_STACK: u32 = 1 << 7; // leaf 7 ecx

/// The leaves that have subleaves.
const WITH_SUBLEAVES: [u32; 14] = [4, 7, 0xb, 0xd, 0xf, 0x10, 0x12, 0x14, 0x17, 0x18, 0x1a, 0x1d, 0x1e, 0x1f];

/// All answers of this machine, without what a recording cannot repeat: RDRAND, RDSEED, RDPID, transactions, and the number of the core.
pub fn table() -> Vec<Answer> {
    let mut answers = Vec::new();
    for base in [0u32, 0x4000_0000, 0x8000_0000] {
        let highest = __cpuid_count(base, 0).eax;
        if highest < base || highest > base + 0x40 {
            continue;
        }
        for leaf in base..=highest {
            if WITH_SUBLEAVES.contains(&leaf) {
                answers.extend((0..if leaf == 0xd { 20 } else { 4 }).map(|subleaf| mask(ask(leaf, subleaf, subleaf))));
            } else {
                answers.push(mask(ask(leaf, 0, u32::MAX)));
            }
        }
    }
    answers
}

fn ask(leaf: u32, subleaf: u32, kept: u32) -> Answer {
    let found = __cpuid_count(leaf, subleaf);
    Answer { leaf, subleaf: kept, eax: found.eax, ebx: found.ebx, ecx: found.ecx, edx: found.edx }
}

fn mask(mut answer: Answer) -> Answer {
    match (answer.leaf, answer.subleaf) {
        (1, _) => {
            answer.ecx &= !RDRAND;
            answer.ebx &= 0x00ff_ffff; // initial APIC number: which core we happen to be on
        }
        (7, 0) => {
            answer.ebx &= !(HLE | RTM | RDSEED);
            answer.ecx &= !(WAITPKG | RDPID | SHADOW_STACK);
        }
        (0xb | 0x1f, _) => answer.edx = 0,
        _ => {}
    }
    answer
}

/// The state components that signal frames save (XCR0), and the size of that area in bytes.
pub fn extended_state() -> (u64, u32) {
    if __cpuid_count(1, 0).ecx & OSXSAVE == 0 {
        return (3, 576);
    }
    // SAFETY: OSXSAVE says that the instruction is there.
    let features = unsafe { read_features() };
    (features, __cpuid_count(0xd, 0).ebx)
}

/// Size and place, in bytes, of a state component in that area.
pub fn component(number: u32) -> (u32, u32) {
    let found = __cpuid_count(0xd, number);
    (found.eax, found.ebx)
}

#[target_feature(enable = "xsave")]
fn read_features() -> u64 {
    // SAFETY: register 0 exists wherever the instruction does.
    unsafe { _xgetbv(0) }
}

/// Frequency of the time-stamp counter in ticks per second, as good as CPUID knows it; 2.5 GHz where it does not.
pub fn ticks_per_second() -> u64 {
    let clock = __cpuid_count(0x15, 0);
    if __cpuid_count(0, 0).eax >= 0x15 && clock.eax != 0 && clock.ebx != 0 && clock.ecx != 0 {
        return u64::from(clock.ecx) * u64::from(clock.ebx) / u64::from(clock.eax);
    }
    let megahertz = if __cpuid_count(0, 0).eax >= 0x16 { u64::from(__cpuid_count(0x16, 0).eax & 0xffff) } else { 0 };
    if megahertz == 0 { 2_500_000_000 } else { megahertz * 1_000_000 }
}

/// Whether this process may make CPUID fault (ARCH_SET_CPUID).
pub fn can_fault() -> bool {
    description().contains(" cpuid_fault")
}

/// What the kernel says of the first processor in /proc/cpuinfo; nothing if it does not. There may be hundreds of them, which takes time.
pub fn description() -> &'static str {
    static DESCRIPTION: OnceLock<String> = OnceLock::new();
    DESCRIPTION.get_or_init(|| {
        let lines = File::open("/proc/cpuinfo").map(|file| BufReader::with_capacity(4096, file).lines());
        let first = lines.into_iter().flatten().map_while(Result::ok).take_while(|line| !line.is_empty());
        first.flat_map(|line| [line, "\n".to_owned()]).collect()
    })
}
