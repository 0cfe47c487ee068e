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
    /// Reads a file's list. What lies outside the text is left out: the file may lie.
    pub fn of(elf: &ElfView) -> Self {
        let Some(section) = elf.section(DECLARED_SECTION.as_bytes()) else {
            return Self::default();
        };
        let entries = section.bytes.chunks_exact(ENTRY_BYTES).enumerate();
        let mut ranges: Vec<(u64, u64)> = entries
            .filter_map(|(index, entry)| {
                let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                let bytes = u64::from(u16::from_le_bytes([entry[4], entry[5]]));
                let place = section.address + (index * ENTRY_BYTES) as u64;
                let start = place.checked_add_signed(i64::from(distance))?;
                (bytes > 0 && elf.is_text(start)).then_some((start, start + bytes))
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
