//! Reads numbers from bytes of checked length.

/// Reads a little-endian number. The caller has checked that there are 4 bytes at `offset`.
pub(crate) fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(value)
}

/// Reads a little-endian number. The caller has checked that there are 8 bytes at `offset`.
pub(crate) fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(value)
}

/// As [`read_u64`].
pub(crate) fn read_i64(bytes: &[u8], offset: usize) -> i64 {
    read_u64(bytes, offset) as i64
}
