//! The errors of this crate.

use std::io;

/// The result of fallible functions in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the DataSeries file.
    #[error(transparent)]
    DataSeries(#[from] retake_dataseries::Error),
    /// An error of the Parquet file.
    #[error("Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// An I/O error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A column whose type no DataSeries field has.
    #[error("column {column:?} is {what}; only numbers, bits and bytes can be imported")]
    Column {
        /// The column's name.
        column: String,
        /// What the column is.
        what: String,
    },
    /// Our metadata contradict the columns.
    #[error("the file does not have the columns that it says it has: {what}")]
    Metadata {
        /// What differs.
        what: String,
    },
}
