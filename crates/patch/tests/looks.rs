//! Plain loads that are operations because of the use of the loaded value, each in a few bytes of
//! code.

mod common;

use common::assembler::CODE_ADDRESS;
use common::verdict_on;
use retake_patch::{Options, SiteKind, Verdict};

/// `mov 8(%rdi),%rdx`
const LOAD_BOTH: [u8; 4] = [0x48, 0x8b, 0x57, 0x08];
/// `movabs $0x100000001,%rax`
const BOTH_ONE: [u8; 10] = [0x48, 0xb8, 1, 0, 0, 0, 1, 0, 0, 0];
/// `cmp %rax,%rdx`
const COMPARE: [u8; 3] = [0x48, 0x39, 0xc2];
/// `mov 8(%rdi),%eax; test %eax,%eax; lea 1(%rax),%ecx`
const LOAD_FIRST: [u8; 8] = [0x8b, 0x47, 0x08, 0x85, 0xc0, 0x8d, 0x48, 0x01];
/// `lock cmpxchg %ecx,8(%rdi)`
const RAISE: [u8; 5] = [0xf0, 0x0f, 0xb1, 0x4f, 0x08];
/// `lea 8(%rdi),%rdx; lock cmpxchg %ecx,(%rdx)`
const RAISE_COPY: [u8; 8] = [0x48, 0x8d, 0x57, 0x08, 0xf0, 0x0f, 0xb1, 0x0a];
const RET: [u8; 1] = [0xc3];
/// The address of a guard, outside the text.
const GUARD: u64 = 0x8000;

/// The addresses of the operations in the code.
fn operations(functions: &[&[u8]], names: &str) -> Vec<u64> {
    let options = Options { sections: true, ..Options::default() };
    match verdict_on(functions, names, &options) {
        Verdict::Patched(image) => {
            let sites = image.sites.iter().filter(|site| site.kind == SiteKind::Atomic);
            sites.map(|site| site.address - CODE_ADDRESS).collect()
        }
        Verdict::Unpatched(_) => Vec::new(),
    }
}

#[test]
fn both_counts_are_compared_with_one() {
    let look = [&BOTH_ONE[..], &LOAD_BOTH, &COMPARE, &RET].concat();
    assert_eq!(operations(&[&look], "any"), [10]);
    let in_place = [&BOTH_ONE[..], &[0x48, 0x39, 0x47, 0x08], &RET].concat();
    assert_eq!(operations(&[&in_place], "any"), [10], "cmp %rax,8(%rdi)");
    let other = [&BOTH_ONE[..], &[0x48, 0x8b, 0x57, 0x10], &COMPARE, &RET].concat();
    assert_eq!(operations(&[&other], "any"), [0; 0], "at another place");
    assert_eq!(operations(&[&[&LOAD_BOTH[..], &COMPARE, &RET].concat()], "any"), [0; 0]);
}

#[test]
fn the_first_count_is_compared_with_nothing_before_it_is_raised() {
    for raise in [&RAISE[..], &RAISE_COPY] {
        let look = [&LOAD_FIRST[..], raise, &RET].concat();
        let cmpxchg = look.len() as u64 - 1 - if raise == RAISE { 5 } else { 4 };
        assert_eq!(operations(&[&look], "any"), [0, cmpxchg]);
    }
    let raised_elsewhere = [&LOAD_FIRST[..], &[0xf0, 0x0f, 0xb1, 0x0f], &RET].concat();
    assert_eq!(operations(&[&raised_elsewhere], "any"), [8]);
    assert_eq!(operations(&[&[&LOAD_FIRST[..], &RET].concat()], "any"), [0; 0]);
}

/// The displacement to the guard in an instruction that ends at this offset.
fn distance(end: u64) -> [u8; 4] {
    ((GUARD - CODE_ADDRESS - end) as u32).to_le_bytes()
}

/// A function that reads the guard (`movzbl GUARD(%rip),%eax; test %al,%al; ret`), one that calls
/// the next function, and that next function.
fn guarded(names: &str) -> Vec<u64> {
    let look = [&[0x0f, 0xb6, 0x05][..], &distance(7), &[0x84, 0xc0], &RET].concat();
    let lea = [&[0x48, 0x8d, 0x1d][..], &distance(17)].concat();
    let call = [&lea[..], &[0x48, 0x89, 0xdf, 0xe8, 1, 0, 0, 0], &RET].concat();
    operations(&[&look, &call, &[0x90, 0x90, 0xc3]], names)
}

#[test]
fn guards_are_looked_at_first() {
    assert_eq!(guarded("looks calls __cxa_guard_acquire"), [0]);
    assert_eq!(guarded("looks calls acquires"), [0; 0]);
}
