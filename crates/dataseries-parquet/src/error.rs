//! What can go wrong.

use std::io;

/// The result of everything fallible in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The DataSeries file.
    #[error(transparent)]
    DataSeries(#[from] retake_dataseries::Error),
    /// The Parquet file.
    #[error("Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// Reading or writing.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A column that a record cannot have.
    #[error("column {column:?} is {what}; only numbers, bits and bytes can be imported")]
    Column {
        /// Its name.
        column: String,
        /// What it is.
        what: String,
    },
    /// Metadata of ours that contradict the columns.
    #[error("the file does not have the columns that it says it has: {what}")]
    Metadata {
        /// What is different.
        what: String,
    },
}
