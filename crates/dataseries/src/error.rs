//! What can go wrong, with the place where it did.

use std::io;

/// The result of everything fallible in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be read or written, or a request not be carried out.
///
/// `offset` is always in bytes from the start of the file: that of the extent concerned, or of the
/// exact place where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The underlying stream failed.
    #[error("input or output failed: {0}")]
    Io(#[from] io::Error),
    /// The first 40 bytes are not those of a DataSeries file.
    #[error("not a DataSeries file: {what}")]
    NotDataSeries {
        /// What is different.
        what: &'static str,
    },
    /// The file ends before the thing it announced, or before its tail. `recover` salvages the
    /// whole extents.
    #[error("the file ends at offset {offset} inside {what}; try to recover it")]
    Truncated {
        /// Where the file ends.
        offset: u64,
        /// What was being read.
        what: &'static str,
    },
    /// Bytes that no writer of the format produces. `recover` salvages the other extents.
    #[error("corrupt file at offset {offset}: {what}")]
    Corrupt {
        /// Offset of the extent or of the tail.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A stored digest differs from that of the data.
    #[error(
        "{digest} mismatch in the extent at offset {offset}: stored {stored:#010x}, computed \
        {computed:#010x}"
    )]
    Digest {
        /// Offset of the extent.
        offset: u64,
        /// Which of the two digests.
        digest: &'static str,
        /// As the file has it.
        stored: u32,
        /// As the data give it.
        computed: u32,
    },
    /// A size is legal in the format but above the limit the caller set.
    #[error("{what} at offset {offset} needs {bytes} bytes, more than the limit of {limit}")]
    Limit {
        /// Offset of the extent.
        offset: u64,
        /// Which size.
        what: &'static str,
        /// What it would take.
        bytes: u64,
        /// What the caller allows.
        limit: u64,
    },
    /// The description of a type cannot be used.
    #[error("extent type {type_name:?}: {what}")]
    Schema {
        /// The type, or as much as is known of it.
        type_name: String,
        /// What is wrong.
        what: String,
    },
    /// An extent's type is not described in the file, or a wanted type is not there.
    #[error("no extent type {name:?} in this file")]
    UnknownType {
        /// The name looked for.
        name: String,
    },
    /// A type has no such field.
    #[error("extent type {type_name:?} has no field {field:?}")]
    UnknownField {
        /// The type.
        type_name: String,
        /// The field looked for.
        field: String,
    },
    /// A field does not have the wanted type, or a value does not fit it.
    #[error("field {field:?} is {actual}, not {wanted}")]
    FieldType {
        /// The field.
        field: String,
        /// The type the caller asked for.
        wanted: &'static str,
        /// The type the field has.
        actual: &'static str,
    },
    /// One record does not fit in the largest extent that readers accept.
    #[error(
        "a record of type {type_name:?} needs {bytes} bytes, more than an extent can hold ({limit})"
    )]
    RecordTooLarge {
        /// The type.
        type_name: String,
        /// What the record would take.
        bytes: u64,
        /// The largest size of an extent's part.
        limit: u64,
    },
    /// An earlier write failed, so nothing can be appended: the file must be recovered.
    #[error("an earlier write to this file failed; recover it instead of appending")]
    Poisoned,
    /// A filter or column expression that cannot be understood.
    #[error("expression {text:?}, column {column}: {what}")]
    Expression {
        /// The whole expression.
        text: String,
        /// Position of the error, in bytes from 1.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// A request that makes no sense for this file.
    #[error("{0}")]
    Request(String),
}

impl Error {
    /// An extent or tail that no writer produces.
    pub(crate) fn corrupt(offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { offset, what: what.into() }
    }

    /// A type that cannot be used.
    pub(crate) fn schema(type_name: &str, what: impl Into<String>) -> Self {
        Self::Schema { type_name: type_name.to_owned(), what: what.into() }
    }
}
