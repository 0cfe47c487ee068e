//! Which instructions count as rounds of spinning.

mod common;

use common::verdict_on;
use retake_patch::{Options, SiteKind, Verdict};

/// Returns the offsets of the counted instructions in a function.
fn counted(function: &[u8]) -> Vec<u64> {
    let verdict = verdict_on(&[function], "spin", &Options::default());
    let Verdict::Patched(image) = verdict else { return Vec::new() };
    assert!(image.refused.is_empty(), "{:?}", image.refused);
    let spins = image.sites.iter().filter(|site| site.kind == SiteKind::Spin);
    spins.map(|site| site.address - common::assembler::CODE_ADDRESS).collect()
}

#[test]
fn loops_that_only_look_are_counted() {
    // mov (%rdi),%eax; test %eax,%eax; jne back; ret
    assert_eq!(counted(&[0x8b, 0x07, 0x85, 0xc0, 0x75, 0xfa, 0xc3]), [4]);
    // cmp %eax,(%rdi); jne back; ret
    assert_eq!(counted(&[0x39, 0x07, 0x75, 0xfc, 0xc3]), [2]);
    // mov $1,%eax; xchg %eax,(%rdi); test %eax,%eax; jne back; ret
    assert_eq!(counted(&[0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0xf5, 0xc3]), [9]);
    // xor %eax,%eax; lock cmpxchg %edx,(%rdi); jne back; ret
    assert_eq!(counted(&[0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xf8, 0xc3]), [6]);
    // pause; add $1,%rax; cmp %rcx,%rax; je out; mov (%rdi),%edx; cmp $1,%edx; je back; out: ret
    let paused = [
        0xf3, 0x90, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x74, 0x07, 0x8b, 0x17, 0x83, 0xfa,
        0x01, 0x74, 0xee, 0xc3,
    ];
    assert_eq!(counted(&paused), [0]);
}

#[test]
fn loops_that_get_on_are_not() {
    let others: [&[u8]; 6] = [
        // dec %eax; jne back; ret
        &[0xff, 0xc8, 0x75, 0xfc, 0xc3],
        // movzbl (%rdi),%eax; inc %rdi; test %al,%al; jne back; ret
        &[0x0f, 0xb6, 0x07, 0x48, 0xff, 0xc7, 0x84, 0xc0, 0x75, 0xf6, 0xc3],
        // mov %ecx,(%rdi); mov (%rsi),%eax; test %eax,%eax; jne back; ret
        &[0x89, 0x0f, 0x8b, 0x06, 0x85, 0xc0, 0x75, 0xf8, 0xc3],
        // lea 1(%rax),%edx; lock cmpxchg %edx,(%rdi); jne back; ret
        &[0x8d, 0x50, 0x01, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xf7, 0xc3],
        // mov (%rdi),%eax; lea 1(%rax),%edx; lock cmpxchg %edx,(%rdi); jne back; ret
        &[0x8b, 0x07, 0x8d, 0x50, 0x01, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xf5, 0xc3],
        // call *%rsi; mov (%rdi),%eax; test %eax,%eax; jne back; ret
        &[0xff, 0xd6, 0x8b, 0x07, 0x85, 0xc0, 0x75, 0xf8, 0xc3],
    ];
    for function in others {
        assert_eq!(counted(function), [0; 0], "{function:x?}");
    }
}

/// Code jumps past the place where the stub would count.
#[test]
fn a_pause_to_which_code_jumps_is_left_alone_if_others_would_have_to_move() {
    // xor %eax,%eax; pause; jmp to the pause: no room
    let verdict = verdict_on(&[&[0x31, 0xc0, 0xf3, 0x90, 0xeb, 0xfc]], "spin", &Options::default());
    let spins = |kind: SiteKind| kind == SiteKind::Spin;
    assert!(verdict.refused().iter().any(|site| spins(site.kind)));
}
