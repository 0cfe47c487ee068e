//! Packs a recording into one self-contained file, and unpacks it.
//!
//! A packed file consists of the same frames as an events file, and of frames with the files that
//! the recording needs.

mod images;

use std::fs;
use std::path::Path;

use images::OwnImage;

use crate::ContentId;
use crate::catalogue::CONTENT_DECLARATION_BYTES;
use crate::codec::{Codec, Encoder};
use crate::contents::{self, BlockAction};
use crate::error::{Error, Result};
use crate::frame::{FrameHeader, FrameKind};
use crate::frame_writer::FrameWriter;
use crate::metadata::Metadata;
use crate::recording::Recording;
use crate::storage::ReservingFile;
use crate::store::Store;
use crate::store::temporary::TemporaryFile;
use crate::stream_info::StreamId;
use crate::stream_reader::ChunkInfo;
use crate::writer::{
    ChunkEvents, EVENTS_NAME, FILES_NAME, create_private, make_directory, metadata_text,
    new_recording_number, write_metadata,
};

/// Chunks are joined up to this size, because larger ones compress better. A larger chunk stays as
/// it is.
const PACKED_CHUNK_BYTES: usize = 1 << 20;

/// The progress of packing or unpacking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of uncompressed bytes processed.
    pub done_bytes: u64,
    /// The total number of uncompressed bytes.
    pub total_bytes: u64,
}

/// A callback that gets the progress from time to time.
type ProgressCallback<'a> = &'a mut dyn FnMut(Progress);

/// Packs the readable part of a recording into the new file `output`, which appears whole or not at
/// all.
///
/// # Errors
/// `AlreadyExists`; `Damaged`, `BadContent` or `NoContent` if a chunk or a file is damaged or
/// missing; `NoSpace`; `Io`. What opening the recording left out is no error here: see its
/// warnings.
pub fn pack(recording: &Recording, output: &Path, progress: ProgressCallback<'_>) -> Result<()> {
    if fs::symlink_metadata(output).is_ok() {
        return Err(Error::AlreadyExists { path: output.to_path_buf() });
    }
    if let Some(id) = recording.missing_contents()?.into_iter().next() {
        return Err(Error::NoContent { path: recording.path().to_path_buf(), id });
    }
    let folder =
        output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = TemporaryFile::create_in(folder)?;
    let file = temporary.file().try_clone().map_err(|error| Error::io("open", output, error))?;
    let frames =
        FrameWriter::new(Box::new(ReservingFile::new(file)), output, recording_number(recording));
    let mut packer =
        Packer { frames, encoder: Encoder::new(), counter: Counter::new(recording, progress)? };
    packer.pack(recording)?;
    packer.frames.sync()?;
    if temporary.publish_if_absent(output)? {
        Ok(())
    } else {
        Err(Error::AlreadyExists { path: output.to_path_buf() })
    }
}

/// Unpacks a recording, normally a packed one, into the new directory `directory`. Files are shared
/// with `store` if it is on the same file system, and come from the store if it has them.
///
/// # Errors
/// As [`pack`]. The directory is removed again after an error.
pub fn unpack(
    recording: &Recording,
    directory: &Path,
    store: Option<&Store>,
    progress: ProgressCallback<'_>,
) -> Result<()> {
    let counter = Counter::new(recording, progress)?;
    make_directory(directory)?;
    let result = unpack_into(recording, directory, store, counter);
    if result.is_err() {
        // Everything in the directory was created here.
        let _ = fs::remove_dir_all(directory);
    }
    result
}

/// Counts the processed bytes.
struct Counter<'a> {
    progress: Progress,
    callback: ProgressCallback<'a>,
}

impl<'a> Counter<'a> {
    fn new(recording: &Recording, callback: ProgressCallback<'a>) -> Result<Self> {
        let stream_bytes = recording.streams().map(|stream| stream.bytes);
        let contents = recording.contents()?;
        // The sizes are the recording's claims, so their sum may overflow.
        let all = stream_bytes.chain(contents.into_iter().map(|(_, bytes)| bytes));
        let total_bytes = all.fold(0, u64::saturating_add);
        Ok(Self { progress: Progress { done_bytes: 0, total_bytes }, callback })
    }

    fn add(&mut self, bytes: usize) {
        self.progress.done_bytes = self.progress.done_bytes.saturating_add(bytes as u64);
        (self.callback)(self.progress);
    }
}

/// Writes a packed file.
struct Packer<'a> {
    frames: FrameWriter,
    encoder: Encoder,
    counter: Counter<'a>,
}

impl Packer<'_> {
    fn pack(&mut self, recording: &Recording) -> Result<()> {
        let added = images::to_add(recording)?;
        let metadata = metadata_of_copy(recording, &added)?;
        self.frames.put_raw(FrameHeader::new(FrameKind::Metadata), &metadata)?;
        for summary in recording.streams() {
            let header =
                FrameHeader { stream: summary.info.id.0, ..FrameHeader::new(FrameKind::Stream) };
            self.frames.put_raw(header, &summary.info.encode())?;
            self.pack_stream(recording, summary.info.id)?;
        }
        let mut contents = recording.contents()?;
        for (number, &(id, bytes)) in contents.iter().enumerate() {
            self.pack_content(recording, number as u32, (id, bytes), &|action| {
                contents::for_each_block(&recording.shared, id, action)
            })?;
        }
        for OwnImage { id, image, bytes } in &added {
            let (id, bytes) = (*id, *bytes);
            if contents.iter().all(|(known, _)| *known != id) {
                self.pack_content(recording, contents.len() as u32, (id, bytes), &|action| {
                    contents::blocks_of(&image.file, &image.path, id, action)
                })?;
                contents.push((id, bytes));
            }
        }
        self.frames.put_ending(&metadata)
    }

    fn pack_stream(&mut self, recording: &Recording, stream: StreamId) -> Result<()> {
        let mut reader = recording.stream(stream)?;
        let mut pieces = Pieces::new(FrameKind::Chunk, stream.0);
        let mut chunk = Vec::new();
        for index in 0..reader.chunk_count() {
            let info = reader.chunk(index)?;
            if info.is_left_out {
                self.put_pending(&mut pieces)?;
                self.leave_out(&mut pieces, &info)?;
                continue;
            }
            reader.read_chunk(index, &mut chunk)?;
            let events = ChunkEvents { first: info.first_event, count: info.event_count };
            self.add_to(&mut pieces, &chunk, events)?;
        }
        self.put_pending(&mut pieces)
    }

    fn pack_content(
        &mut self,
        recording: &Recording,
        number: u32,
        (id, bytes): (ContentId, u64),
        for_each_block: &dyn Fn(BlockAction<'_>) -> Result<u64>,
    ) -> Result<()> {
        let mut declaration = [0; CONTENT_DECLARATION_BYTES];
        declaration[..32].copy_from_slice(&id.0);
        declaration[32..].copy_from_slice(&bytes.to_le_bytes());
        let header = FrameHeader { stream: number, ..FrameHeader::new(FrameKind::Content) };
        self.frames.put_raw(header, &declaration)?;
        let mut pieces = Pieces::new(FrameKind::ContentChunk, number);
        let copied_bytes =
            for_each_block(&mut |block| self.add_to(&mut pieces, block, ChunkEvents::default()))?;
        if copied_bytes != bytes {
            let reason = format!("it has {copied_bytes} bytes instead of {bytes}");
            return Err(Error::BadContent { path: recording.path().to_path_buf(), id, reason });
        }
        self.put_pending(&mut pieces)
    }

    fn add_to(&mut self, pieces: &mut Pieces, bytes: &[u8], events: ChunkEvents) -> Result<()> {
        self.counter.add(bytes.len());
        if !pieces.pending.is_empty() && pieces.pending.len() + bytes.len() > PACKED_CHUNK_BYTES {
            self.put_pending(pieces)?;
        }
        let before = pieces.pending.len() as u32;
        pieces.events.first = pieces.events.first.or(events.first.map(|first| before + first));
        pieces.events.count += events.count;
        pieces.pending.extend_from_slice(bytes);
        Ok(())
    }

    fn leave_out(&mut self, pieces: &mut Pieces, chunk: &ChunkInfo) -> Result<()> {
        let header = FrameHeader {
            stream: pieces.number,
            sequence: pieces.sequence,
            offset: pieces.offset,
            first_event: chunk.first_event,
            event_count: chunk.event_count,
            uncompressed_bytes: chunk.bytes,
            ..FrameHeader::new(pieces.kind)
        };
        self.frames.put(header.left_out(), &[])?;
        pieces.sequence += 1;
        pieces.offset += u64::from(chunk.bytes);
        Ok(())
    }

    /// Writes the collected chunks, if there are any.
    fn put_pending(&mut self, pieces: &mut Pieces) -> Result<()> {
        if pieces.pending.is_empty() {
            return Ok(());
        }
        let (stored_as, stored) = self.encoder.encode(&pieces.pending, Codec::Dense);
        let mut header = FrameHeader {
            stream: pieces.number,
            sequence: pieces.sequence,
            offset: pieces.offset,
            first_event: pieces.events.first,
            event_count: pieces.events.count,
            ..FrameHeader::new(pieces.kind)
        };
        header.describe_payload(stored_as, pieces.pending.len(), stored);
        self.frames.put(header, stored)?;
        pieces.sequence += 1;
        pieces.offset += pieces.pending.len() as u64;
        pieces.pending.clear();
        pieces.events = ChunkEvents::default();
        Ok(())
    }
}

/// A stream or a file that is being written as frames.
struct Pieces {
    kind: FrameKind,
    number: u32,
    sequence: u32,
    offset: u64,
    pending: Vec<u8>,
    events: ChunkEvents,
}

impl Pieces {
    fn new(kind: FrameKind, number: u32) -> Self {
        Self {
            kind,
            number,
            sequence: 0,
            offset: 0,
            pending: Vec::new(),
            events: ChunkEvents::default(),
        }
    }
}

fn unpack_into(
    recording: &Recording,
    directory: &Path,
    store: Option<&Store>,
    mut counter: Counter<'_>,
) -> Result<()> {
    let files = directory.join(FILES_NAME);
    make_directory(&files)?;
    let added = images::to_add(recording)?;
    let metadata = metadata_of_copy(recording, &added)?;
    write_metadata(directory, &metadata)?;
    let path = directory.join(EVENTS_NAME);
    let mut frames = FrameWriter::new(
        Box::new(ReservingFile::new(create_private(&path)?)),
        &path,
        recording_number(recording),
    );
    frames.put_raw(FrameHeader::new(FrameKind::Metadata), &metadata)?;
    for stream in recording.shared.catalogue.streams.values() {
        let header =
            FrameHeader { stream: stream.info.id.0, ..FrameHeader::new(FrameKind::Stream) };
        frames.put_raw(header, &stream.info.encode())?;
        let mut stored = Vec::new();
        for (offset, header) in &stream.pieces.frames {
            // The stored bytes are copied without decompression. Whether they can be decompressed
            // shows when they are read.
            recording.shared.source.read_stored(*offset, header, &mut stored)?;
            frames.put(*header, &stored)?;
            counter.add(header.uncompressed_bytes as usize);
        }
    }
    frames.put_ending(&metadata)?;
    for (id, bytes) in recording.contents()? {
        unpack_content(recording, id, &files, store)?;
        counter.add(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    images::link(recording, &added, directory, &files)
}

fn unpack_content(
    recording: &Recording,
    id: ContentId,
    files: &Path,
    store: Option<&Store>,
) -> Result<()> {
    if let Some(store) = store.filter(|store| store.contains(id)) {
        return store.link_into(id, files);
    }
    let target = files.join(id.to_string());
    contents::extract(&recording.shared, id, files)?.replace(&target)?;
    if let Some(store) = store {
        store.adopt(id, &target);
    }
    Ok(())
}

/// Returns the metadata of a copy to which these images are added, as text.
fn metadata_of_copy(recording: &Recording, added: &[OwnImage]) -> Result<Vec<u8>> {
    let images = images::ids(recording, added).iter().map(ToString::to_string).collect();
    metadata_text(&Metadata { images, ..recording.metadata_of_copy() }, recording.path())
}

/// Returns the recording's number, which its packed copy shares.
fn recording_number(recording: &Recording) -> u64 {
    u64::from_str_radix(&recording.metadata().recording_id, 16)
        .unwrap_or_else(|_| new_recording_number())
}
