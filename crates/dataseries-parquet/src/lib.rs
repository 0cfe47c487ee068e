//! DataSeries files as Parquet, and back.
//!
//! Each type of records becomes a flat table: one file for each type ([`export_types`]), or one
//! file of all of them ([`export_wide`]), in which fields of one name share a column. The
//! descriptions of the types go along as metadata, so that [`import`] makes of either what it was;
//! other Parquet files can be imported if they are flat.
//!
//! Memory is bounded by one row group and one extent. It deliberately uses no Arrow: rows go from
//! one file to the other, and nothing is computed in between.
#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod column;
mod error;
mod export;
mod import;
mod plan;

pub use error::{Error, Result};
pub use export::{ExportOptions, ExportedFile, export_types, export_wide};
pub use import::{ImportOptions, import};
