//! Landing pads: the addresses where the unwinder continues a function after an exception, from the
//! function's language-specific table.
//!
//! This decoder is our own: gimli reads the unwinding tables and finds the language-specific one,
//! but does not decode it.

use crate::bytes::array_at;
use crate::elf::ElfView;
use crate::functions::ExceptionTable;
use crate::windows::Windows;

const OMITTED: u8 = 0xff;
const FORM_MASK: u8 = 0x0f;

/// The most entries read. Functions may share a table, so this bounds the cost of a small hostile
/// file.
const TOTAL_ENTRIES: usize = 1 << 24;

/// Adds the landing pads near candidates. Returns the functions whose table could not be read:
/// anything in these may be a target.
pub(crate) fn landing_pad_targets(
    elf: &ElfView,
    windows: &Windows,
    tables: &[ExceptionTable],
    targets: &mut Vec<u64>,
) -> Vec<u64> {
    let mut left = TOTAL_ENTRIES;
    let mut unreadable = Vec::new();
    for table in tables {
        let mut cursor = Cursor { bytes: elf.bytes_from(table.address), position: 0 };
        let found = |address| targets.extend(windows.contains(address).then_some(address));
        if cursor.landing_pads(table.function, &mut left, found).is_none() {
            unreadable.push(table.function);
        }
    }
    unreadable
}

struct Cursor<'data> {
    bytes: &'data [u8],
    position: usize,
}

impl Cursor<'_> {
    /// Calls `found` for each landing pad. Returns `None` if the table ends early, or has an
    /// encoding that compilers do not use here.
    fn landing_pads(
        &mut self,
        function: u64,
        left: &mut usize,
        mut found: impl FnMut(u64),
    ) -> Option<()> {
        if self.byte()? != OMITTED {
            return None;
        }
        if self.byte()? != OMITTED {
            self.uleb()?;
        }
        let encoding = self.byte()?;
        let length = usize::try_from(self.uleb()?).ok()?;
        let end = self.position.checked_add(length)?;
        while self.position < end {
            *left = left.checked_sub(1)?;
            let _start = self.number(encoding)?;
            let _length = self.number(encoding)?;
            let pad = self.number(encoding)?;
            let _action = self.uleb()?;
            if pad != 0 {
                found(function.wrapping_add(pad));
            }
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = array_at(self.bytes, self.position)?;
        self.position += N;
        Some(array)
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self, encoding: u8) -> Option<u64> {
        if encoding & !FORM_MASK != 0 {
            return None;
        }
        match encoding {
            0x00 | 0x04 | 0x0c => self.fixed().map(u64::from_le_bytes),
            0x01 => self.uleb(),
            0x02 => self.fixed().map(|bytes| u64::from(u16::from_le_bytes(bytes))),
            0x03 => self.fixed().map(|bytes| u64::from(u32::from_le_bytes(bytes))),
            0x0b => self.fixed().map(|bytes| i64::from(i32::from_le_bytes(bytes)) as u64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pads(bytes: &[u8]) -> Option<Vec<u64>> {
        let mut found = Vec::new();
        let mut left = 100;
        let mut cursor = Cursor { bytes, position: 0 };
        cursor.landing_pads(0x1000, &mut left, |address| found.push(address))?;
        Some(found)
    }

    #[test]
    fn variable_length_entries() {
        // No base and no types. Two entries, one of them without a pad.
        assert_eq!(
            pads(&[0xff, 0xff, 0x01, 9, 0, 4, 0x90, 0x02, 1, 4, 4, 0, 0]),
            Some(vec![0x1110])
        );
    }

    #[test]
    fn fixed_length_entries_and_types() {
        let table = [0xff, 0x9b, 0x10, 0x03, 13, 0, 0, 0, 0, 4, 0, 0, 0, 0x20, 0, 0, 0, 0];
        assert_eq!(pads(&table), Some(vec![0x1020]));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert_eq!(pads(&[]), None);
        assert_eq!(pads(&[0x00]), None, "a base of its own");
        assert_eq!(pads(&[0xff, 0xff, 0x1b, 4, 0, 0, 0, 0]), None, "relative entries");
        assert_eq!(pads(&[0xff, 0xff, 0x01, 9, 0]), None, "cut off");
    }
}
