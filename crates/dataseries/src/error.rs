//! Errors, with the place where they occurred.

use std::io;

/// The result of everything fallible in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be read or written, or a request could not be carried out.
///
/// `offset` is in bytes from the start of the file. It is that of the extent, or of the exact place
/// if that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The underlying stream failed.
    #[error("input or output failed: {0}")]
    Io(#[from] io::Error),
    /// The first 40 bytes are not the header of a DataSeries file.
    #[error("not a DataSeries file: {what}")]
    NotDataSeries {
        /// The difference.
        what: &'static str,
    },
    /// The file ends inside something that it announced, or before its tail. `recover` salvages the
    /// whole extents.
    #[error("the file ends at offset {offset} inside {what}; try to recover it")]
    Truncated {
        /// Where the file ends.
        offset: u64,
        /// The part that was being read.
        what: &'static str,
    },
    /// Bytes that no writer of the format produces. `recover` salvages the other extents.
    #[error("corrupt file at offset {offset}: {what}")]
    Corrupt {
        /// Offset of the extent or of the tail.
        offset: u64,
        /// The error.
        what: String,
    },
    /// A stored digest differs from the computed one.
    #[error(
        "{digest} mismatch in the extent at offset {offset}: stored {stored:#010x}, computed \
        {computed:#010x}"
    )]
    Digest {
        /// Offset of the extent.
        offset: u64,
        /// The name of the digest.
        digest: &'static str,
        /// The digest in the file.
        stored: u32,
        /// The digest of the data.
        computed: u32,
    },
    /// A size is legal in the format, but above the limit of the caller.
    #[error("{what} at offset {offset} needs {bytes} bytes, more than the limit of {limit}")]
    Limit {
        /// Offset of the extent.
        offset: u64,
        /// The name of the size.
        what: &'static str,
        /// The bytes needed.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The description of a type is invalid.
    #[error("extent type {type_name:?}: {what}")]
    Schema {
        /// The name of the type, as far as it is known.
        type_name: String,
        /// The error.
        what: String,
    },
    /// The file does not describe the type of an extent, or has no type that was asked for.
    #[error("no extent type {name:?} in this file")]
    UnknownType {
        /// The name that was looked for.
        name: String,
    },
    /// A type has no such field.
    #[error("extent type {type_name:?} has no field {field:?}")]
    UnknownField {
        /// The type.
        type_name: String,
        /// The field that was looked for.
        field: String,
    },
    /// A field has another type than the wanted one, or a value does not fit it.
    #[error("field {field:?} is {actual}, not {wanted}")]
    FieldType {
        /// The field.
        field: String,
        /// The type that the caller asked for.
        wanted: &'static str,
        /// The type of the field.
        actual: &'static str,
    },
    /// One record does not fit in the largest extent that readers accept.
    #[error(
        "a record of type {type_name:?} needs {bytes} bytes, more than an extent can hold ({limit})"
    )]
    RecordTooLarge {
        /// The type.
        type_name: String,
        /// The size of the record.
        bytes: u64,
        /// The largest size of an extent's part.
        limit: u64,
    },
    /// An earlier write failed. Nothing more can be appended, and the file must be recovered.
    #[error("an earlier write to this file failed; recover it instead of appending")]
    Poisoned,
    /// A filter or column expression is invalid.
    #[error("expression {text:?}, column {column}: {what}")]
    Expression {
        /// The whole expression.
        text: String,
        /// Position of the error, in bytes from 1.
        column: usize,
        /// The error.
        what: String,
    },
    /// A request is impossible for this file.
    #[error("{0}")]
    Request(String),
}

impl Error {
    /// Returns the error for an extent or tail that no writer produces.
    pub(crate) fn corrupt(offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { offset, what: what.into() }
    }

    /// Returns the error for an invalid type.
    pub(crate) fn schema(type_name: &str, what: impl Into<String>) -> Self {
        Self::Schema { type_name: type_name.to_owned(), what: what.into() }
    }
}
