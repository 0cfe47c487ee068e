//! Null compaction: storing records without their null values.
//!
//! Of each record, the bytes up to the last bit field are kept. The values that are not null
//! follow, smallest alignment first. Each group is aligned relative to the start of the data.

use crate::schema::Layout;

/// Leaves the null values out of records.
pub(crate) fn compact(layout: &Layout, fixed: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(fixed.len());
    for record in fixed.chunks_exact(layout.record_bytes) {
        output.extend_from_slice(&record[..layout.bool_bytes]);
        for column in &layout.compact {
            if column.null.is_some_and(|null| null.bit(record)) {
                continue;
            }
            output.resize(output.len().next_multiple_of(column.align), 0);
            output.extend_from_slice(&record[column.offset..column.offset + column.bytes]);
        }
    }
    output
}

/// Restores records from compacted ones, with zeros for null values. `fixed` has the size of all
/// records and must be zero.
///
/// # Errors A description of the error if the data are too short or too long for so many records.
pub(crate) fn expand(
    layout: &Layout,
    compacted: &[u8],
    fixed: &mut [u8],
) -> Result<(), &'static str> {
    const SHORT: &str = "compacted records end early";
    let mut at = 0_usize;
    let mut take = |bytes: usize, align: usize| {
        let start = at.next_multiple_of(align);
        at = start + bytes;
        compacted.get(start..at).ok_or(SHORT)
    };
    for record in fixed.chunks_exact_mut(layout.record_bytes) {
        record[..layout.bool_bytes].copy_from_slice(take(layout.bool_bytes, 1)?);
        for column in &layout.compact {
            if column.null.is_some_and(|null| null.bit(record)) {
                continue;
            }
            let value = take(column.bytes, column.align)?;
            record[column.offset..column.offset + column.bytes].copy_from_slice(value);
        }
    }
    match at == compacted.len() {
        true => Ok(()),
        false => Err("bytes after the last compacted record"),
    }
}
