//! Instructions that a compiler declared as synchronising threads, although the instructions alone
//! do not show it. A plain load may be an atomic one, or one of a `volatile` variable (CASTOR,
//! section 3.1). `retake cc` lists them in a section of the file (docs/COMPILER.md).

use crate::elf::ElfView;

/// The section with the list. An entry has 8 bytes: the distance of the code from the entry itself
/// (`i32`), the size of the code in bytes (`u16`), and the kind (`u16`). The kind is 0 for an
/// instruction that synchronises, or [`DECLARED_FUNCTION`].
pub const DECLARED_SECTION: &str = "retake_operations";

/// The kind of an entry without bytes: a function begins there, and all of its instructions that
/// synchronise are in the list.
pub const DECLARED_FUNCTION: u16 = 1;

const ENTRY_BYTES: usize = 8;

/// Functions of the system's libraries that are known to synchronise by plain accesses, too.
/// Nothing else accesses the same memory, except declared instructions.
const KNOWN: [&[u8]; 7] = [
    b"__cxa_guard_acquire",
    b"__cxa_guard_release",
    b"__cxa_guard_abort",
    b"pthread_spin_init",
    b"pthread_spin_lock",
    b"pthread_spin_trylock",
    b"pthread_spin_unlock",
];

/// Libraries of the system that synchronise threads by plain accesses all over their code, by their
/// sonames. All memory that they access is shared, except the stack and a thread's own storage.
const PLAIN: [&[u8]; 1] = [b"libgomp.so.1"];

/// Addresses of declared code, ascending.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    /// Start and end of declared instructions.
    instructions: Vec<(u64, u64)>,
    /// Starts of declared functions.
    functions: Vec<u64>,
    /// Start and end of known functions.
    known: Vec<(u64, u64)>,
    /// Plain loads of memory that other threads may have changed (see `looks`).
    looks: Vec<u64>,
    /// Where the file's own variables begin, if it is one of the libraries in `PLAIN`.
    variables: Option<u64>,
}

impl Declared {
    /// Reads a file's list, and finds its known functions.
    pub fn of(elf: &ElfView) -> Self {
        let section = elf.section(DECLARED_SECTION.as_bytes());
        let declared = section.map_or_else(Self::default, |section| {
            Self::read(section.address, section.bytes, |address| elf.is_text(address))
        });
        let known = elf
            .function_symbols()
            .iter()
            .filter(|symbol| KNOWN.contains(&symbol.name))
            .map(|symbol| (symbol.address, symbol.address.saturating_add(symbol.bytes)))
            .collect();
        let data = || elf.section(b".data").map_or(u64::MAX, |data| data.address);
        Self { known, variables: is_plain(elf).then(data), ..declared }
    }

    /// Where the variables of a file begin that synchronises threads by plain accesses all over its
    /// code. What lies before them does not change.
    pub fn variables(&self) -> Option<u64> {
        self.variables
    }

    /// Whether an address is in a known function. All memory that such a function accesses by
    /// pointers is shared.
    pub fn is_known(&self, address: u64) -> bool {
        self.known.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    /// Adds loads that synchronise, although nothing in the file declares them.
    pub fn with_looks(mut self, looks: Vec<u64>) -> Self {
        self.looks = looks;
        self
    }

    /// Whether the instruction at an address is such a load.
    pub fn is_look(&self, address: u64) -> bool {
        self.looks.binary_search(&address).is_ok()
    }

    /// Reads the list. Entries outside the text are left out, because the file may be wrong.
    fn read(list: u64, bytes: &[u8], is_text: impl Fn(u64) -> bool) -> Self {
        let mut declared = Self::default();
        for (index, entry) in bytes.chunks_exact(ENTRY_BYTES).enumerate() {
            let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let [bytes, kind] = [4, 6].map(|at| u16::from_le_bytes([entry[at], entry[at + 1]]));
            let place = list + (index * ENTRY_BYTES) as u64;
            let start = place.checked_add_signed(i64::from(distance));
            match start.filter(|start| is_text(*start)) {
                Some(start) if kind == DECLARED_FUNCTION => declared.functions.push(start),
                Some(start) if bytes > 0 => {
                    declared.instructions.push((start, start + u64::from(bytes)));
                }
                _ => {}
            }
        }
        declared.instructions.sort_unstable();
        declared.instructions.dedup();
        declared.functions.sort_unstable();
        declared
    }

    /// Whether any function is declared.
    pub fn has_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Whether the function that begins at an address is declared.
    pub fn is_function(&self, address: u64) -> bool {
        self.functions.binary_search(&address).is_ok()
    }

    /// Whether the instruction at an address is declared.
    pub fn contains(&self, address: u64) -> bool {
        let index = self.instructions.partition_point(|(start, _)| *start <= address);
        self.instructions[..index].last().is_some_and(|(_, end)| address < *end)
    }

    /// Whether a declared instruction, a look or a known function begins between two addresses.
    pub fn any_in(&self, start: u64, end: u64) -> bool {
        if self.variables.is_some() {
            return true;
        }
        let look = self.looks.partition_point(|look| *look < start);
        if self.looks.get(look).is_some_and(|look| *look < end) {
            return true;
        }
        if self.known.iter().any(|(known, _)| (start..end).contains(known)) {
            return true;
        }
        let index = self.instructions.partition_point(|(_, range_end)| *range_end <= start);
        self.instructions.get(index).is_some_and(|(range_start, _)| *range_start < end)
    }
}

/// Whether a file synchronises threads by plain accesses all over its code.
pub(crate) fn is_plain(elf: &ElfView) -> bool {
    elf.soname().is_some_and(|name| PLAIN.contains(&name))
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
    fn functions_are_told_from_instructions() {
        let list = [&entry(-0x800, 6)[..], &(-0x900_i32).to_le_bytes(), &[0, 0, 1, 0]].concat();
        let declared = Declared::read(0x2000, &list, |_| true);
        assert!(declared.has_functions() && declared.is_function(0x2008 - 0x900));
        assert!(!declared.is_function(0x1800) && !declared.contains(0x2008 - 0x900));
    }

    #[test]
    fn lists_that_lie_declare_nothing() {
        let list = [entry(-0x800, 6), entry(i32::MIN, 1), entry(0x10, 0), vec![1, 2, 3]].concat();
        let declared = Declared::read(0x2000, &list, |address| address >= 0x1900);
        assert!(!declared.any_in(0, u64::MAX));
    }
}
