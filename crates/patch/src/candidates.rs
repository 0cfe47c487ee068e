//! Finding the bytes of instructions of interest, before anything is decoded. Most files have none, and cost no more than this scan.

use crate::elf::ElfView;
use crate::image::SiteKind;

/// A place where the bytes of an instruction of interest occur; whether it is that instruction is for decoding to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub kind: SiteKind,
    pub address: u64,
}

/// All candidates in executable text, by address.
pub(crate) fn find_candidates(elf: &ElfView) -> Vec<Candidate> {
    let mut found = Vec::new();
    for segment in elf.text_segments() {
        let bytes = elf.segment_bytes(segment);
        let kinds = bytes.windows(2).enumerate().filter(|(_, pair)| pair[0] == 0x0f);
        found.extend(kinds.filter_map(|(offset, _)| {
            let kind = kind_at(&bytes[offset..])?;
            Some(Candidate { kind, address: segment.address + offset as u64 })
        }));
    }
    found
}

/// The kind of instruction whose opcode `bytes` begin with.
pub(crate) fn kind_at(bytes: &[u8]) -> Option<SiteKind> {
    SiteKind::ALL.into_iter().find(|kind| bytes.starts_with(kind.opcode()))
}
