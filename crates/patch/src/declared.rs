//! What a compiler says of its code: which instructions synchronise threads although nothing in
//! them says so. A plain load may be an atomic one, or one of a `volatile` variable (CASTOR,
//! section 3.1). `retake cc` lists them in a section of the file (docs/COMPILER.md).

use crate::elf::ElfView;

/// The section with the list. An entry has 8 bytes: how far the code lies from the entry itself
/// (`i32`), how many bytes it has (`u16`), and zeros.
pub const DECLARED_SECTION: &str = "retake_operations";

const ENTRY_BYTES: usize = 8;

/// Addresses of declared code: ranges, ascending.
#[derive(Debug, Default)]
pub(crate) struct Declared(Vec<(u64, u64)>);

impl Declared {
    /// Reads a file's list.
    pub fn of(elf: &ElfView) -> Self {
        elf.section(DECLARED_SECTION.as_bytes()).map_or_else(Self::default, |section| {
            Self::read(section.address, section.bytes, |address| elf.is_text(address))
        })
    }

    /// What lies outside the text is left out: the file may lie.
    fn read(list: u64, bytes: &[u8], is_text: impl Fn(u64) -> bool) -> Self {
        let entries = bytes.chunks_exact(ENTRY_BYTES).enumerate();
        let mut ranges: Vec<(u64, u64)> = entries
            .filter_map(|(index, entry)| {
                let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                let bytes = u64::from(u16::from_le_bytes([entry[4], entry[5]]));
                let place = list + (index * ENTRY_BYTES) as u64;
                let start = place.checked_add_signed(i64::from(distance))?;
                (bytes > 0 && is_text(start)).then_some((start, start + bytes))
            })
            .collect();
        ranges.sort_unstable();
        ranges.dedup();
        Self(ranges)
    }

    /// Whether the instruction at an address is declared.
    pub fn contains(&self, address: u64) -> bool {
        let index = self.0.partition_point(|(start, _)| *start <= address);
        self.0[..index].last().is_some_and(|(_, end)| address < *end)
    }

    /// Whether any declared instruction begins between two addresses.
    pub fn any_in(&self, start: u64, end: u64) -> bool {
        let index = self.0.partition_point(|(_, range_end)| *range_end <= start);
        self.0.get(index).is_some_and(|(range_start, _)| *range_start < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(distance: i32, bytes: u16) -> Vec<u8> {
        [&distance.to_le_bytes()[..], &bytes.to_le_bytes(), &[0, 0]].concat()
    }

    #[test]
    fn entries_say_where_code_lies_from_themselves() {
        let list = [entry(-0x800, 6), entry(-0x1000 - 8, 2)].concat();
        let declared = Declared::read(0x2000, &list, |_| true);
        for (address, is_declared) in
            [(0xfff, false), (0x1000, true), (0x1002, false), (0x1800, true), (0x1806, false)]
        {
            assert_eq!(declared.contains(address), is_declared, "{address:x}");
        }
        assert!(declared.any_in(0x1700, 0x1801) && declared.any_in(0x1001, 0x1002));
        assert!(!declared.any_in(0x1002, 0x1800) && !declared.any_in(0x1806, 0x2000));
    }

    #[test]
    fn lists_that_lie_declare_nothing() {
        let list = [entry(-0x800, 6), entry(i32::MIN, 1), entry(0x10, 0), vec![1, 2, 3]].concat();
        let declared = Declared::read(0x2000, &list, |address| address >= 0x1900);
        assert!(!declared.any_in(0, u64::MAX));
    }
}
