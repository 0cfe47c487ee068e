//! The recording on disk, and the store of files that recordings share.
//!
//! A recording is a directory (`recording.json`, `events`, `files/`) or one packed file.
//! `docs/FORMAT.md` specifies the format. Only this crate knows it.
//!
//! Invariants:
//!
//! * What a writer appended before a crash, a kill or a full disk stays readable.
//! * A reader delivers exactly what was appended, from the beginning of each stream to its end or
//!   to a reported gap.
//! * No recording, however damaged or hostile, makes a reader panic, allocate by an unchecked
//!   length, or touch a file outside its place.
//!
//! This crate does not know what events mean: a stream is bytes here. [`EventReader`] returns the
//! events one by one.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod catalogue;
mod checkpoint_file;
mod checkpoints;
mod codec;
mod complete;
mod content_reader;
mod contents;
mod cut;
mod error;
mod event_reader;
mod folder;
mod frame;
mod frame_writer;
#[doc(hidden)]
pub mod fuzzing;
mod held_images;
mod index;
mod kept_checkpoint;
mod library;
mod location;
mod metadata;
mod opened;
mod pack;
mod packed_images;
mod recording;
mod removal;
mod rename;
mod resume;
mod rewrite;
mod scan;
mod source;
mod storage;
mod store;
mod stream_info;
mod stream_reader;
mod times;
mod warning;
mod writer;

pub use catalogue::LeftOut;
pub use checkpoint_file::{
    CHECKPOINT_VERSION, CheckpointReader, CheckpointWriter, MAX_PIECE_BYTES, PieceName,
};
pub use checkpoints::Checkpoints;
pub use codec::Codec;
pub use content_reader::ContentReader;
pub use cut::CutEnd;
pub use error::{Error, FramePlace, Result};
pub use event_reader::{EventReader, Numbered};
pub use frame::{FORMAT_VERSION, MAX_CHUNK_BYTES};
pub use kept_checkpoint::KeptCheckpoint;
pub use library::{
    Listing, create_numbered, latest, list, name_of_program, numbered_packed, resolve, set_latest,
};
pub use location::Location;
pub use metadata::{
    ByteText, CheckLevel, CpuidAnswer, Exit, Machine, Metadata, Outcome, Policy, Processor,
};
pub use opened::StreamSummary;
pub use pack::{Progress, pack, unpack};
pub use recording::Recording;
pub use removal::remove;
pub use rename::rename;
pub use retake_model::ContentId;
pub use rewrite::{Keep, Place, Replaced, Rewrite};
pub use store::{CollectionReport, FileIdentity, Store, sparse};
pub use stream_info::{StreamId, StreamInfo, StreamKind};
pub use stream_reader::{ChunkInfo, StreamReader};
pub use warning::Warning;
pub use writer::{ChunkEvents, RecordingWriter};
