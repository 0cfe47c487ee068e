//! Instructions that become traps, each on a few bytes of code.

mod common;

use common::assembler::{CODE_ADDRESS, Symbol, small_file};
use common::check_image;
use retake_patch::{Options, Placement, Refusal, Verdict, examine};

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const XOR_EAX: [u8; 2] = [0x31, 0xc0];
const RET: [u8; 1] = [0xc3];

fn verdict(code: &[u8]) -> Verdict {
    let file = small_file(code, &[Symbol { start: 0, bytes: code.len() as u64 }]);
    let verdict = examine(&file, Placement::After, &Options::default()).expect("well formed");
    if let Verdict::Patched(image) = &verdict {
        check_image(&file, image, Placement::After);
    }
    verdict
}

/// The text of an image of `code`, all of which is one function.
fn text(code: &[u8]) -> Vec<u8> {
    let image = verdict(code).into_image().expect("patched");
    let segment = &image.segments[0];
    let at = (CODE_ADDRESS - segment.address) as usize;
    segment.bytes[at..at + code.len()].to_vec()
}

#[test]
fn random_numbers_and_bases_become_traps_that_tell_the_operand() {
    // rdrand %eax; rdrand %r9; rdseed %cx; rdpid %rbx; ret
    let random =
        [0x0f, 0xc7, 0xf0, 0x49, 0x0f, 0xc7, 0xf1, 0x66, 0x0f, 0xc7, 0xf9, 0xf3, 0x0f, 0xc7, 0xfb];
    let traps =
        [0xcd, 0xd0, 0x90, 0x49, 0xcd, 0xd1, 0x90, 0x66, 0xcd, 0xd9, 0x90, 0xf3, 0xcd, 0xdb, 0x90];
    assert_eq!(text(&[&random[..], &RET].concat()), [&traps[..], &RET].concat());
    // wrgsbase %rax; rdgsbase %r8; wrfsbase %rax; lfence; ret
    let bases = [0xf3, 0x48, 0x0f, 0xae, 0xd8, 0xf3, 0x49, 0x0f, 0xae, 0xc8];
    let others = [0xf3, 0x48, 0x0f, 0xae, 0xd0, 0x0f, 0xae, 0xe8, 0xc3];
    let traps = [0xf3, 0x48, 0xcd, 0xe0, 0x90, 0xf3, 0x49, 0xcd, 0xe0, 0x90];
    assert_eq!(text(&[&bases[..], &others].concat()), [&traps[..], &others].concat());
}

#[test]
fn interrupts_of_the_program_are_not_taken_for_traps() {
    // int $5; int $0xd0; int $0x80; int3; ret
    let code = [0xcd, 0x05, 0xcd, 0xd0, 0xcd, 0x80, 0xcc, 0xc3];
    assert_eq!(text(&code), [0xcd, 0x06, 0xcd, 0x06, 0xcd, 0x80, 0xcc, 0xc3]);
}

#[test]
fn what_only_looks_like_a_random_number_stays() {
    // mov $0xf0c70f,%eax; ret
    let verdict = verdict(&[0xb8, 0x0f, 0xc7, 0xf0, 0, 0xc3]);
    assert!(verdict.into_image().is_none());
}

#[test]
fn a_random_number_is_not_displaced() {
    // rdrand %eax; xor %eax,%eax; syscall; ret: there is too little room before the call.
    let code = [&[0x0f, 0xc7, 0xf0], &XOR_EAX[..], &SYSCALL, &RET].concat();
    assert_eq!(verdict(&code).refused()[0].reason, Refusal::NoRoom);
}
