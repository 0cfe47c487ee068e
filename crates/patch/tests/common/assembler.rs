//! Small files for tests, made without a compiler.

/// The code of a [`small_file`], as offset and as link-time address.
pub const CODE_ADDRESS: u64 = 0x1000;

/// A symbol of a [`small_file`].
#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    /// Offset in the code.
    pub start: u64,
    /// Size in bytes, 0 if the file does not say it.
    pub bytes: u64,
}

/// A position-independent library with one executable segment that holds all of the file up to the
/// end of `code`, and a symbol table.
pub fn small_file(code: &[u8], symbols: &[Symbol]) -> Vec<u8> {
    named_file(code, symbols, "")
}

/// Makes a library like [`small_file`] whose symbols have names, separated by spaces. The last name
/// is used for all further symbols.
pub fn named_file(code: &[u8], symbols: &[Symbol], names: &str) -> Vec<u8> {
    let mut file = vec![0; CODE_ADDRESS as usize];
    file.extend(code);
    let text_end = file.len() as u64;
    file.resize(file.len().next_multiple_of(8), 0);
    let table = file.len() as u64;
    put_symbols(&mut file, symbols, names);
    let table_bytes = file.len() as u64 - table;
    let strings = file.len() as u64;
    file.push(0);
    file.extend(names.bytes().map(|byte| if byte == b' ' { 0 } else { byte }));
    file.push(0);
    let string_bytes = file.len() as u64 - strings;
    file.resize(file.len().next_multiple_of(8), 0);
    let sections = file.len() as u64;
    file.extend([0; 64]);
    section(&mut file, 2, table, table_bytes, 2, 24);
    section(&mut file, 3, strings, string_bytes, 0, 0);
    header(&mut file, text_end, sections);
    file
}

fn put_symbols(file: &mut Vec<u8>, symbols: &[Symbol], names: &str) {
    file.extend([0; 24]);
    let mut name = 1;
    for symbol in symbols {
        file.extend((name as u32).to_le_bytes());
        name += names[name - 1..].find(' ').map_or(0, |space| space + 1);
        // A global function in the first section.
        file.extend([0x12, 0, 1, 0]);
        file.extend((CODE_ADDRESS + symbol.start).to_le_bytes());
        file.extend(symbol.bytes.to_le_bytes());
    }
}

fn section(file: &mut Vec<u8>, kind: u32, offset: u64, bytes: u64, link: u32, entry_bytes: u64) {
    file.extend(0_u32.to_le_bytes());
    file.extend(kind.to_le_bytes());
    for number in [0, 0, offset, bytes] {
        file.extend(number.to_le_bytes());
    }
    file.extend(link.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend(8_u64.to_le_bytes());
    file.extend(entry_bytes.to_le_bytes());
}

fn header(file: &mut [u8], text_end: u64, sections: u64) {
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[3, 0, 62, 0, 1, 0, 0, 0]);
    put(32, &64_u64.to_le_bytes());
    put(40, &sections.to_le_bytes());
    put(52, &[64, 0, 56, 0, 1, 0, 64, 0, 3, 0, 2, 0]);
    // Loadable, readable and executable.
    put(64, &[1, 0, 0, 0, 5, 0, 0, 0]);
    for (index, number) in [0, 0, 0, text_end, text_end, 0x1000].into_iter().enumerate() {
        put(72 + 8 * index, &number.to_le_bytes());
    }
}
