//! Memory that repeats a few words everywhere, for code that reads the memory of strangers.

/// Reads from it. Returns false beyond the last address.
pub fn read(words: &[u64], address: u64, bytes: &mut [u8]) -> bool {
    for (at, byte) in bytes.iter_mut().enumerate() {
        let Some(at) = address.checked_add(at as u64) else { return false };
        let word = words[(at / 8) as usize % words.len()];
        *byte = word.to_le_bytes()[(at % 8) as usize];
    }
    true
}
