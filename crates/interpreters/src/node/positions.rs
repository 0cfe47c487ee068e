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

/// The position in the script of the instruction at an offset: that of the last entry up to it.
pub fn position(table: &[u8], offset: u64) -> Option<u64> {
    const POSITION_BITS: u64 = (1 << 30) - 1;
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
    // The lowest bit says that the script is one of another language. Positions begin at one.
    ((found? as u64 >> 1) & POSITION_BITS).checked_sub(1)
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
        let positions = [1, 2, 4, 5, 99].map(|at| position(&table, at));
        assert_eq!(positions, [None, Some(9), Some(9), Some(4), Some(4)]);
        assert_eq!(position(&[], 3), None);
        assert_eq!(position(&[0xff; 20], 3), None);
    }

    #[test]
    fn code_belongs_to_the_instruction_that_ends_there() {
        let table = [10, 5, 0x80, 1];
        assert_eq!([1, 10, 11, 15, 16, 143].map(|at| bytecode_index(&table, at)),
            [0, 0, 1, 1, 2, 2].map(Some));
        assert_eq!(bytecode_index(&table, 144), None);
    }
}
