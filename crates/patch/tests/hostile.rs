//! Arbitrary input gives an error, or an image that passes every check, but never a panic.

mod common;

use common::assembler::{Symbol, named_file, small_file};
use common::check_image;
use proptest::prelude::*;
use retake_patch::{Image, Options, Placement, Verdict, build_vdso_patch, examine};

/// Bytes in which sites, jumps and moves are far more frequent than in random ones.
fn code() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(vec![0x0f, 0x05]),
        4 => Just(vec![0xf0, 0x0f, 0xb1, 0x17]),
        1 => Just(vec![0x74, 1, 0xf0, 0x0f, 0xb1, 0x17]),
        1 => Just(vec![0x87, 0x07]),
        1 => Just(vec![0xb8, 0xca, 0, 0, 0]),
        2 => Just(vec![0x0f, 0x31]),
        1 => Just(vec![0x0f, 0x01, 0xf9]),
        2 => Just(vec![0x0f, 0xa2]),
        4 => Just(vec![0xb8, 1, 0, 0, 0]),
        4 => Just(vec![0x48, 0x89, 0xf7]),
        2 => Just(vec![0x31, 0xc0]),
        2 => Just(vec![0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]),
        2 => Just(vec![0xc3]),
        2 => any::<i8>().prop_map(|distance| vec![0xeb, distance as u8]),
        2 => (0x70..=0x7f_u8, any::<i8>()).prop_map(|(opcode, distance)| vec![opcode,
            distance as u8]),
        1 => any::<i16>().prop_map(|distance| [&[0x48, 0x8b, 0x05][..],
            &i32::from(distance).to_le_bytes()].concat()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 1..80).prop_map(|pieces| pieces.concat())
}

fn symbols() -> impl Strategy<Value = Vec<Symbol>> {
    let symbol = (0..300_u64, prop_oneof![Just(0), 1..300_u64])
        .prop_map(|(start, bytes)| Symbol { start, bytes });
    prop::collection::vec(symbol, 0..6)
}

/// Checks that no kept instruction jumps into the middle of a patch.
fn assert_not_entered(file: &[u8], image: &Image) {
    for site in &image.sites {
        let inside = site.patch_address + 1..site.patch_address + u64::from(site.patch_length);
        let pad = site.pad_address.unwrap_or_default();
        let on_pad = image.sites.iter().any(|other| {
            (pad.saturating_sub(u64::from(other.patch_length)) + 1..pad + 5)
                .contains(&other.patch_address)
        });
        assert!(pad == 0 || !on_pad, "a jump in padding overlaps a patch");
        let entered = image.sites.iter().any(|other| inside.contains(&other.patch_address));
        assert!(!entered, "patches overlap in {} bytes", file.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn generated_code(code in code(), symbols in symbols(), after in any::<bool>(), kind in 0..3) {
        let file = if kind == 2 { named_file(&code, &symbols, "pthread_mutex_lock") } else {
            small_file(&code, &symbols) };
        let placement = if after { Placement::After } else { Placement::Before };
        let options = Options { sections: kind > 0, ..Options::default() };
        let verdict = examine(&file, placement, &options).expect("well formed");
        if let Verdict::Patched(image) = &verdict {
            check_image(&file, image, placement);
            assert_not_entered(&file, image);
        }
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = examine(&bytes, Placement::After, &Options::default());
        let _ = build_vdso_patch(&bytes);
        let mut file = small_file(&[0xc3], &[]);
        let length = bytes.len().min(file.len());
        file[7..length.max(7)].copy_from_slice(&bytes[7.min(bytes.len())
            ..length.max(7.min(bytes.len()))]);
        let _ = examine(&file, Placement::Before, &Options::default());
    }

    #[test]
    fn damaged_headers(changes in prop::collection::vec((0..0x1400_usize, any::<u8>()), 1..12),
        code in code()) {
        let mut file = small_file(&code, &[Symbol { start: 0, bytes: code.len() as u64 }]);
        for (at, byte) in changes {
            // Half of the positions are in the headers.
            let at = if at % 2 == 0 { at % 120 } else { at } % file.len();
            file[at] = byte;
        }
        if let Ok(Verdict::Patched(image)) = examine(&file, Placement::After, &Options::default()) {
            check_image(&file, &image, Placement::After);
        }
        let _ = build_vdso_patch(&file);
    }
}

/// Damages a real file with unwinding tables at random places.
#[test]
fn damaged_linker() {
    let whole = std::fs::read("/lib64/ld-linux-x86-64.so.2").expect("the dynamic linker");
    // The sequence is fixed, so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize
    };
    for round in 0..60 {
        let mut file = whole.clone();
        for _ in 0..1 << (round % 12) {
            let at = next() % file.len();
            file[at] = next() as u8;
        }
        file.truncate(file.len() - if round % 3 == 0 { next() % file.len() } else { 0 });
        if let Ok(Verdict::Patched(image)) = examine(&file, Placement::After, &Options::default()) {
            check_image(&file, &image, Placement::After);
        }
    }
}
