//! The rules by which sites are accepted and refused, each on a few bytes of code.

mod common;

use common::assembler::{CODE_ADDRESS, Symbol, small_file};
use common::check_image;
use retake_patch::{
    CALL_TRAP, Image, Options, PAGE_BYTES, Placement, Refusal, SiteKind, UnpatchedReason, Verdict,
    examine,
};

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const RDTSC: [u8; 2] = [0x0f, 0x31];
const MOV_EAX: [u8; 5] = [0xb8, 39, 0, 0, 0];
const XOR_EAX: [u8; 2] = [0x31, 0xc0];
const RET: [u8; 1] = [0xc3];
const NOPL_8: [u8; 8] = [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];

fn whole(code: &[u8]) -> Vec<Symbol> {
    vec![Symbol { start: 0, bytes: code.len() as u64 }]
}

fn verdict(code: &[u8]) -> Verdict {
    let file = small_file(code, &whole(code));
    let verdict = examine(&file, Placement::After, &Options::default()).expect("well formed");
    if let Verdict::Patched(image) = &verdict {
        check_image(&file, image, Placement::After);
    }
    verdict
}

fn image(code: &[u8]) -> Image {
    verdict(code).into_image().expect("patched")
}

fn refusal(code: &[u8]) -> Refusal {
    let verdict = verdict(code);
    assert_eq!(verdict.refused().len(), 1, "{verdict:?}");
    verdict.refused()[0].reason
}

#[test]
fn displaces_the_number() {
    let image = image(&[&MOV_EAX[..], &SYSCALL, &RET].concat());
    assert_eq!(image.sites.len(), 1);
    let site = &image.sites[0];
    assert_eq!((site.patch_address, site.patch_length), (CODE_ADDRESS, 5));
    assert_eq!((site.address, site.stub.continue_at), (CODE_ADDRESS + 5, CODE_ADDRESS + 7));
}

#[test]
fn a_jump_to_the_call_itself_is_fine() {
    // jmp to the syscall, then mov and syscall.
    let code = [&[0xeb, 5][..], &MOV_EAX, &SYSCALL, &RET].concat();
    assert_eq!(image(&code).sites.len(), 1);
}

#[test]
fn a_jump_between_displaced_instructions_is_not() {
    // mov %edi,%edi; L: mov %rsi,%rdi; syscall; jmp L
    let code = [&[0x89, 0xff, 0x48, 0x89, 0xf7][..], &SYSCALL, &[0xeb, 0xf9]].concat();
    assert_eq!(refusal(&code), Refusal::JumpTarget);
}

#[test]
fn instructions_behind_the_jump_stay_whole() {
    // lea 1(%rdi),%rdi (4); mov %esi,%edi (2); L: mov %rsi,%rdi (3); syscall; jmp L
    let code = [&[0x48, 0x8d, 0x7f, 1, 0x89, 0xf7, 0x48, 0x89, 0xf7][..], &SYSCALL, &[0xeb, 0xf9]]
        .concat();
    let image = image(&code);
    assert_eq!(image.sites[0].patch_length, 6);
    let kept = (CODE_ADDRESS + 6) as usize;
    assert_eq!(image.segments[0].bytes[kept..kept + 5], [0x48, 0x89, 0xf7, 0xcd, 0x05]);
}

#[test]
fn the_signal_restorer_is_left_alone() {
    let code = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    assert_eq!(refusal(&code), Refusal::SignalReturn);
}

#[test]
fn calls_are_never_displaced() {
    let code = [&[0xe8, 0, 0, 0, 0][..], &SYSCALL, &RET].concat();
    assert_eq!(refusal(&code), Refusal::NoRoom);
}

#[test]
fn conditional_jumps_are_displaced_in_long_form() {
    // cmpb $0,0x10(%rip); je +3; xor %eax,%eax; syscall; ret; ret
    let code =
        [&[0x80, 0x3d, 0x10, 0, 0, 0, 0, 0x74, 5][..], &XOR_EAX, &SYSCALL, &RET, &RET].concat();
    let image = image(&code);
    assert_eq!(image.sites[0].patch_address, CODE_ADDRESS);
    assert_eq!(image.sites[0].pad_address, None);
}

#[test]
fn goes_by_way_of_padding() {
    let code = [&RET[..], &NOPL_8, &XOR_EAX, &SYSCALL, &RET].concat();
    let image = image(&code);
    let site = &image.sites[0];
    assert_eq!((site.patch_address, site.patch_length), (CODE_ADDRESS + 9, 2));
    assert_eq!(site.pad_address, Some(CODE_ADDRESS + 1));
}

#[test]
fn padding_between_functions_is_used() {
    let code = [&RET[..], &NOPL_8, &XOR_EAX, &SYSCALL, &RET].concat();
    let functions = [Symbol { start: 0, bytes: 1 }, Symbol { start: 9, bytes: 5 }];
    let file = small_file(&code, &functions);
    let image = examine(&file, Placement::After, &Options::default())
        .expect("well formed")
        .into_image()
        .expect("patched");
    check_image(&file, &image, Placement::After);
    assert_eq!(image.sites[0].pad_address, Some(CODE_ADDRESS + 1));
}

#[test]
fn padding_that_is_executed_is_not_used() {
    // The nop is reached from the instruction before it, so it is no padding: it is displaced
    // itself.
    let code = [&XOR_EAX[..], &NOPL_8, &XOR_EAX, &SYSCALL, &RET].concat();
    let site = &image(&code).sites[0];
    assert_eq!((site.patch_address, site.pad_address), (CODE_ADDRESS + 2, None));
    // A jump to the nop makes it code, too: jmp L; ret; L: nop; xor; syscall
    let code = [&[0xeb, 1][..], &RET, &NOPL_8, &XOR_EAX, &SYSCALL].concat();
    assert_eq!(refusal(&code), Refusal::NoRoom);
}

#[test]
fn counter_reads_take_what_follows() {
    // L: rdtsc; shl $32,%rdx; or %rdx,%rax; jmp L
    let code = [&RDTSC[..], &[0x48, 0xc1, 0xe2, 0x20], &[0x48, 0x09, 0xd0], &[0xeb, 0xf5]].concat();
    let image = image(&code);
    let site = &image.sites[0];
    assert_eq!(
        (site.kind, site.patch_address, site.patch_length),
        (SiteKind::Rdtsc, CODE_ADDRESS, 6)
    );
    assert!(site.stub.continue_at > image.high, "it continues in the stub");
    assert!(!image.unknown_calls);
}

#[test]
fn counter_reads_without_room_trap() {
    // call; rdtsc; ret; call; rdtscp; ret
    let call = [0xe8, 0, 0, 0, 0];
    let code = [&call[..], &RDTSC, &RET, &call, &[0x0f, 0x01, 0xf9], &RET].concat();
    let image = image(&code);
    assert_eq!(
        image.refused.iter().map(|site| site.reason).collect::<Vec<_>>(),
        [Refusal::NoRoom; 2]
    );
    let at = CODE_ADDRESS as usize;
    assert_eq!(image.segments[0].bytes[at + 5..at + 7], [0xcd, 0x31]);
    assert_eq!(image.segments[0].bytes[at + 13..at + 16], [0xcd, 0xf9, 0x90]);
    assert!(!image.unknown_calls);
}

#[test]
fn counter_reads_prefer_what_precedes() {
    // mov $39,%eax; rdtsc; shl $32,%rdx; ret
    let code = [&MOV_EAX[..], &RDTSC, &[0x48, 0xc1, 0xe2, 0x20], &RET].concat();
    let site = &image(&code).sites[0];
    assert_eq!((site.patch_address, site.stub.continue_at), (CODE_ADDRESS, CODE_ADDRESS + 7));
}

#[test]
fn calls_trap_behind_their_jump_and_where_there_is_no_jump() {
    // mov $39,%eax; syscall; ret; call; syscall; ret: the second has no room.
    let code = [&MOV_EAX[..], &SYSCALL, &RET, &[0xe8, 0, 0, 0, 0], &SYSCALL, &RET].concat();
    let image = image(&code);
    assert_eq!((image.sites.len(), image.refused[0].reason), (1, Refusal::NoRoom));
    for call in [5, 13] {
        let at = CODE_ADDRESS as usize + call;
        assert_eq!(image.segments[0].bytes[at..at + 2], CALL_TRAP);
    }
    assert!(!image.unknown_calls);
}

#[test]
fn plain_calls_outside_functions_are_patched() {
    let code = [&RET[..], &MOV_EAX, &SYSCALL, &RET].concat();
    let file = small_file(&code, &[Symbol { start: 0, bytes: 1 }]);
    let image = examine(&file, Placement::After, &Options::default())
        .expect("well formed")
        .into_image()
        .expect("patched");
    check_image(&file, &image, Placement::After);
    assert_eq!(image.sites.len(), 1);
    assert!(!image.unknown_calls);
}

#[test]
fn other_ways_into_the_kernel_are_unknown_calls() {
    for gate in [[0xcd, 0x80], [0x0f, 0x34]] {
        assert!(verdict(&[&gate[..], &RET].concat()).unknown_calls(), "{gate:x?}");
        // Inside mov $n,%eax, such bytes are no instructions.
        assert!(
            !verdict(&[&[0xb8][..], &gate, &[0, 0], &RET].concat()).unknown_calls(),
            "{gate:x?}"
        );
    }
}

/// Makes a file of two functions with calls, and of bytes between them.
fn between_functions(bytes: &[u8]) -> Image {
    let function = [&MOV_EAX[..], &SYSCALL, &RET].concat();
    let code = [&function[..], bytes, &function].concat();
    let size = function.len() as u64;
    let symbols =
        [Symbol { start: 0, bytes: size }, Symbol { start: code.len() as u64 - size, bytes: size }];
    examine(&small_file(&code, &symbols), Placement::After, &Options::default())
        .expect("well formed")
        .into_image()
        .expect("patched")
}

#[test]
fn gates_by_chance_between_functions_are_not_unknown_calls() {
    // cmpb $0,0x80cd(%rip); ret, as in code without a symbol that compilers add.
    assert!(!between_functions(&[0x80, 0x3d, 0xcd, 0x80, 0, 0, 0, 0xc3]).unknown_calls);
    // The bytes after it are no instructions: 07 is invalid.
    assert!(!between_functions(&[0xcd, 0x80, 0x07]).unknown_calls);
    assert!(between_functions(&[0xcd, 0x80, 0xc3]).unknown_calls);
    assert!(
        between_functions(&[&SYSCALL[..], &[0x07]].concat()).unknown_calls,
        "a system call may be one"
    );
}

/// A program without unwinding tables is one gap of more than 100 MB, and has thousands of such
/// bytes.
#[test]
fn the_place_between_functions_is_decoded_once() {
    let started = std::time::Instant::now();
    let many = [0x80, 0x3d, 0xcd, 0x80, 0, 0, 0].repeat(100_000);
    assert!(!between_functions(&[&many[..], &RET].concat()).unknown_calls);
    assert!(started.elapsed().as_secs() < 10, "it took {:?}", started.elapsed());
}

#[test]
fn whole_pages_between_functions_are_unreached() {
    let mut bytes = vec![0x1b; 3 * PAGE_BYTES as usize];
    bytes[PAGE_BYTES as usize..][..2].copy_from_slice(&SYSCALL);
    let image = between_functions(&bytes);
    assert!(!image.unknown_calls);
    let pages = image.unreached[0].clone();
    let at = CODE_ADDRESS + 8 + PAGE_BYTES;
    assert!(
        image.unreached.len() == 1
            && pages.contains(&at)
            && pages.start.is_multiple_of(PAGE_BYTES)
            && pages.end.is_multiple_of(PAGE_BYTES)
    );
    // On the same page as the first function.
    bytes[..2].copy_from_slice(&SYSCALL);
    assert!(between_functions(&bytes).unknown_calls);
}

#[test]
fn signal_restorers_are_not_unknown_calls() {
    let code = [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0][..], &SYSCALL].concat();
    let verdict = verdict(&code);
    assert_eq!(verdict.refused()[0].reason, Refusal::SignalReturn);
    assert!(!verdict.unknown_calls());
    assert!(verdict.into_image().is_none(), "its bytes stay");
}

#[test]
fn neighbouring_sites_do_not_share_instructions() {
    // cpuid; mov %rsi,%rdi; rdtsc; mov %rdi,%rsi; mov %rdi,%rsi; ret
    let moves = [0x48, 0x89, 0xf7];
    let code = [&[0x0f, 0xa2][..], &moves, &RDTSC, &moves, &moves, &RET].concat();
    let image = image(&code);
    assert_eq!(image.sites.len(), 2);
    assert_eq!(image.sites[0].patch_length, 5);
    assert_eq!(image.sites[1].patch_address, CODE_ADDRESS + 5);
}

#[test]
fn patterns_inside_instructions_are_not_sites() {
    // mov $0x0f310f05,%eax; ret
    let verdict = verdict(&[0xb8, 0x05, 0x0f, 0x31, 0x0f, 0xc3]);
    assert_eq!(verdict.refused(), []);
    assert!(!verdict.unknown_calls());
}

#[test]
fn patterns_outside_functions_are_not_patched() {
    let code = [&RET[..], &XOR_EAX, &SYSCALL, &RDTSC, &RET].concat();
    let file = small_file(&code, &[Symbol { start: 0, bytes: 1 }]);
    let Verdict::Unpatched(unpatched) =
        examine(&file, Placement::After, &Options::default()).expect("well formed")
    else {
        panic!("patched data");
    };
    assert_eq!(unpatched.reason, UnpatchedReason::NoSites);
    assert!(unpatched.unknown_calls, "data may be code after all");
}

#[test]
fn functions_without_size_are_followed_to_their_end() {
    let code = [&MOV_EAX[..], &SYSCALL, &RET, &[0x0f, 0x05, 0x06]].concat();
    let file = small_file(&code, &[Symbol { start: 0, bytes: 0 }]);
    let image = examine(&file, Placement::After, &Options::default())
        .expect("well formed")
        .into_image()
        .expect("patched");
    assert_eq!(image.sites.len(), 1);
    assert!(image.unknown_calls, "what follows the end is not decoded");
}

#[test]
fn functions_with_invalid_instructions_are_suspect() {
    let code = [&[0x06][..], &MOV_EAX, &SYSCALL, &RET].concat();
    assert_eq!(refusal(&code), Refusal::SuspectFunction);
}

#[test]
fn without_functions_only_plain_calls_are_patched() {
    let code =
        [&MOV_EAX[..], &SYSCALL, &[0x48, 0x89, 0xf7, 0x89, 0xc0], &SYSCALL, &MOV_EAX, &RDTSC, &RET]
            .concat();
    let file = small_file(&code, &[]);
    let image = examine(&file, Placement::After, &Options::default())
        .expect("well formed")
        .into_image()
        .expect("patched");
    assert_eq!(image.sites.len(), 1);
    assert!(image.refused.iter().all(|site| site.reason == Refusal::NoFunctionTable));
    assert_eq!(image.refused.len(), 2);
    assert!(image.unknown_calls);
}

#[test]
fn pointers_in_data_are_targets() {
    // Two 3-byte instructions before the call, and a pointer to the second.
    let mut code = [&[0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6][..], &SYSCALL, &RET].concat();
    let function = code.len() as u64;
    code.resize(16, 0);
    code.extend((CODE_ADDRESS + 3).to_le_bytes());
    let file = small_file(&code, &[Symbol { start: 0, bytes: function }]);
    let verdict = examine(&file, Placement::After, &Options::default()).expect("well formed");
    assert_eq!(verdict.refused()[0].reason, Refusal::JumpTarget);
}

#[test]
fn jump_tables_are_targets() {
    // lea table(%rip),%rax; mov %rsi,%rdi; L: mov %rdx,%rsi; syscall; ret; table: .long L - table
    let mut code = [
        &[0x48, 0x8d, 0x05, 9, 0, 0, 0][..],
        &[0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6],
        &SYSCALL,
        &RET,
    ]
    .concat();
    assert_eq!(code.len(), 16);
    let function = code.len() as u64;
    code.extend((10_i32 - 16).to_le_bytes());
    let file = small_file(&code, &[Symbol { start: 0, bytes: function }]);
    let verdict = examine(&file, Placement::After, &Options::default()).expect("well formed");
    // The lea is displaced too, so that the jump is there and the target after it is not
    // overwritten.
    let image = verdict.into_image().expect("patched");
    assert_eq!((image.sites[0].patch_address, image.sites[0].patch_length), (CODE_ADDRESS, 7));
}

#[test]
fn options_exclude_kinds() {
    let code = [&MOV_EAX[..], &SYSCALL, &MOV_EAX, &RDTSC, &RET].concat();
    let file = small_file(&code, &whole(&code));
    let options = Options { time_stamp_counter: false, ..Options::default() };
    let image = examine(&file, Placement::Before, &options)
        .expect("well formed")
        .into_image()
        .expect("patched");
    check_image(&file, &image, Placement::Before);
    assert_eq!(image.sites.len(), 1);
    assert_eq!(image.refused[0].reason, Refusal::NotWanted);
    assert!(image.unknown_calls, "the counter can be read");
}

/// Adds a second segment that has no bytes in the file, and `bytes` in memory.
fn add_memory(file: &mut [u8], address: u64, bytes: u64) {
    file[56] = 2;
    file[120..128].copy_from_slice(&[1, 0, 0, 0, 6, 0, 0, 0]);
    for (index, number) in [0, address, address, 0, bytes, 0x1000].into_iter().enumerate() {
        file[128 + 8 * index..136 + 8 * index].copy_from_slice(&number.to_le_bytes());
    }
}

#[test]
fn stubs_out_of_reach_mean_no_image() {
    let code = [&MOV_EAX[..], &SYSCALL, &MOV_EAX, &RDTSC, &RET].concat();
    let mut file = small_file(&code, &whole(&code));
    add_memory(&mut file, 0x10_0000, 3 << 30);
    let after = examine(&file, Placement::After, &Options::default()).expect("well formed");
    let Verdict::Unpatched(unpatched) = after else { panic!("a jump of 3 GiB") };
    assert_eq!(unpatched.reason, UnpatchedReason::OutOfReach);
    assert!(unpatched.unknown_calls, "now nothing is patched");
    let before = examine(&file, Placement::Before, &Options::default()).expect("well formed");
    assert!(!before.unknown_calls());
    check_image(&file, &before.into_image().expect("near enough"), Placement::Before);
}

#[test]
fn cpuid_alone_is_not_worth_a_large_image() {
    let code = [&MOV_EAX[..], &[0x0f, 0xa2], &RET].concat();
    let file = small_file(&code, &whole(&code));
    let patched = examine(&file, Placement::After, &Options::default()).expect("well formed");
    assert!(patched.into_image().is_some());
    let options = Options { cpuid_text_limit: 0, ..Options::default() };
    let Verdict::Unpatched(unpatched) =
        examine(&file, Placement::After, &options).expect("well formed")
    else {
        panic!("patched");
    };
    assert_eq!(unpatched.reason, UnpatchedReason::NotWorthwhile);
}

#[test]
fn code_outside_functions_may_jump_in() {
    // Two 3-byte instructions before the call. Outside the function, a jump to the second one.
    let mut code = [&[0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6][..], &SYSCALL, &RET].concat();
    let function = code.len() as u64;
    code.extend([0xe9]);
    code.extend((3_i32 - (function as i32 + 5)).to_le_bytes());
    let file = small_file(&code, &[Symbol { start: 0, bytes: function }]);
    let verdict = examine(&file, Placement::After, &Options::default()).expect("well formed");
    assert_eq!(verdict.refused()[0].reason, Refusal::JumpTarget);
}

#[test]
fn far_functions_may_jump_in() {
    let mut code = [&[0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6][..], &SYSCALL, &RET].concat();
    let function = code.len() as u64;
    code.resize(0x4000, 0x90);
    code.extend([0x0f, 0x84]);
    code.extend((3_i32 - 0x4006).to_le_bytes());
    code.extend(RET);
    let far = Symbol { start: 0x4000, bytes: 7 };
    let file = small_file(&code, &[Symbol { start: 0, bytes: function }, far]);
    let verdict = examine(&file, Placement::After, &Options::default()).expect("well formed");
    assert_eq!(verdict.refused()[0].reason, Refusal::JumpTarget);
}

#[test]
fn a_cpuid_without_room_traps_where_the_processor_does_not() {
    // call +0; cpuid; call +0; ret: nothing on either side can be displaced.
    let call = [0xe8, 0, 0, 0, 0];
    let code = [&call[..], &[0x0f, 0xa2], &call, &RET].concat();
    let file = small_file(&code, &whole(&code));
    let plain = examine(&file, Placement::After, &Options::default()).expect("well formed");
    assert!(plain.into_image().is_none());
    let image = examine(&file, Placement::After, &Options::untrappable())
        .expect("well formed")
        .into_image()
        .expect("a trap is planted");
    let segment = &image.segments[0];
    let at = (CODE_ADDRESS + 5 - segment.address) as usize;
    assert_eq!(segment.bytes[at..at + 2], retake_patch::CPUID_TRAP);
}
