//! Planting a jump in code of a live process.

use retake_patch::traced::{Step, cheapest_places, good_places, is_spinning};
use retake_patch::watch::{Place, Text, flags_are_dead};

const CODE: u64 = 0x5555_0000_1000;

/// Code at [`CODE`], and nothing elsewhere.
fn text(code: &'static [u8]) -> Text<impl FnMut(u64, &mut [u8; 4096]) -> bool> {
    Text::new(move |address: u64, page: &mut [u8; 4096]| {
        page.fill(0x90);
        page[..code.len()].copy_from_slice(code);
        address == CODE
    })
}

/// `inc %rbx`, `inc %rdx`, `inc %rcx`, `ret`
const SHORT: &[u8] = b"\x48\xff\xc3\x48\xff\xc2\x48\xff\xc1\xc3";

#[test]
fn the_bytes_of_a_jump_trap_where_instructions_were() {
    let place = Place::at(&mut text(SHORT), CODE).expect("it can be moved");
    assert_eq!(place.patch_bytes(), 6);
    let (page, entry) = (CODE - 0x2000_0000..CODE)
        .step_by(4096)
        .find_map(|page| place.entry_in(page).map(|entry| (page, entry)))
        .expect("one of so many pages will do");
    assert!(entry >= page + 0x700 && entry + 5 <= page + 4096);
    let distance = (entry.wrapping_sub(CODE + 5) as u32).to_le_bytes();
    assert!(
        [0xcc, 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0xce]
            .contains(&distance[2]),
        "{distance:x?}"
    );
}

#[test]
fn what_was_moved_is_known_by_where_it_was() {
    let place = Place::at(&mut text(SHORT), CODE).expect("it can be moved");
    let moved = place.moved(CODE + 0x10000).expect("it is in reach");
    assert_eq!(moved.starts, [(0, 0), (3, 3)]);
    assert_eq!(moved.code[..7], *b"\x48\xff\xc3\x48\xff\xc2\xe9");
}

#[test]
fn one_long_instruction_lets_the_jump_lead_anywhere() {
    // `lea 0x12345678(%rbx),%rax`
    let place =
        Place::at(&mut text(b"\x48\x8d\x83\x78\x56\x34\x12\xc3"), CODE).expect("it can be moved");
    assert_eq!(place.patch_bytes(), 7);
    assert_eq!(place.entry_in(CODE + 0x10_0000), Some(CODE + 0x10_0700));
    assert_eq!(place.with_trap().patch_bytes(), 1);
}

/// The steps of `count` rounds of a loop whose instructions are at `offsets`. `change` alters the
/// registers of each round.
fn rounds(count: u64, offsets: &[u64], change: impl Fn(u64, &mut Step)) -> Vec<Step> {
    let all = (0..count).flat_map(|round| offsets.iter().map(move |offset| (round, *offset)));
    all.map(|(round, offset)| {
        let mut step = Step::default();
        step.0[16] = CODE + offset;
        change(round, &mut step);
        step
    })
    .collect()
}

fn spins(code: &'static [u8], trace: &[Step]) -> bool {
    is_spinning(&mut text(code), trace, 0, |addresses| !addresses.is_empty())
}

#[test]
fn who_only_waits_is_told_from_who_computes() {
    // `mov (%rdi),%eax`, `test %eax,%eax`, `je`
    let waits = rounds(3, &[0, 2, 4], |_, _| ());
    assert!(spins(b"\x8b\x07\x85\xc0\x74\xfa", &waits));
    assert!(!spins(b"\x8b\x07\x85\xc0\x74\xfa", &waits[..3]), "one round tells nothing");
    // `lock cmpxchg %ecx,(%rdi)`, `jne`
    assert!(spins(b"\xf0\x0f\xb1\x0f\x75\xfa", &rounds(3, &[0, 4], |_, _| ())));
    // `pause`, `dec %eax`, `jne`
    let counts = |round: u64, step: &mut Step| step.0[13] = 9 - round;
    assert!(spins(b"\xf3\x90\xff\xc8\x75\xfa", &rounds(2, &[0, 2, 4], counts)));
    // `incl (%rdi)`, `jmp`
    assert!(!spins(b"\xff\x07\xeb\xfc", &rounds(9, &[0, 2], |_, _| ())));
    // `dec %eax`, `jne`
    assert!(!spins(b"\xff\xc8\x75\xfc", &rounds(9, &[0, 2], counts)));
}

#[test]
fn who_counts_while_it_waits_is_told_from_who_sums_up() {
    // `cmp %ecx,(%rdi)`, `jne`, `dec %eax`, `jne`
    let code = b"\x39\x0f\x75\x04\xff\xc8\x75\xf8";
    let counts = |round: u64, step: &mut Step| step.0[13] = 9 - round;
    assert!(spins(code, &rounds(4, &[0, 2, 4, 6], counts)));
    assert!(
        !is_spinning(&mut text(code), &rounds(4, &[0, 2, 4, 6], counts), 0, |_| false),
        "a constant in the program"
    );
    let walks = |round: u64, step: &mut Step| step.0[8] = 0x1000 + 4 * round;
    assert!(!spins(code, &rounds(9, &[0, 2, 4, 6], walks)));
    let mixes = |round: u64, step: &mut Step| step.0[11..14].fill(round);
    assert!(!spins(code, &rounds(9, &[0, 2, 4, 6], mixes)));
}

/// `mov (%rbx),%rax`, `add $1,%rax`, `mov %rax,(%rbx)`, `cmp %rcx,%rdx`, `jne` to the start
const COUNTING: &[u8] = b"\x48\x8b\x03\x48\x83\xc0\x01\x48\x89\x03\x48\x39\xca\x75\xf1";

#[test]
fn flags_are_dead_where_they_are_set_before_they_are_read() {
    let dead: Vec<u64> = [0, 3, 7, 10, 13]
        .into_iter()
        .filter(|offset| flags_are_dead(&mut text(COUNTING), CODE + offset))
        .collect();
    assert_eq!(dead, [0, 3, 7, 10]);
    // `inc` keeps the carry, which `adc` reads. `test` leaves one flag undefined, which is read
    // afterwards.
    assert!(!flags_are_dead(&mut text(b"\x48\xff\xc0\x48\x11\xc8"), CODE));
    assert!(!flags_are_dead(&mut text(b"\x48\x85\xc0\x9c"), CODE));
    assert!(
        !flags_are_dead(&mut text(b"\xe8\x00\x00\x00\x00\x48\x39\xca"), CODE),
        "a call leads elsewhere"
    );
}

#[test]
fn a_cheap_place_is_chosen_if_the_thread_comes_there_again() {
    let places = vec![CODE + 13, CODE + 3, CODE + 20];
    let trace = rounds(4, &[0, 3, 7, 10, 13], |_, _| {});
    assert_eq!(cheapest_places(&mut text(COUNTING), &trace, places.clone()), [CODE + 3]);
    assert_eq!(cheapest_places(&mut text(COUNTING), &trace[..5], places.clone()), places);
}

#[test]
fn places_behind_a_return_are_known_from_the_trace() {
    // `call 0x20`, `mov %rax,0x1000(%rip)`, `sub $1,%rbx`, `jne 0`, `ret`; at 0x20 `movabs
    // $1,%rax`, `add %rdi,%rax`, `ret`.
    const CALLS: &[u8] = b"\xe8\x1b\0\0\0\x48\x89\x05\0\x10\0\0\x48\x83\xeb\x01\x75\xee\xc3\x90\
        \x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x48\xb8\x01\0\0\0\0\0\0\0\x48\x01\xf8\xc3";
    let all = rounds(3, &[0, 0x20, 0x2a, 0x2d, 0x5, 0xc, 0x10], |_, _| {});
    for end in all.len() - 6..=all.len() {
        let mut places = good_places(&mut text(CALLS), &all[..end], 32);
        places.sort_unstable();
        assert_eq!(places, [CODE + 0x5, CODE + 0xc], "after {end} steps");
    }
    // A place that a compiler might rewrite is better than none, although a trap would fit
    // anywhere.
    assert_eq!(
        good_places(&mut text(CALLS), &rounds(3, &[0x20, 0x2a, 0x2d], |_, _| {}), 32),
        [CODE + 0x20]
    );
}
