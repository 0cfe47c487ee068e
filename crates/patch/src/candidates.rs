//! The search for the bytes of instructions of interest, before anything is decoded. Most files
//! have none, and cost no more than this scan.

use crate::elf::ElfView;
use crate::image::SiteKind;

/// A place where the bytes of an instruction of interest occur. Decoding tells whether it is that
/// instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// `None` for the other ways into the kernel, which are never patched: see [`OTHER_GATES`].
    pub kind: Option<SiteKind>,
    pub address: u64,
}

/// `int $0x80` and `sysenter`. No 64-bit program uses them, but their bytes occur in other
/// instructions.
const OTHER_GATES: [[u8; 2]; 2] = [[0xcd, 0x80], [0x0f, 0x34]];

/// All candidates in executable text, by address.
pub(crate) fn find_candidates(elf: &ElfView) -> Vec<Candidate> {
    let mut found = Vec::new();
    for segment in elf.text_segments() {
        let bytes = elf.segment_bytes(segment);
        let pairs = bytes.windows(2).enumerate().filter(|(_, pair)| matches!(pair[0], 0x0f | 0xcd));
        found.extend(pairs.filter_map(|(offset, pair)| {
            let kind = kind_at(&bytes[offset..]);
            let gate = OTHER_GATES.iter().any(|gate| gate == pair);
            (kind.is_some() || gate)
                .then_some(Candidate { kind, address: segment.address + offset as u64 })
        }));
    }
    found
}

/// The kind of instruction whose opcode `bytes` begin with.
fn kind_at(bytes: &[u8]) -> Option<SiteKind> {
    SiteKind::REPLACED
        .into_iter()
        .find(|kind| kind.opcode().is_some_and(|opcode| bytes.starts_with(opcode)))
}
