//! Positions in bytecode and in the code that is made of it.

use super::Node;
use super::object::TAG;
use super::positions::{Position, bytecode_index, position};

/// The most bytes of a table.
const MOST_TABLE_BYTES: u64 = 1 << 20;
/// The most functions that are compiled into each other.
const MOST_INLINED: usize = 256;

impl Node<'_> {
    /// The position in its script of the instruction at an offset in bytecode.
    pub fn position(&self, bytecode: u64, offset: u64) -> Option<Position> {
        const POSITIONS: u64 = 24;
        let table = self.word(bytecode, self.layout.length + POSITIONS)?;
        position(&self.table(table)?, offset)
    }

    fn table(&self, bytes: u64) -> Option<Vec<u8>> {
        const ITEMS: u64 = 8;
        (self.kind(bytes)? == self.layout.types.bytes).then_some(())?;
        let count =
            self.small(bytes, self.layout.length).filter(|count| *count <= MOST_TABLE_BYTES)?;
        self.bytes((bytes - TAG).checked_add(self.layout.length + ITEMS)?, count)
    }

    /// The bytecode of a function.
    pub fn bytecode(&self, shared: u64) -> Option<u64> {
        const MOST_HOPS: usize = 3;
        let types = self.layout.types;
        let mut data = self.word(shared, self.layout.shared_data)?;
        for _ in 0..MOST_HOPS {
            match self.kind(data)? {
                kind if kind == types.bytecode => return Some(data),
                // Compiled code has the bytecode that it was made of.
                kind if kind == types.code => {
                    data = self.word(data, self.layout.interpreted_data)?
                }
                kind if kind == types.interpreter_data => data = self.word(data, 8)?,
                _ => return None,
            }
        }
        None
    }

    /// The offset in the bytecode of a function of what its code at `pc` was made of, if that code
    /// was made instruction by instruction.
    pub fn offset_of_compiled(&self, shared: u64, pc: u64) -> Option<u64> {
        let code = self.word(shared, self.layout.shared_data)?;
        (self.kind(code)? == self.layout.types.code).then_some(())?;
        let start = self.start_of(code, pc)?;
        let table = self.table(self.word(code, self.layout.offset_table)?)?;
        // The first part is what comes before the first instruction.
        let count = bytecode_index(&table, pc - start)?.checked_sub(1)?;
        self.offset_of_instruction(self.bytecode(shared)?, count)
    }

    /// Where the instructions begin of a code object that has `pc`. It has their address among its
    /// first words.
    fn start_of(&self, code: u64, pc: u64) -> Option<u64> {
        const WORDS: u64 = 10;
        const ALIGNMENT: u64 = 32;
        let words = (1..WORDS).filter_map(|index| self.word(code, index * 8));
        let starts = words.filter(|word| word.is_multiple_of(ALIGNMENT) && *word <= pc);
        starts.filter(|start| pc - start < MOST_TABLE_BYTES).max()
    }

    /// The offset of the instruction with this number.
    fn offset_of_instruction(&self, bytecode: u64, number: usize) -> Option<u64> {
        let count =
            self.small(bytecode, self.layout.length).filter(|count| *count <= MOST_TABLE_BYTES)?;
        let bytes = self.bytes((bytecode - TAG).checked_add(self.layout.bytecode)?, count)?;
        let [plain, wide, widest] = &self.layout.sizes;
        let mut at = 0;
        for _ in 0..number {
            let (sizes, prefix) = match bytes.get(at)? {
                0 => (wide, 1),
                1 => (widest, 1),
                _ => (plain, 0),
            };
            let size = *sizes.get(usize::from(*bytes.get(at + prefix)?))?;
            at += prefix + usize::from(size).max(1);
        }
        Some(at as u64)
    }

    /// The functions that optimised code executes at `pc`, by what all of one code share, with
    /// their positions, the innermost first. `None` if `function` has other code by now.
    pub fn inlined(&self, function: u64, pc: u64) -> Option<Vec<(u64, Position)>> {
        const POSITIONS: u64 = 24;
        const CALL_BYTES: usize = 16;
        let shared = self.word(function, self.layout.shared)?;
        // The code stands between these two.
        let code = self.word(function, self.layout.code)?;
        (self.kind(code)? == self.layout.types.code).then_some(())?;
        let offset = pc - self.start_of(code, pc)?;
        let table = self.table(self.word(code, POSITIONS)?)?;
        // The address is that after the call.
        let mut here = position(&table, offset.checked_sub(1)?)?;
        let data = self.word(code, self.layout.interpreted_data)?;
        let (calls, functions) = self.calls(data).unwrap_or_default();
        let mut found = Vec::new();
        while let Some(index) = here.inlined {
            let call = calls.get(index * CALL_BYTES..)?.first_chunk::<CALL_BYTES>()?;
            let [position, which] = call.as_chunks().0 else { return None };
            let (position, which) = (u64::from_le_bytes(*position), u64::from_le_bytes(*which));
            let inlined = self.word(functions, 16 + (which & u64::from(u32::MAX)) * 8)?;
            (self.kind(inlined)? == self.layout.types.shared).then_some(())?;
            found.push((inlined, here));
            here = Position::of(position).filter(|_| found.len() < MOST_INLINED)?;
        }
        found.push((shared, here));
        Some(found)
    }

    /// What optimised code knows of the calls that were compiled into it: the table of calls, and
    /// the array that begins with the functions. Both are among the items of an array, at places
    /// that depend on the version. The array's first table is another one.
    fn calls(&self, data: u64) -> Option<(Vec<u8>, u64)> {
        const FIRST_ITEM: u64 = 16;
        const MOST_ITEMS: u64 = 16;
        let count = self.small(data, self.layout.length)?.min(MOST_ITEMS);
        let items = (1..count).filter_map(|index| self.word(data, FIRST_ITEM + index * 8));
        let items: Vec<u64> = items.collect();
        let is_table = |item: &u64| self.kind(*item) == Some(self.layout.types.bytes);
        let calls = items.iter().copied().find(is_table)?;
        let has_function = |array: &u64| {
            let first = self.word(*array, FIRST_ITEM);
            first.and_then(|first| self.kind(first)) == Some(self.layout.types.shared)
        };
        let functions = items.iter().copied().find(has_function)?;
        Some((self.table(calls)?, functions))
    }
}
