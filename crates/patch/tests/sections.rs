//! The rules by which atomic instructions and functions become sections, each in a few bytes of
//! code.

mod common;

use common::assembler::{CODE_ADDRESS, Symbol, named_file};
use common::verdict_on;
use retake_patch::{
    Image, Options, Placement, Refusal, Site, SiteKind, UnpatchedReason, Verdict, examine,
};

/// `lock cmpxchg %rdx,(%rdi)`
const ATOMIC: [u8; 5] = [0xf0, 0x48, 0x0f, 0xb1, 0x17];
/// `xchg %eax,(%rdi)`
const EXCHANGE: [u8; 2] = [0x87, 0x07];
/// `mov (%rdi),%rax`
const LOAD: [u8; 3] = [0x48, 0x8b, 0x07];
/// `mov %rsi,%rdi`
const MOVE: [u8; 3] = [0x48, 0x89, 0xf7];
/// `mov $202,%eax; syscall`
const FUTEX: [u8; 7] = [0xb8, 0xca, 0, 0, 0, 0x0f, 0x05];
/// `jmp *disp32(%rip)`: a call of the runtime ends with it.
const JUMP_INDIRECT: [u8; 2] = [0xff, 0x25];
const CALL_ANYTHING: [u8; 2] = [0xff, 0xd2];
const RET: [u8; 1] = [0xc3];
const NOPL_8: [u8; 8] = [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

const SECTIONS: Options = Options {
    system_calls: true,
    time_stamp_counter: true,
    cpuid: true,
    cpuid_text_limit: 4 << 20,
    trap_cpuid: false,
    trap_others: false,
    sections: true,
};

fn verdict_of(functions: &[&[u8]], names: &str) -> Verdict {
    verdict_on(functions, names, &SECTIONS)
}

fn image_of(functions: &[&[u8]], names: &str) -> Image {
    verdict_of(functions, names).into_image().expect("patched")
}

/// The kinds of sites, and their addresses in the code.
fn sites(image: &Image) -> Vec<(SiteKind, u64)> {
    image.sites.iter().map(|site| (site.kind, site.address - CODE_ADDRESS)).collect()
}

fn refusals(verdict: &Verdict) -> Vec<(SiteKind, u64, Refusal)> {
    verdict
        .refused()
        .iter()
        .map(|site| (site.kind, site.address - CODE_ADDRESS, site.reason))
        .collect()
}

#[test]
fn an_atomic_instruction_is_a_section() {
    let image = image_of(&[&[&ATOMIC[..], &RET].concat()], "any");
    assert_eq!(sites(&image), [(SiteKind::Atomic, 0)]);
    assert_eq!((image.sites[0].patch_address, image.sites[0].patch_length), (CODE_ADDRESS, 5));
    assert!(!image.unknown_calls);
}

#[test]
fn only_on_demand() {
    let code = [&ATOMIC[..], &RET].concat();
    let file = named_file(&code, &[Symbol { start: 0, bytes: 6 }], "any");
    let verdict = examine(&file, Placement::After, &Options::default()).expect("well formed");
    assert!(matches!(verdict, Verdict::Unpatched(unpatched)
            if unpatched.reason == UnpatchedReason::NoSites && unpatched.refused.is_empty()));
}

#[test]
fn fences_need_none() {
    let fence = [0xf0, 0x48, 0x83, 0x0c, 0x24, 0, 0xc3];
    assert!(matches!(verdict_of(&[&fence], "any"), Verdict::Unpatched(_)));
}

#[test]
fn nothing_may_jump_to_the_instruction_past_the_section() {
    // mov; mov; L: xchg; call *%rdx; jmp L
    let code = [&MOVE[..], &MOVE, &EXCHANGE, &CALL_ANYTHING, &[0xeb, 0xfa]].concat();
    assert_eq!(
        refusals(&verdict_of(&[&code], "any")),
        [(SiteKind::Atomic, 6, Refusal::JumpTarget)]
    );
    // Without the jump, it is displaced with the instructions before it.
    let code = [&MOVE[..], &MOVE, &EXCHANGE, &CALL_ANYTHING, &RET].concat();
    assert_eq!(image_of(&[&code], "any").sites[0].patch_address, CODE_ADDRESS + 3);
}

/// The number of operations in each stub.
fn operations(image: &Image) -> Vec<usize> {
    let calls = |site: &Site| {
        let stub = &image.stubs[site.stub.offset as usize..][..site.stub.length as usize];
        stub.windows(JUMP_INDIRECT.len()).filter(|bytes| *bytes == JUMP_INDIRECT).count()
    };
    image.sites.iter().map(|site| calls(site) / 2).collect()
}

#[test]
fn operations_side_by_side_share_a_jump() {
    // xchg; xchg; ret: only together they have room.
    let image = image_of(&[&[&EXCHANGE[..], &EXCHANGE, &RET].concat()], "any");
    assert_eq!((sites(&image), operations(&image)), (vec![(SiteKind::Atomic, 0)], vec![2]));
    // xchg; mov; xchg; call *%rdx: the first needs the instruction that the second has, too.
    let code = [&EXCHANGE[..], &MOVE, &EXCHANGE, &CALL_ANYTHING, &RET].concat();
    let verdict = verdict_of(&[&code], "any");
    assert_eq!(refusals(&verdict), []);
    let image = verdict.into_image().expect("patched");
    assert_eq!((sites(&image), operations(&image)), (vec![(SiteKind::Atomic, 0)], vec![2]));
    // A jump to the second one would miss the stub.
    let code = [&EXCHANGE[..], &MOVE, &EXCHANGE, &CALL_ANYTHING, &[0xeb, 0xfa]].concat();
    let verdict = verdict_of(&[&code], "any");
    assert!(matches!(refusals(&verdict)[..], [(SiteKind::Atomic, 5, _)]));
    // So would one to what comes before it.
    let code = [&EXCHANGE[..], &MOVE, &MOVE, &EXCHANGE, &CALL_ANYTHING, &[0xeb, 0xf7]].concat();
    let image = image_of(&[&code], "any");
    assert_eq!(operations(&image), [1, 1]);
}

#[test]
fn a_jump_behind_the_instruction_goes_along() {
    // L: xchg; jmp L; and: call; xchg; ret
    let image = image_of(
        &[
            &[&EXCHANGE[..], &MOVE, &[0xeb, 0xf9]].concat(),
            &[&CALL_ANYTHING[..], &EXCHANGE, &MOVE, &RET].concat(),
        ],
        "any other",
    );
    let patches: Vec<_> = image
        .sites
        .iter()
        .map(|site| (site.patch_address - CODE_ADDRESS, site.patch_length))
        .collect();
    assert_eq!(patches, [(0, 5), (9, 5)]);
    // L: lock incl (%rdi); jmp L
    let image = image_of(&[&[0xf0, 0xff, 0x07, 0xeb, 0xfb]], "any");
    assert_eq!(
        (image.sites[0].patch_length, image.sites[0].stub.continue_at > image.high),
        (5, true)
    );
}

#[test]
fn a_jump_over_the_lock_prefix_goes_along() {
    // cmp $0,%esi; je 1f; lock; 1: cmpxchg; ret
    let code = [&[0x83, 0xfe, 0, 0x74, 1][..], &ATOMIC, &RET].concat();
    let image = image_of(&[&code], "any");
    assert_eq!(sites(&image), [(SiteKind::Atomic, 5)]);
    assert_eq!(image.sites[0].patch_address, CODE_ADDRESS + 3);
    // A jump from far away cannot be displaced.
    let code = [&[0x83, 0xfe, 0, 0x74, 1][..], &ATOMIC, &[0x74, 0xfa], &RET].concat();
    assert_eq!(
        refusals(&verdict_of(&[&code], "any")),
        [(SiteKind::Atomic, 5, Refusal::JumpTarget)]
    );
}

#[test]
fn a_function_is_one_section() {
    // Two exits: one before padding, and one after instructions that can be displaced.
    let code = [&LOAD[..], &MOVE, &[0x74, 9], &RET, &NOPL_8, &ATOMIC, &MOVE, &MOVE, &RET].concat();
    let image = image_of(&[&code], "pthread_mutex_lock");
    assert_eq!(
        sites(&image),
        [(SiteKind::SectionBegin, 0), (SiteKind::SectionEnd, 8), (SiteKind::SectionEnd, 28)]
    );
    assert_eq!((image.sites[1].patch_address, image.sites[1].patch_length), (CODE_ADDRESS + 8, 5));
    assert_eq!(image.sites[2].patch_address, CODE_ADDRESS + 22);
}

#[test]
fn all_of_a_function_or_nothing() {
    // Code jumps to the return, and only one byte is free there.
    let code = [&LOAD[..], &MOVE, &ATOMIC, &[0x74, 3], &MOVE, &RET].concat();
    let verdict = verdict_of(&[&code], "pthread_mutex_lock");
    assert_eq!(refusals(&verdict), [(SiteKind::SectionBegin, 0, Refusal::JumpTarget)]);
    assert_eq!(sites(&verdict.into_image().expect("patched")), [(SiteKind::Atomic, 6)]);
}

#[test]
fn a_return_may_stay_if_all_that_leads_to_it_is_patched() {
    // mov; mov; cmpxchg; je R; mov; mov; R: ret
    let code = [&LOAD[..], &MOVE, &ATOMIC, &[0x74, 6], &MOVE, &MOVE, &RET].concat();
    let image = image_of(&[&code], "pthread_mutex_lock");
    assert_eq!(
        sites(&image),
        [(SiteKind::SectionBegin, 0), (SiteKind::SectionEnd, 11), (SiteKind::SectionEnd, 19)]
    );
    let last = &image.sites[2];
    assert_eq!((last.patch_address, last.patch_length), (CODE_ADDRESS + 13, 6));
    assert_eq!(image.segments[0].bytes[CODE_ADDRESS as usize + 19], RET[0]);
}

#[test]
fn what_may_run_for_ever_is_no_section() {
    let code = [&ATOMIC[..], &CALL_ANYTHING, &MOVE, &MOVE, &RET].concat();
    let verdict = verdict_of(&[&code], "pthread_mutex_lock");
    assert_eq!(refusals(&verdict), [(SiteKind::SectionBegin, 0, Refusal::IndirectCall)]);
    assert_eq!(sites(&verdict.into_image().expect("patched")), [(SiteKind::Atomic, 0)]);
    let once = image_of(&[&code, &code], "pthread_mutex_lock pthread_once");
    assert!(sites(&once).contains(&(SiteKind::SectionBegin, code.len() as u64)), "an exception");
    // jmp *%rax
    let tail = [&ATOMIC[..], &[0xff, 0xe0]].concat();
    assert_eq!(
        refusals(&verdict_of(&[&tail], "pthread_mutex_lock")),
        [(SiteKind::SectionBegin, 0, Refusal::IndirectCall)]
    );
}

#[test]
fn returning_to_the_beginning_begins_again() {
    // L: mov; mov; cmpxchg; jne L; mov; mov; ret
    let code = [&LOAD[..], &MOVE, &ATOMIC, &[0x75, 0xf3], &MOVE, &MOVE, &RET].concat();
    let image = image_of(&[&code], "pthread_mutex_lock");
    assert_eq!(
        sites(&image),
        [(SiteKind::SectionBegin, 0), (SiteKind::SectionEnd, 11), (SiteKind::SectionEnd, 19)]
    );
}

#[test]
fn what_is_never_left_is_no_section() {
    let code = [&LOAD[..], &MOVE, &[0xeb, 0xfb]].concat();
    let verdict = verdict_of(&[&code], "pthread_mutex_lock");
    assert_eq!(refusals(&verdict), [(SiteKind::SectionBegin, 0, Refusal::NoExit)]);
}

#[test]
fn the_mark_of_an_entry_stays() {
    let code = [&ENDBR64[..], &LOAD, &MOVE, &MOVE, &MOVE, &RET].concat();
    let image = image_of(&[&code], "pthread_mutex_lock");
    assert_eq!(sites(&image), [(SiteKind::SectionBegin, 4), (SiteKind::SectionEnd, 16)]);
}

#[test]
fn parts_elsewhere_belong_to_the_function() {
    // Hot: mov; mov; je cold; L: mov; mov; ret. Cold: mov; jmp L.
    let hot = [&LOAD[..], &MOVE, &[0x74, 7], &MOVE, &MOVE, &RET].concat();
    let cold = [&MOVE[..], &[0xeb, 0xf4]].concat();
    let image = image_of(&[&hot, &cold], "pthread_mutex_lock pthread_mutex_lock.cold");
    assert_eq!(sites(&image), [(SiteKind::SectionBegin, 0), (SiteKind::SectionEnd, 14)]);
}

#[test]
fn jumps_to_other_functions_are_exits() {
    let thunk = [&LOAD[..], &MOVE, &[0xe9, 0, 0, 0, 0]].concat();
    let other = [&MOVE[..], &RET].concat();
    let image = image_of(&[&thunk, &other], "pthread_mutex_lock other");
    assert_eq!(sites(&image), [(SiteKind::SectionBegin, 0), (SiteKind::SectionEnd, 6)]);
}

#[test]
fn what_only_jumps_on_needs_none() {
    let thunk = [0xe9, 0, 0, 0, 0];
    let other = [&MOVE[..], &RET].concat();
    assert!(matches!(verdict_of(&[&thunk, &other], "pthread_mutex_lock other"),
            Verdict::Unpatched(unpatched) if unpatched.refused.is_empty()));
}

#[test]
fn the_futex_call_makes_a_section_in_the_c_library() {
    let waits = [&LOAD[..], &MOVE, &FUTEX, &MOVE, &MOVE, &RET].concat();
    let lock = [&LOAD[..], &MOVE, &MOVE, &MOVE, &RET].concat();
    let image = image_of(&[&lock, &waits], "pthread_mutex_lock internal");
    let start = lock.len() as u64;
    let expected = [
        (SiteKind::SectionBegin, start),
        (SiteKind::SystemCall, start + 11),
        (SiteKind::SectionEnd, start + 19),
    ];
    assert_eq!(sites(&image)[2..], expected);
    assert_eq!(
        sites(&image_of(&[&waits], "internal")),
        [(SiteKind::SystemCall, 11)],
        "elsewhere it does not"
    );
}

#[test]
fn names_make_sections() {
    let code = [&LOAD[..], &MOVE, &MOVE, &MOVE, &RET].concat();
    let begins = |names: &str, functions: &[&[u8]]| {
        let verdict = verdict_of(functions, names);
        verdict.into_image().map_or(0, |image| {
            image.sites.iter().filter(|site| site.kind == SiteKind::SectionBegin).count()
        })
    };
    assert_eq!(begins("free", &[&code]), 1, "an allocator of any file");
    assert_eq!(begins("sem_of_a_program", &[&code]), 0);
    assert_eq!(begins("pthread_mutex_lock sem_wait", &[&code, &code]), 2);
    assert_eq!(begins("pthread_mutex_lock pthread_self", &[&code, &code]), 1);
    assert_eq!(begins("pthread_mutex_lock pthread_spin_lock", &[&code, &code]), 1);
    assert_eq!(begins("_rtld_global free", &[&code, &code]), 0, "the dynamic linker");
}

#[test]
fn programs_with_a_c_library_of_their_own() {
    let atomic = [&ATOMIC[..], &MOVE, &MOVE, &RET].concat();
    let image = image_of(&[&atomic, &atomic], "main pthread_mutex_lock");
    assert_eq!(
        sites(&image),
        [(SiteKind::Atomic, 0), (SiteKind::SectionBegin, 12), (SiteKind::SectionEnd, 23)]
    );
}

#[test]
fn system_calls_come_first() {
    // The whole function is displaced for its system call.
    let code = [&FUTEX[..], &RET].concat();
    let verdict = verdict_of(&[&code], "pthread_mutex_lock");
    assert_eq!(refusals(&verdict), [(SiteKind::SectionBegin, 0, Refusal::NoRoom)]);
    assert_eq!(sites(&verdict.into_image().expect("patched")), [(SiteKind::SystemCall, 5)]);
}
