//! The vDSO of the running kernel, and made-up ones.

mod common;

use common::assembler::small_file;
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use retake_patch::{BOOTSTRAP_BYTES, PAGE_BYTES, PatchError, SiteKind, VdsoMethod, VdsoPatch, build_vdso_patch};
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

fn check_jump(vdso: &[u8], patch: &VdsoPatch, index: usize) {
    let edit = &patch.edits[index];
    let mut decoder = Decoder::with_ip(64, &edit.bytes, edit.offset, DecoderOptions::NONE);
    let number = decoder.decode();
    assert_eq!(number.mnemonic(), Mnemonic::Mov);
    let lea = decoder.decode();
    let jump = decoder.decode();
    // For those whom a signal sends back to the instruction before the return address.
    assert_eq!(decoder.decode().mnemonic(), Mnemonic::Int);
    assert_eq!(decoder.ip(), lea.ip_rel_memory_address());
    assert_eq!(decoder.decode().mnemonic(), Mnemonic::Ret);
    assert_eq!(decoder.ip(), jump.ip_rel_memory_address());
    let literal = &edit.bytes[(decoder.ip() - edit.offset) as usize..];
    assert_eq!(literal, SiteKind::SystemCall.entry_address().to_le_bytes());
    assert!(edit.offset as usize + edit.bytes.len() <= vdso.len());
}

#[test]
fn running_kernel() {
    let Some(vdso) = own_vdso() else {
        println!("skipped: this process has no vDSO");
        return;
    };
    let patch = build_vdso_patch(&vdso).expect("a vDSO");
    println!("{:?}, left alone: {:?}", patch.functions, patch.left_alone);
    assert_eq!(patch.functions.len(), patch.edits.len());
    for (index, function) in patch.functions.iter().enumerate() {
        assert_eq!(function.offset, patch.edits[index].offset);
        match function.method {
            VdsoMethod::Jump => check_jump(&vdso, &patch, index),
            VdsoMethod::SystemCall => {
                assert!(patch.edits[index].bytes.ends_with(&[0xcd, 0x05, 0xc3]))
            }
            VdsoMethod::NotImplemented => assert_eq!(function.name, "getrandom"),
        }
    }
    for name in ["clock_gettime", "gettimeofday", "time", "getcpu"] {
        assert!(patch.functions.iter().any(|function| function.name == name), "{name}");
    }
    let mut edits: Vec<_> = patch.edits.iter().map(|edit| edit.offset..edit.offset + edit.bytes.len() as u64).collect();
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
