//! Numbers as HotSpot compresses them in its tables: lines, and scopes of compiled code.

/// The bytes of a table, from a place in it.
#[derive(Debug, Clone)]
pub struct Compressed<'a> {
    rest: &'a [u8],
    /// The least value of a byte. Since version 19 no byte of a number is zero.
    least: u32,
}

/// A byte from here on is followed by another one.
const FIRST_OF_MORE: u32 = 192;
/// The most bytes of a number, and the bits that each adds.
const MOST_BYTES: u32 = 5;
const BITS: u32 = 6;

impl<'a> Compressed<'a> {
    pub fn new(bytes: &'a [u8], has_no_zeros: bool) -> Self {
        Self { rest: bytes, least: u32::from(has_no_zeros) }
    }

    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub fn number(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for index in 0..MOST_BYTES {
            let byte = u32::from(self.byte()?);
            sum = sum.wrapping_add(byte.checked_sub(self.least)?.wrapping_shl(BITS * index));
            if byte < FIRST_OF_MORE {
                break;
            }
        }
        Some(sum)
    }

    pub fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }
}

/// The line of an instruction at `bci`, from a table of lines. An entry for exactly this place
/// counts; without one, the last that begins before it.
pub fn line(mut table: Compressed<'_>, bci: i32) -> Option<u32> {
    const END: u8 = 0;
    const LONG: u8 = 0xff;
    let (mut at, mut line, mut best) = (0_i32, 0_i32, (0, None));
    loop {
        match table.byte()? {
            END => break,
            LONG => {
                at = at.checked_add(table.signed()?)?;
                line = line.checked_add(table.signed()?)?;
            }
            short => {
                at = at.checked_add((short >> 3).into())?;
                line = line.checked_add((short & 7).into())?;
            }
        }
        if at == bci {
            best.1 = Some(line);
            break;
        }
        if at < bci && at >= best.0 {
            best = (at, Some(line));
        }
    }
    best.1?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_to_five_bytes() {
        let cases: [(&[u8], bool, u32); 6] = [
            (&[0], false, 0),
            (&[191], false, 191),
            (&[192, 0], false, 192),
            (&[1], true, 0),
            (&[192, 1], true, 191),
            (&[255, 191], false, 255 + 191 * 64),
        ];
        for (bytes, has_no_zeros, expected) in cases {
            assert_eq!(Compressed::new(bytes, has_no_zeros).number(), Some(expected), "{bytes:?}");
        }
        assert_eq!(Compressed::new(&[192], false).number(), None);
        assert_eq!(Compressed::new(&[0], true).number(), None);
    }

    #[test]
    fn lines_are_found_by_the_last_entry_before() {
        // Line 3 from 0 on, line 5 from 4 on, line 4 from 10 on.
        let table = [0x03, 4 << 3 | 2, 0xff, 12, 1, 0];
        let line_at = |bci| line(Compressed::new(&table, false), bci);
        assert_eq!([0, 3, 4, 9, 10, 99].map(line_at), [3, 3, 5, 5, 4, 4].map(Some));
        assert_eq!(line(Compressed::new(&[0], false), 0), None);
        assert_eq!(line(Compressed::new(&[0x03], false), 0), Some(3));
        assert_eq!(line(Compressed::new(&[0x0b], false), 0), None);
    }
}
