//! Decoder of raw LZO1X blocks.
//!
//! A block is a sequence of instructions: a run of literals, or a match (length, distance) followed
//! by up to three literals. The meaning of an instruction byte below 16 depends on the number of
//! literals right before it.
//!
//! This decoder is our own. Only files of other writers have such blocks. A hundred lines without
//! unsafe code, which fill a slice of known size, are easier to maintain than a library that also
//! compresses.

use super::Malformed;

/// The state after a run of literals. Smaller states are the numbers of literals after a match.
const AFTER_LITERAL_RUN: usize = 4;
/// Distance of the instruction that ends the block.
const END_DISTANCE: usize = 16384;

/// The reading position in the block. Every access is checked.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<usize, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed("lzo block ends early"))?;
        self.at += 1;
        Ok(usize::from(byte))
    }

    fn little_word(&mut self) -> Result<usize, Malformed> {
        Ok(self.byte()? | self.byte()? << 8)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..count).ok_or(Malformed("lzo literals end early"))?;
        self.at += count;
        Ok(taken)
    }

    /// Reads a length field of the instruction. If it is zero, the length is extended: `255` for
    /// each zero byte, plus the byte that ends them, plus the largest value of the field.
    fn length(&mut self, field: usize, field_max: usize) -> Result<usize, Malformed> {
        if field != 0 {
            return Ok(field);
        }
        let mut length = field_max;
        loop {
            match self.byte()? {
                // Each step takes a byte of the input, so this cannot overflow.
                0 => length += 255,
                last => return Ok(length + last),
            }
        }
    }
}

/// Decodes `input` into `output`. Returns the number of bytes written.
pub(super) fn decompress(input: &[u8], output: &mut [u8]) -> Result<usize, Malformed> {
    let mut input = Input { bytes: input, at: 0 };
    let mut out = super::Output::new(output);
    let mut literals = 0;
    if input.bytes.first().is_some_and(|&first| first > 17) {
        let count = input.byte()? - 17;
        out.literals(input.take(count)?)?;
        literals = count.min(AFTER_LITERAL_RUN);
    }
    loop {
        let instruction = input.byte()?;
        if instruction < 16 && literals == 0 {
            let count = 3 + input.length(instruction, 15)?;
            out.literals(input.take(count)?)?;
            literals = AFTER_LITERAL_RUN;
            continue;
        }
        let Some((length, distance, trailing)) = parse_match(&mut input, instruction, literals)?
        else {
            return match input.at == input.bytes.len() {
                true => Ok(out.len()),
                false => Err(Malformed("bytes after the end of the lzo block")),
            };
        };
        out.copy(distance, length)?;
        out.literals(input.take(trailing)?)?;
        literals = trailing;
    }
}

/// Length, distance and trailing literals of a match; `None` for the end of the block.
fn parse_match(
    input: &mut Input<'_>,
    instruction: usize,
    literals: usize,
) -> Result<Option<(usize, usize, usize)>, Malformed> {
    let trailing = instruction & 3;
    Ok(Some(match instruction {
        0..16 => {
            let near = (input.byte()? << 2) + (instruction >> 2);
            match literals {
                AFTER_LITERAL_RUN => (3, near + 2049, trailing),
                _ => (2, near + 1, trailing),
            }
        }
        16..32 => {
            let length = 2 + input.length(instruction & 7, 7)?;
            let word = input.little_word()?;
            let distance = END_DISTANCE + ((instruction & 8) << 11) + (word >> 2);
            if distance == END_DISTANCE {
                return Ok(None);
            }
            (length, distance, word & 3)
        }
        32..64 => {
            let length = 2 + input.length(instruction & 31, 31)?;
            let word = input.little_word()?;
            (length, (word >> 2) + 1, word & 3)
        }
        64..128 => (
            3 + (instruction >> 5 & 1),
            (input.byte()? << 3) + (instruction >> 2 & 7) + 1,
            trailing,
        ),
        _ => (
            5 + (instruction >> 5 & 3),
            (input.byte()? << 3) + (instruction >> 2 & 7) + 1,
            trailing,
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_match_and_end() {
        // 4 literals, a match of length 3 at distance 4 with no trailing literals, end.
        let block = [21, b'a', b'b', b'c', b'd', 64 | 3 << 2, 0, 17, 0, 0];
        let mut output = [0; 7];
        assert_eq!(decompress(&block, &mut output), Ok(7));
        assert_eq!(&output, b"abcdabc");
        assert!(decompress(&block, &mut [0; 6]).is_err(), "output too small");
        assert!(decompress(&block[..9], &mut output).is_err(), "no end");
    }
}
