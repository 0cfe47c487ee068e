//! The destination of events: a recording, or a tracer.

use std::io;

use retake_recording::{
    ChunkEvents, Codec, ContentId, Outcome, RecordingWriter, Result, Store, StreamId, StreamInfo,
};

/// Where a traced thread is when the supervisor inspects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before a call that moves data inside the kernel.
    BeforeMove,
    /// After such a call.
    AfterMove,
    /// After a file was mapped.
    Mapped,
    /// Before an operation after which mapped memory can no longer be read, or can no longer be
    /// told from what others write.
    BeforeUnmap,
    /// Before a call on a file that a process has mapped for writing.
    UsesMappedFile,
}

/// A traced thread stopped at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Where in the call the thread is.
    pub stage: Stage,
    /// Process ID.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// When the call was entered: nanoseconds since 1970.
    pub time_ns: u64,
    /// The system-call number.
    pub number: u64,
    /// The arguments of the call.
    pub arguments: [u64; 6],
    /// The result of the call, if it has returned.
    pub result: i64,
}

/// Takes what recorded or traced threads log. Several threads call its methods, but never two at
/// once for the same stream. A call that fails because the disk is full is repeated with the same
/// arguments until it succeeds; the program waits meanwhile.
pub trait EventLog: std::fmt::Debug + Send + Sync {
    /// Declares a thread's stream, before its first events.
    ///
    /// # Errors
    /// The declaration cannot be written.
    fn declare_stream(&self, info: &StreamInfo) -> Result<()>;

    /// Appends the next bytes of a stream; `events` says where in them events begin.
    ///
    /// # Errors
    /// The bytes cannot be kept.
    fn append(&self, stream: StreamId, bytes: &[u8], events: ChunkEvents) -> Result<()>;

    /// Keeps a file that the program mapped; its content is in the store.
    ///
    /// # Errors
    /// The file cannot be kept.
    fn keep_file(&self, store: &Store, content: ContentId) -> Result<()>;

    /// Drops a file that was kept but is not needed after all.
    fn drop_file(&self, _content: ContentId) {}

    /// Returns whole events to add to the stream of a process that has executed a program and has
    /// not run its first instruction yet.
    fn at_exec(&self, _pid: i32) -> Vec<u8> {
        Vec::new()
    }

    /// Traces: inspects a thread that asked for it. The findings go to `sink` as whole events for
    /// the thread's stream; the return value is the answer to the thread.
    ///
    /// # Errors
    /// Those of `sink`.
    fn at_call(
        &self,
        _moment: &Moment,
        _sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<i64> {
        Ok(0)
    }

    /// Traces: notes that a process ended, in whatever way.
    ///
    /// # Errors
    /// Those of `sink`.
    fn at_death(
        &self,
        _pid: i32,
        _sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        Ok(())
    }

    /// Notes that the log is incomplete from here on; `reason` says what is missing and why.
    fn incomplete(&self, _reason: &str) {}

    /// Returns the bytes of events kept so far; 0 if they are not counted.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// Notes that the drain has visited all rings since the last call.
    fn drained(&self) {}

    /// Completes the log after the last process has ended.
    ///
    /// # Errors
    /// The log cannot be completed.
    fn finish(&self, outcome: &Outcome) -> Result<()>;
}

/// Events smaller than this on average are mostly calls, not data that calls read.
const SMALL_EVENT_BYTES: usize = 1 << 10;

/// Chooses the codec for a chunk. Calls compress well. Data compress badly, and compressing them
/// must not delay the program.
fn codec_for(bytes: usize, events: ChunkEvents) -> Codec {
    if bytes / SMALL_EVENT_BYTES < events.count as usize { Codec::Small } else { Codec::Fast }
}

impl EventLog for RecordingWriter {
    fn declare_stream(&self, info: &StreamInfo) -> Result<()> {
        Self::declare_stream(self, info)
    }

    fn append(&self, stream: StreamId, bytes: &[u8], events: ChunkEvents) -> Result<()> {
        Self::append(self, stream, bytes, events, codec_for(bytes.len(), events))
    }

    fn keep_file(&self, store: &Store, content: ContentId) -> Result<()> {
        self.link_content(store, content)
    }

    fn kept_bytes(&self) -> u64 {
        self.file_bytes()
    }

    fn drop_file(&self, content: ContentId) {
        self.unlink_content(content);
    }

    fn finish(&self, outcome: &Outcome) -> Result<()> {
        Self::finish(self, outcome)
    }
}
