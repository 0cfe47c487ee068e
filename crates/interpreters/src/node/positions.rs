//! V8's tables of positions: which part of a script an instruction belongs to.

/// The numbers of a table.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn unsigned(&mut self) -> Option<u64> {
        const MOST_BITS: u32 = 64;
        const BITS: u32 = 7;
        let (mut number, mut shift) = (0, 0);
        while shift < MOST_BITS {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += BITS;
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

/// A place in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// How many characters stand before it.
    pub offset: u64,
    /// If it is in a function that was compiled into another one, the number of that call.
    pub inlined: Option<usize>,
}

impl Position {
    /// The place that a number stands for. The lowest bit says that the script is one of another
    /// language. Both parts count from one: zero stands for none.
    pub fn of(number: u64) -> Option<Self> {
        const OFFSET_BITS: u32 = 30;
        const CALL_BITS: u32 = 16;
        let offset = number >> 1 & ((1 << OFFSET_BITS) - 1);
        let call = number >> (1 + OFFSET_BITS) & ((1 << CALL_BITS) - 1);
        Some(Self { offset: offset.checked_sub(1)?, inlined: (call as usize).checked_sub(1) })
    }
}

/// The place in the script of the instruction at an offset: that of the last entry up to it.
pub fn position(table: &[u8], offset: u64) -> Option<Position> {
    let mut numbers = Numbers(table);
    // What is before the first instruction has the offset -1.
    let (mut at, mut position, mut found) = (-1_i64, 0_i64, None);
    while let Some(step) = numbers.signed() {
        // The sign says whether a statement begins here.
        at = at.checked_add(if step < 0 { -(step + 1) } else { step })?;
        position = position.wrapping_add(numbers.signed()?);
        if u64::try_from(at).is_ok_and(|at| at > offset) {
            break;
        }
        found = Some(position);
    }
    Position::of(found? as u64)
}

/// The place in the bytecode, from the beginning of the table that compiled code has for it: for
/// each instruction of bytecode, how many bytes of code were made for it. `offset` is in that code.
pub fn bytecode_index(table: &[u8], offset: u64) -> Option<usize> {
    let (mut numbers, mut end, mut index) = (Numbers(table), 0_u64, 0);
    // The first number is that of the code before the first instruction.
    while let Some(bytes) = numbers.unsigned() {
        end = end.checked_add(bytes)?;
        if end >= offset {
            return Some(index);
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_last_entry_before() {
        // A statement at 2, with position 9, and an expression at 5, with position 4.
        let table = [3 << 1, (9 + 1) << 2, (3 << 1) + 1, ((10 - 5) << 2) - 1];
        let positions = [1, 2, 4, 5, 99].map(|at| Some(position(&table, at)?.offset));
        assert_eq!(positions, [None, Some(9), Some(9), Some(4), Some(4)]);
        let of_call = Position { offset: 6, inlined: Some(2) };
        assert_eq!(Position::of(7 << 1 | 3 << 31), Some(of_call));
        assert_eq!(position(&[], 3), None);
        assert_eq!(position(&[0xff; 20], 3), None);
    }

    #[test]
    fn code_belongs_to_the_instruction_that_ends_there() {
        let table = [10, 5, 0x80, 1];
        assert_eq!(
            [1, 10, 11, 15, 16, 143].map(|at| bytecode_index(&table, at)),
            [0, 0, 1, 1, 2, 2].map(Some)
        );
        assert_eq!(bytecode_index(&table, 144), None);
    }
}
