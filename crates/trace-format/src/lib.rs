//! Traces of system calls: what one is made of.
//!
//! A trace is a sequence of [`TraceRecord`]s in the order of their ids. Whoever captures calls makes such records, whoever
//! prints, counts or repeats them takes such records; how they are kept in a file is this crate's business alone.
#![forbid(unsafe_code)]

mod record;

pub use record::{
    BufferDirection, Credentials, DescriptorKind, MappedPages, ProcessStart, ResourceLimit, StartDescriptor, StartKind, TraceRecord, TracedBuffer,
    TracedCall,
};
