//! The compiled runtime.

/// The runtime as a static executable, which replayed processes execute.
pub const EXECUTABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.elf"));

/// The distance between entries of the table at the start of the text.
const ENTRY_BYTES: u64 = 16;

/// The address of the entry at which an executed program starts while recording.
pub const START_RECORD: u64 = retake_kernel::shared::RUNTIME_TEXT + 4 * ENTRY_BYTES;

/// The text as it is in memory: the executable's only loadable segment.
pub fn text() -> &'static [u8] {
    let word =
        |at: usize| u64::from_le_bytes(EXECUTABLE[at..at + 8].try_into().expect("eight bytes"));
    let table = word(32) as usize; // e_phoff
    let (offset, bytes) = (word(table + 8) as usize, word(table + 32) as usize);
    &EXECUTABLE[offset..offset + bytes]
}

/// The hash that identifies this build of the runtime.
pub fn hash() -> String {
    retake_recording::ContentId::of(EXECUTABLE).to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_text_begins_with_the_entry_table() {
        let text = super::text();
        assert!(text.len() > 4096);
        for entry in 0..5 {
            assert!(matches!(text[entry * 16], 0xe9 | 0xeb), "entry {entry} is a jump");
        }
    }
}
