//! Reading little-endian numbers from bytes that may be too short.

/// The `N` bytes at `offset`, or `None` past the end.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// The 32-bit number at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_le_bytes)
}

/// The 64-bit number at `offset`.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_le_bytes)
}

/// `address` rounded down to a page.
pub(crate) fn page_floor(address: u64) -> u64 {
    address & !(crate::PAGE_BYTES - 1)
}

/// `address` rounded up to a page, or `None` past the end of the address space.
pub(crate) fn page_ceiling(address: u64) -> Option<u64> {
    address.checked_add(crate::PAGE_BYTES - 1).map(page_floor)
}
