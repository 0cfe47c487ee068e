//! The string pool of an extent: the values of variable32 fields.
//!
//! The pool starts with four zero bytes, which are the shared empty value. Entries follow: a length
//! word, the bytes, and zeros up to the next place for a length word, which is at 4 modulo 8. A
//! field has the offset of its value's length word.

use crate::digest::DataDigest;
use crate::order::ByteOrder;

/// Bytes at the start of every pool that files omit.
pub(crate) const POOL_START: usize = 4;

/// Bytes from the start of an entry to the next one, for a value of this size.
pub(crate) fn entry_bytes(value_bytes: u64) -> u64 {
    4 + value_bytes + (12 - value_bytes % 8) % 8
}

/// Appends a value that is not empty. Returns its offset. The caller has checked the new size of
/// the pool.
#[inline]
pub(crate) fn push(pool: &mut Vec<u8>, order: ByteOrder, value: &[u8]) -> u32 {
    let offset = pool.len();
    let length = match order {
        ByteOrder::Little => (value.len() as u32).to_le_bytes(),
        ByteOrder::Big => (value.len() as u32).to_be_bytes(),
    };
    pool.extend_from_slice(&length);
    pool.extend_from_slice(value);
    pool.resize(offset + entry_bytes(value.len() as u64) as usize, 0);
    offset as u32
}

/// Returns the value at `offset`. `None` if there is none.
#[inline]
pub(crate) fn value(pool: &[u8], order: ByteOrder, offset: usize) -> Option<&[u8]> {
    let rest = pool.get(offset..).filter(|rest| rest.len() >= 4)?;
    rest[4..].get(..order.u32(rest, 0) as usize)
}

/// The starts of the entries of a checked pool.
pub(crate) struct EntryStarts {
    /// Bit `i` is set if an entry is at `4 + 8 * i`.
    bits: Vec<u64>,
}

impl EntryStarts {
    /// Whether `offset` is valid in a variable32 field.
    #[inline]
    pub(crate) fn allows(&self, offset: u32) -> bool {
        if offset == 0 {
            return true;
        }
        let Some(index) =
            offset.checked_sub(POOL_START as u32).filter(|distance| distance % 8 == 0)
        else {
            return false;
        };
        let index = (index / 8) as usize;
        self.bits.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}

/// Checks all entries of a pool, and adds their length words to `digest`.
///
/// # Errors A description of the error if the entries do not fill the pool exactly, or are not
/// padded with zeros.
pub(crate) fn check(
    pool: &[u8],
    order: ByteOrder,
    mut digest: Option<&mut DataDigest>,
) -> Result<EntryStarts, String> {
    let mut starts = EntryStarts { bits: vec![0; pool.len() / 512 + 1] };
    let mut at = POOL_START;
    while at < pool.len() {
        let bad = |what: &str| format!("{what} in the string pool at {at}");
        let word = pool.get(at..at + 4).ok_or_else(|| bad("cut length"))?;
        let length = order.u32(word, 0);
        let end = at as u64 + entry_bytes(u64::from(length));
        if end > pool.len() as u64 {
            return Err(bad("a value that reaches beyond the end"));
        }
        let end = end as usize;
        if pool[at + 4 + length as usize..end].iter().any(|&byte| byte != 0) {
            return Err(bad("padding that is not zero"));
        }
        if let Some(digest) = digest.as_deref_mut() {
            digest.length_word(word);
        }
        let index = (at - POOL_START) / 8;
        starts.bits[index / 64] |= 1 << (index % 64);
        at = end;
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_alignment() {
        for length in 0..64 {
            let bytes = entry_bytes(length);
            assert_eq!(bytes % 8, 0);
            assert!(bytes >= length + 4 && bytes < length + 12 + 4, "{length}");
        }
    }

    #[test]
    fn pushed_values_are_found_and_others_refused() {
        let mut pool = vec![0; POOL_START];
        let first = push(&mut pool, ByteOrder::Big, b"one");
        let second = push(&mut pool, ByteOrder::Big, b"a longer one");
        assert_eq!(value(&pool, ByteOrder::Big, second as usize), Some(&b"a longer one"[..]));
        let starts = check(&pool, ByteOrder::Big, None).expect("a good pool");
        assert!(starts.allows(0) && starts.allows(first) && starts.allows(second));
        assert!(!starts.allows(1) && !starts.allows(second + 8) && !starts.allows(u32::MAX));
        pool[4 + 7] = 1;
        assert!(check(&pool, ByteOrder::Big, None).is_err(), "padding");
    }
}
