//! From rows to records.

mod assemble;
mod cursor;
mod merge_buffers;
mod other;
mod row;

pub(crate) use assemble::CallCursor;
pub(crate) use cursor::{Cursor, Extents};
pub(crate) use merge_buffers::finish;
pub(crate) use other::{
    BufferRows, DescriptorRows, LimitRows, end_of, header_of, incomplete_of, mapped_of, start_of,
};

use retake_dataseries::{ExtentType, FieldType};

use crate::schema::rule::Kind;

/// Returns the number of the field with this name and kind. Other programs' files may lack it or
/// have it with another kind.
pub(crate) fn field_number(extent_type: &ExtentType, name: &str, kind: Kind) -> Option<usize> {
    let number = extent_type.field_number(name)?;
    let field_type = extent_type.fields()[number].field_type;
    let matches = match kind {
        Kind::Bool => field_type == FieldType::Bool,
        Kind::Byte => field_type == FieldType::Byte,
        Kind::Int32 | Kind::Int64 => matches!(field_type, FieldType::Int32 | FieldType::Int64),
        Kind::Bytes => field_type == FieldType::Variable32,
    };
    matches.then_some(number)
}
