//! The vDSO of the running kernel, and artificial ones.

mod common;

use common::assembler::small_file;
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use retake_patch::{
    BOOTSTRAP_BYTES, Entry, PAGE_BYTES, PatchError, VdsoEdit, VdsoFunction, VdsoMethod, VdsoPatch,
    build_vdso_patch,
};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The bytes of this process's vDSO.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut bytes = vec![0; (end - start) as usize];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

/// The edit at an offset.
fn edit_at(patch: &VdsoPatch, offset: u64) -> &VdsoEdit {
    patch.edits.iter().find(|edit| edit.offset == offset).expect("something is written there")
}

/// Returns the address of the replacement of a function that stays callable. Checks that the
/// function starts with a jump to it, and that the displaced instructions lead back.
fn check_original(vdso: &[u8], patch: &VdsoPatch, function: &VdsoFunction) -> u64 {
    let first = edit_at(patch, function.offset);
    let jump = Decoder::with_ip(64, &first.bytes, first.offset, DecoderOptions::NONE).decode();
    assert_eq!((jump.mnemonic(), jump.len()), (Mnemonic::Jmp, first.bytes.len()));
    let place = jump.near_branch_target();
    let moved = edit_at(patch, place);
    let (_, original) = function.original.expect("it can be called");
    let displaced = &moved.bytes[(original - place) as usize..];
    let moved: Vec<_> =
        Decoder::with_ip(64, displaced, original, DecoderOptions::NONE).into_iter().collect();
    let (back, moved) = moved.split_last().expect("some instructions");
    let unmoved = Decoder::with_ip(
        64,
        &vdso[function.offset as usize..],
        function.offset,
        DecoderOptions::NONE,
    );
    for (moved, unmoved) in moved.iter().zip(unmoved) {
        assert_eq!(moved.mnemonic(), unmoved.mnemonic());
        assert!(
            !moved.is_ip_rel_memory_operand()
                || moved.ip_rel_memory_address() == unmoved.ip_rel_memory_address()
        );
    }
    assert_eq!(back.mnemonic(), Mnemonic::Jmp);
    assert!(back.near_branch_target() >= function.offset + first.bytes.len() as u64);
    place
}

fn check_jump(vdso: &[u8], patch: &VdsoPatch, offset: u64) {
    let edit = edit_at(patch, offset);
    let mut decoder = Decoder::with_ip(64, &edit.bytes, edit.offset, DecoderOptions::NONE);
    let number = decoder.decode();
    assert_eq!(number.mnemonic(), Mnemonic::Mov);
    let lea = decoder.decode();
    let jump = decoder.decode();
    // A signal sends the thread back to the instruction before the return address.
    assert_eq!(decoder.decode().mnemonic(), Mnemonic::Int);
    assert_eq!(decoder.ip(), lea.ip_rel_memory_address());
    assert_eq!(decoder.decode().mnemonic(), Mnemonic::Ret);
    assert_eq!(decoder.ip(), jump.ip_rel_memory_address());
    let literal = &edit.bytes[(decoder.ip() - edit.offset) as usize..];
    assert_eq!(literal[..8], Entry::SystemCall.address().to_le_bytes());
    assert!(edit.offset as usize + edit.bytes.len() <= vdso.len());
}

#[test]
fn running_kernel() {
    let vdso = own_vdso().expect("every kernel gives processes a vDSO");
    let patch = build_vdso_patch(&vdso).expect("a vDSO");
    println!("{:?}, left alone: {:?}", patch.functions, patch.left_alone);
    for function in &patch.functions {
        match function.method {
            VdsoMethod::Jump if function.original.is_some() => {
                check_jump(&vdso, &patch, check_original(&vdso, &patch, function))
            }
            VdsoMethod::Jump => check_jump(&vdso, &patch, function.offset),
            VdsoMethod::SystemCall => {
                assert!(edit_at(&patch, function.offset).bytes.ends_with(&[0xcd, 0x05, 0xc3]))
            }
            VdsoMethod::NotImplemented => assert_eq!(function.name, "getrandom"),
        }
    }
    for name in ["clock_gettime", "gettimeofday", "time", "getcpu"] {
        assert!(patch.functions.iter().any(|function| function.name == name), "{name}");
    }
    assert!(
        patch
            .functions
            .iter()
            .any(|function| function.name == "clock_gettime" && function.original.is_some()),
        "no clock to be called"
    );
    let mut edits: Vec<_> =
        patch.edits.iter().map(|edit| edit.offset..edit.offset + edit.bytes.len() as u64).collect();
    edits.sort_by_key(|range| range.start);
    assert!(edits.windows(2).all(|pair| pair[0].end <= pair[1].start), "edits overlap");
    if let Some(place) = patch.bootstrap_offset {
        let place = place as usize;
        assert!(place >= vdso.len() - PAGE_BYTES as usize);
        assert_eq!(vdso[place..place + BOOTSTRAP_BYTES], [0; BOOTSTRAP_BYTES]);
    }
}

#[test]
fn other_libraries_are_refused() {
    let file = small_file(&[0xc3], &[]);
    assert_eq!(build_vdso_patch(&file), Err(PatchError::EmptyVdso));
    assert_eq!(build_vdso_patch(b"\x7fELF"), Err(PatchError::NotElf));
}
