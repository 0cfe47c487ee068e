//! Repeatable lazy binding of the dynamic linker.
//!
//! When a function is called for the first time, glibc's linker saves the vector registers on the
//! program's stack with XSAVEC or XSAVE. These also store which registers are in use, and XSAVEC
//! stores nothing for the others. While a register is all zero, the processor may change at any
//! interruption whether it counts as in use. The stack below would differ at replay. The linker
//! itself does not touch the upper halves of vector registers, so FXSAVE is enough. The linker has
//! a variant with FXSAVE, too, for processors without the other instructions.

use crate::elf::ElfView;
use crate::jump::Patch;

/// `xsavec disp8(%rsp)` and `xsave disp8(%rsp)` without the displacement.
const SAVES: [[u8; 4]; 2] = [[0x0f, 0xc7, 0x64, 0x24], [0x0f, 0xae, 0x64, 0x24]];
/// `mov $mask, %eax` without the mask.
const MOVE_MASK: u8 = 0xb8;
/// `xor %edx, %edx; xrstor disp8(%rsp)` without the displacement, after the mask.
const RESTORE: [u8; 6] = [0x31, 0xd2, 0x0f, 0xae, 0x6c, 0x24];
/// `fxsave disp8(%rsp)` and `fxrstor disp8(%rsp)`, without the displacement.
const SHORT_SAVE: [u8; 4] = [0x0f, 0xae, 0x44, 0x24];
const SHORT_RESTORE: [u8; 4] = [0x0f, 0xae, 0x4c, 0x24];
/// Length of each of these instructions in bytes.
pub(crate) const INSTRUCTION_BYTES: u64 = 5;
/// Longest distance of the instructions in bytes: one call is between save and restore, and an area
/// is cleared before the save.
const MOST_BYTES: usize = 96;

/// The edits of a file's text. Only the dynamic linker has any: a save and a restore of the same
/// place with the same mask, close together.
pub(crate) fn patches(elf: &ElfView) -> Vec<Patch> {
    let segments = elf.text_segments();
    segments
        .flat_map(|segment| {
            in_text(elf.segment_bytes(segment))
                .map(|(at, bytes)| (segment.address + at as u64, bytes))
        })
        .collect()
}

fn in_text(text: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let restores = text.windows(RESTORE.len()).enumerate().filter(|(_, bytes)| *bytes == RESTORE);
    restores.filter_map(|(at, _)| pair(text, at)).flatten()
}

/// The edits for a restore and its save, if they belong to lazy binding.
fn pair(text: &[u8], restore: usize) -> Option<[(usize, Vec<u8>); 2]> {
    let place = *text.get(restore + RESTORE.len())?;
    let mask = text.get(restore.checked_sub(5)?..restore).filter(|bytes| bytes[0] == MOVE_MASK)?;
    let start = restore.saturating_sub(MOST_BYTES);
    let before = &text[start..restore - mask.len()];
    let save = before
        .windows(5)
        .rposition(|bytes| bytes[4] == place && SAVES.iter().any(|save| bytes.starts_with(save)))?;
    before[..save].windows(mask.len()).any(|bytes| bytes == mask).then_some(())?;
    let with_place = |instruction: [u8; 4]| [&instruction[..], &[place]].concat();
    Some([(start + save, with_place(SHORT_SAVE)), (restore + 2, with_place(SHORT_RESTORE))])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 5] = [MOVE_MASK, 0xee, 0, 0, 0];

    fn resolver(save: &[u8], place: u8) -> Vec<u8> {
        let call = [0xe8, 1, 2, 3, 4, 0x49, 0x89, 0xc3];
        [
            &[0x90; 40],
            &MASK[..],
            &[0x31, 0xd2],
            save,
            &[place],
            &call,
            &MASK,
            &RESTORE,
            &[place],
            &[0xc3],
        ]
        .concat()
    }

    #[test]
    fn saving_and_restoring_become_shorter() {
        for save in SAVES {
            let text = resolver(&save, 0x40);
            let edits: Vec<_> = in_text(&text).collect();
            assert_eq!(
                edits,
                [
                    (47, vec![0x0f, 0xae, 0x44, 0x24, 0x40]),
                    (67, vec![0x0f, 0xae, 0x4c, 0x24, 0x40])
                ]
            );
            assert_eq!(text[67..72], [0x0f, 0xae, 0x6c, 0x24, 0x40]);
        }
    }

    #[test]
    fn other_code_stays_as_it_is() {
        assert_eq!(in_text(&resolver(&[0x0f, 0xae, 0x44, 0x24], 0x40)).count(), 0, "it has FXSAVE");
        let mut elsewhere = resolver(&SAVES[0], 0x40);
        elsewhere[72 - 1] = 0x80;
        assert_eq!(in_text(&elsewhere).count(), 0, "another place is restored");
        assert_eq!(in_text(&resolver(&SAVES[0], 0x40)[60..]).count(), 0);
    }
}
