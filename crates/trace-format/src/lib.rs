//! Traces of system calls: their records, and the DataSeries files that hold them.
//!
//! A trace is a sequence of [`TraceRecord`]s in the order of their ids. Code that captures calls
//! makes such records and gives them to a [`TraceWriter`]. Code that prints, counts or repeats
//! calls takes them from a [`TraceReader`]. The reader gives what the writer was given.
//!
//! In the file each system call that RE-ANIMATOR (Paper: [RE-ANIMATOR]) knew has the type that it
//! defined. Newer calls have types of our own, and all others share one type. See `docs/TRACE.md`,
//! which is generated from the tables in `schema`.
//!
//! This crate deliberately knows nothing about how calls are captured. It does not decode flags or
//! structures to text.
#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod data;
mod decode;
mod encode;
mod error;
mod packer;
mod processes;
mod read;
mod record;
mod schema;
mod write;

pub use data::TraceData;
pub use error::{Result, TraceError};
pub use read::{TraceHeader, TraceReader, TraceReaderOptions};
pub use record::{
    BufferDirection, Credentials, DescriptorKind, MappedPages, ProcessStart, ResourceLimit,
    StartDescriptor, StartKind, TraceRecord, TracedBuffer, TracedCall, moved_argument,
};
pub use retake_dataseries::Digests;
pub use schema::document;
pub use write::{TraceWriter, TraceWriterOptions};
