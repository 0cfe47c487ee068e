//! From records to rows.

mod held;
mod rows;
mod starts;
mod values;

pub(crate) use held::holder;
pub(crate) use rows::CallRows;
pub(crate) use starts::{
    DESCRIPTOR_WORDS, FORMAT_VERSION, write_end, write_header, write_incomplete, write_mapped,
    write_start,
};

use retake_dataseries::{ExtentBuilder, RowBuilder, Value};

use crate::error::Result;

/// The most bytes of one buffer that a trace keeps. Extents with more are too large for readers.
pub(crate) const DATA_BYTES_MAX: usize = 64 << 20;
/// The most bytes of all buffers of a call together, for the same reason.
pub(crate) const CALL_BYTES_MAX: usize = 128 << 20;

/// The destination of rows: one builder per type, in the order of [`crate::schema::Schema::types`].
pub(crate) trait Rows {
    /// The builder of a type, which the caller adds rows to.
    fn builder(&mut self, type_number: usize) -> &mut ExtentBuilder;
}

/// Sets a field that can be null.
pub(crate) fn set_optional(
    row: &mut RowBuilder<'_>,
    field: usize,
    value: Option<Value<'_>>,
) -> Result<()> {
    if let Some(value) = value {
        row.set_value(field, value)?;
    }
    Ok(())
}

/// Returns as many of the bytes as a trace keeps.
pub(crate) fn cut(data: &[u8]) -> &[u8] {
    &data[..data.len().min(DATA_BYTES_MAX)]
}
