//! DataSeries (DSv1) files: typed records in self-delimiting, compressed, checksummed extents.
//!
//! A file is a header, one *type extent* with the XML descriptions of all record types, any number
//! of extents (each with records of one type), an index extent and a tail. This crate writes such
//! files as a stream ([`Writer`]). It reads them as a stream ([`StreamReader`]) or through their
//! index ([`Reader`]). It salvages the whole extents of a damaged file ([`recover`]). [`tools`]
//! prints, describes, rewrites and summarises files.
//!
//! Invariants:
//! * Every byte of a file is hostile until checked: sizes are compared with
//!   [`ReadOptions::extent_bytes_limit`] and with what the compression mode can produce before
//!   anything is allocated; no input makes the crate panic.
//! * Memory is bounded by one extent when reading, by [`WriterOptions::memory_bytes`] and one
//!   extent when writing, besides 16 bytes of index for each extent.
//! * Both byte orders are read and written; values never depend on the order of the machine.
//!
//! It deliberately does not map files into memory, start threads, or know what the records mean.
//!
//! ```
//! use retake_dataseries::{ExtentType, Field, StreamReader, ReadOptions, Writer, WriterOptions};
//!
//! let file_type = ExtentType::builder("Example::Open")
//!     .namespace("example.org")
//!     .version(1, 0)
//!     .field(Field::int64("time").relative_to("time"))
//!     .field(Field::variable32("path").nullable())
//!     .build()?;
//! let time = file_type.bind::<i64>("time")?;
//! let path = file_type.bind::<[u8]>("path")?;
//!
//! let mut writer = Writer::new(Vec::new(), vec![file_type], WriterOptions::default())?;
//! let mut row = writer.row(0)?;
//! row.set(&time, 17)?;
//! row.set(&path, b"/etc/passwd")?;
//! row.finish();
//! let bytes = writer.finish()?;
//!
//! let mut reader = StreamReader::open(bytes.as_slice(), ReadOptions::default())?;
//! while let Some(extent) = reader.next_extent()? {
//!     let path = extent.extent_type().bind::<[u8]>("path")?;
//!     for row in extent.rows() {
//!         assert_eq!(row.get(&path), Some(&b"/etc/passwd"[..]));
//!     }
//! }
//! # Ok::<(), retake_dataseries::Error>(())
//! ```
#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod bind;
mod builder;
mod compress;
mod digest;
mod error;
mod extent;
mod file;
mod header;
mod null_compact;
mod order;
mod pack;
mod pool;
mod read_options;
mod reader;
mod recover;
mod schema;
mod sink;
mod source;
mod stream;
pub mod tools;
mod transform;
mod unpack;
mod writer;

pub use bind::{FieldHandle, FieldKind};
pub use builder::{ExtentBuilder, RowBuilder};
pub use compress::{Compression, CompressionSet};
pub use error::{Error, Result};
pub use extent::{BytesPlace, Extent, ExtentBuffers, NumberPlace, Row, Value};
pub use header::{ExtentHeader, PackedExtent};
pub use order::ByteOrder;
pub use read_options::{Digests, ReadOptions};
pub use reader::{IndexEntry, Reader};
pub use recover::{LostRange, RecoverOptions, RecoverReport, recover};
pub use schema::{
    ExtentType, ExtentTypeBuilder, Field, FieldOrdering, FieldType, PadRecord, TypeLibrary,
};

pub use stream::{StreamReader, Warning};
pub use writer::{Writer, WriterOptions};
