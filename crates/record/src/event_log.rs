//! Where events go: into a recording, or wherever a tracer wants them.

use std::io;

use retake_recording::{
    ChunkEvents, Codec, ContentId, Outcome, RecordingWriter, Result, Store, StreamId, StreamInfo,
};

/// Where a traced thread stands when it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before a call that moves data inside the kernel.
    BeforeMove,
    /// Behind it.
    AfterMove,
    /// A file was mapped.
    Mapped,
    /// Before something after which mapped memory cannot be looked at any more, or no longer be
    /// told from what others write.
    BeforeUnmap,
    /// Before a call on a file that somebody has mapped for writing.
    UsesMappedFile,
}

/// A traced thread at a call, standing still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Why.
    pub stage: Stage,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// When the call was entered: nanoseconds since 1970.
    pub time_ns: u64,
    /// Which call.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// What it returned, if it did.
    pub result: i64,
}

/// Takes what the recorded or traced threads log. Its methods are called from several threads, but
/// never for one stream from two at once. One that fails for want of space is called again with the
/// same arguments until it succeeds; the program waits meanwhile.
pub trait EventLog: std::fmt::Debug + Send + Sync {
    /// A thread begins. Comes before its first events.
    ///
    /// # Errors
    /// It cannot be noted.
    fn declare_stream(&self, info: &StreamInfo) -> Result<()>;

    /// The next bytes of a stream; `events` says where in them events begin.
    ///
    /// # Errors
    /// They cannot be kept.
    fn append(&self, stream: StreamId, bytes: &[u8], events: ChunkEvents) -> Result<()>;

    /// A file that the program mapped; its content is in the store.
    ///
    /// # Errors
    /// It cannot be kept.
    fn keep_file(&self, store: &Store, content: ContentId) -> Result<()>;

    /// A file that was kept, and that nobody needs after all.
    fn drop_file(&self, _content: ContentId) {}

    /// What to add to the stream of a process that has executed a program and stands before its
    /// first instruction: whole events.
    fn at_exec(&self, _pid: i32) -> Vec<u8> {
        Vec::new()
    }

    /// Traces: a thread asks to be looked at. What is found goes to `sink` as whole events for its
    /// stream; the answer is the thread's.
    ///
    /// # Errors
    /// What `sink` says.
    fn at_call(
        &self,
        _moment: &Moment,
        _sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<i64> {
        Ok(0)
    }

    /// Traces: a process ended in whatever way.
    ///
    /// # Errors
    /// What `sink` says.
    fn at_death(
        &self,
        _pid: i32,
        _sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        Ok(())
    }

    /// Something is missing from here on: says what and why.
    fn incomplete(&self, _reason: &str) {}

    /// Bytes of what was kept of events so far; 0 if nobody counts them.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// All rings have been looked at once since the last time.
    fn drained(&self) {}

    /// The last process has ended.
    ///
    /// # Errors
    /// What is kept cannot be completed.
    fn finish(&self, outcome: &Outcome) -> Result<()>;
}

/// Events that are smaller than this on average are mostly calls, not the data that they read.
const SMALL_EVENT_BYTES: usize = 1 << 10;

/// What suits a chunk: calls are much alike, data are not, and must not hold the program up.
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
