//! Decoder of raw LZF blocks: runs of up to 32 literals, and matches of 3 to 264 bytes at up to 8
//! KiB distance.
//!
//! This decoder is our own. Only files of other writers have such blocks. Thirty lines that check
//! every access are easier to maintain than a library that also compresses.

use super::{Malformed, Output};

/// Decodes `input` into `output`. Returns the number of bytes written.
pub(super) fn decompress(input: &[u8], output: &mut [u8]) -> Result<usize, Malformed> {
    const EARLY: Malformed = Malformed("lzf block ends early");
    let mut out = Output::new(output);
    let mut rest = input;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        if control < 32 {
            let (literals, after) = rest.split_at_checked(usize::from(control) + 1).ok_or(EARLY)?;
            out.literals(literals)?;
            rest = after;
            continue;
        }
        let mut length = usize::from(control >> 5);
        if length == 7 {
            let (&more, after) = rest.split_first().ok_or(EARLY)?;
            length += usize::from(more);
            rest = after;
        }
        let (&low, after) = rest.split_first().ok_or(EARLY)?;
        rest = after;
        out.copy((usize::from(control & 31) << 8 | usize::from(low)) + 1, length + 2)?;
    }
    Ok(out.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_overlapping_match() {
        let block = [1, b'a', b'b', 7 << 5, 1, 1];
        let mut output = [0; 12];
        assert_eq!(decompress(&block, &mut output), Ok(12));
        assert_eq!(&output, b"abababababab");
        assert!(decompress(&block, &mut [0; 11]).is_err());
        assert!(decompress(&[32, 0], &mut output).is_err(), "distance before the start");
    }
}
