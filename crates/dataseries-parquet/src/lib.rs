//! Converts DataSeries files to Parquet, and back.
//!
//! Each record type becomes a flat table. There is one file for each type ([`export_types`]), or
//! one file for all ([`export_wide`]), in which fields with the same name share a column. The
//! metadata contain the descriptions of the types, so that [`import`] restores the original from
//! either. It also imports other Parquet files, if they are flat.
//!
//! Memory is limited to one row group and one extent. The crate does not use Arrow, because rows
//! only go from one file to the other and nothing is computed.
#![forbid(unsafe_code)]
// These macros panic when the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod column;
mod error;
mod export;
mod import;
mod plan;

pub use error::{Error, Result};
pub use export::{ExportOptions, ExportedFile, export_types, export_wide};
pub use import::{ImportOptions, import};
