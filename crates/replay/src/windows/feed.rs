//! Cuts one stream into windows that begin and end at event boundaries.
//!
//! A stream that asked for several windows in a row is read ahead, so that the next window is ready
//! when it is asked for. A stream of a few events needs memory for one small window only.

use retake_kernel::shared::WINDOW_BYTES;
use retake_recording::StreamReader;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The size of a stream's first window, roughly. Most streams are shorter.
const SMALL_WINDOW_BYTES: usize = 128 << 10;
/// The size of the following windows: room for the largest chunk and an event that began before it.
/// Two of them fit the caches of most machines.
const LARGE_WINDOW_BYTES: usize = WINDOW_BYTES as usize;
/// The size of all windows from which on no large ones are made, and nothing is read ahead.
const PLENTY_BYTES: usize = 24 << 20;
/// The size of all windows from which on small ones are even smaller: there are thousands of
/// threads.
const TOO_MUCH_BYTES: usize = 512 << 20;
const SMALLEST_WINDOW_BYTES: usize = 16 << 10;
/// The number of windows in a row, each at the end of the last, after which a stream is read ahead.
const WINDOWS_IN_A_ROW: u32 = 2;
/// The size of an event's head: size, kind, number and value.
const SMALLEST_EVENT: usize = retake_contract::events::event::LAYOUT_BYTES;

/// The size of all windows, here and in the processes. Checking it keeps the use of memory bounded.
#[derive(Clone, Default)]
pub(super) struct Stock(Arc<AtomicUsize>);

impl Stock {
    fn is_plentiful(&self) -> bool {
        self.0.load(Relaxed) >= PLENTY_BYTES
    }

    fn small_window(&self) -> usize {
        if self.0.load(Relaxed) < TOO_MUCH_BYTES {
            SMALL_WINDOW_BYTES
        } else {
            SMALLEST_WINDOW_BYTES
        }
    }
}

/// A stream's part of the stock while the stream is read.
struct Share {
    stock: Stock,
    bytes: usize,
}

impl Share {
    /// Counts a window. A thread's window stays as large as its largest one.
    fn covers(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.stock.0.fetch_add(more, Relaxed);
        self.bytes += more;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.stock.0.fetch_sub(self.bytes, Relaxed);
    }
}

struct Window {
    memory: Vec<u8>,
    /// The size of the window in `memory`, from the beginning.
    bytes: usize,
    /// Stream offset of its first byte.
    start: u64,
}

/// A stream's reader, and the state of its windows.
pub(super) struct Feed {
    reader: StreamReader,
    /// The beginning and the end of the last window given.
    given: Option<(u64, u64)>,
    /// A window that was read ahead, or that the thread had no room for.
    ready: Option<Window>,
    /// The memory of a large window that was given.
    spare: Option<Vec<u8>>,
    /// The bytes read beyond the last whole event.
    carry: Vec<u8>,
    windows_in_a_row: u32,
    share: Share,
}

impl Feed {
    pub(super) fn new(reader: StreamReader, stock: Stock) -> Self {
        Self {
            reader,
            given: None,
            ready: None,
            spare: None,
            carry: Vec::new(),
            windows_in_a_row: 0,
            share: Share { stock, bytes: 0 },
        }
    }

    /// Calls `put` with the window that starts at `offset`, which is the start of an event. If
    /// `put` returns false for lack of room, the window is kept. Returns the size of the window.
    /// Returns `None` at the end of the stream, or before an event that was never completed.
    ///
    /// # Errors
    /// The first event there cannot be read or is malformed (the events before it have been given),
    /// or `put` fails.
    pub(super) fn window(
        &mut self,
        offset: u64,
        staging: &mut Vec<u8>,
        put: impl FnOnce(&[u8]) -> io::Result<bool>,
    ) -> io::Result<Option<usize>> {
        let follows = self.given.is_some_and(|(_, end)| end == offset);
        self.windows_in_a_row = if follows { self.windows_in_a_row.saturating_add(1) } else { 0 };
        let window = match self.ready.take() {
            Some(window) if window.start == offset => Some(window),
            _ => self.read_window(offset, staging)?,
        };
        let Some(window) = window else { return Ok(None) };
        let bytes = window.bytes;
        if put(&window.memory[..bytes])? {
            self.given = Some((offset, offset + bytes as u64));
            self.share.covers(bytes);
            self.keep(window.memory, staging);
        } else {
            self.ready = Some(window);
        }
        Ok(Some(bytes))
    }

    /// Keeps memory for reuse: new pages cost more than reading.
    fn keep(&mut self, memory: Vec<u8>, staging: &mut Vec<u8>) {
        if memory.len() == LARGE_WINDOW_BYTES {
            self.spare = Some(memory).filter(|_| !self.share.stock.is_plentiful());
        } else if memory.capacity() > staging.capacity() {
            *staging = memory;
        }
    }

    /// Reads the window after the current one if the stream will probably ask for it. Errors appear
    /// when it does.
    pub(super) fn read_ahead(&mut self, staging: &mut Vec<u8>) {
        let Some((_, next)) = self.given else { return };
        if self.windows_in_a_row >= WINDOWS_IN_A_ROW
            && self.ready.is_none()
            && !self.share.stock.is_plentiful()
        {
            self.ready = self.read_window(next, staging).unwrap_or_default();
            self.share.covers(2 * LARGE_WINDOW_BYTES);
        }
    }

    fn read_window(&mut self, offset: u64, staging: &mut Vec<u8>) -> io::Result<Option<Window>> {
        if self.reader.position() != offset + self.carry.len() as u64 {
            self.carry.clear();
            self.reader.seek_to_offset(offset).map_err(io::Error::from)?;
        }
        let (memory, bytes) = if self.windows_in_a_row > 0 && !self.share.stock.is_plentiful() {
            self.read_large(offset, staging)?
        } else {
            self.read_exact(self.share.stock.small_window(), offset, staging)?
        };
        Ok((bytes > 0).then_some(Window { memory, bytes, start: offset }))
    }

    /// Reads whole events of at least `wanted` bytes.
    fn read_exact(
        &mut self,
        wanted: usize,
        offset: u64,
        staging: &mut Vec<u8>,
    ) -> io::Result<(Vec<u8>, usize)> {
        let carry = std::mem::take(&mut self.carry);
        let bytes =
            read_events(&mut carry.as_slice().chain(&mut self.reader), wanted, offset, staging)?;
        self.carry.extend_from_slice(carry.get(staging.len()..).unwrap_or_default());
        Ok((std::mem::take(staging), bytes))
    }

    /// Reads chunks straight into memory that was used before. An event too large for that gets
    /// memory of its own.
    fn read_large(&mut self, offset: u64, staging: &mut Vec<u8>) -> io::Result<(Vec<u8>, usize)> {
        let mut memory = self.spare.take().unwrap_or_else(|| vec![0; LARGE_WINDOW_BYTES]);
        match fill(&mut self.reader, &mut self.carry, offset, &mut memory)? {
            Some(bytes) => Ok((memory, bytes)),
            None => self.read_exact(1, offset, staging),
        }
    }
}

/// Fills `room` from `carry` and then from the reader, chunk by chunk. Returns the size of the
/// whole events, and leaves the rest in `carry`. Returns `None` if not even one event is whole and
/// the next piece does not fit; `carry` then has everything.
fn fill(
    reader: &mut StreamReader,
    carry: &mut Vec<u8>,
    offset: u64,
    room: &mut [u8],
) -> io::Result<Option<usize>> {
    let Some(start) = room.get_mut(..carry.len()) else { return Ok(None) };
    start.copy_from_slice(carry);
    let (mut filled, mut whole) = (carry.len(), 0);
    carry.clear();
    let mut result = skip_events(&room[..filled], &mut whole, offset);
    while result.is_ok() {
        let piece = reader.next_piece_bytes();
        if piece == 0 || piece > room.len() - filled {
            break;
        }
        result = reader.read(&mut room[filled..]).and_then(|count| {
            filled += count;
            skip_events(&room[..filled], &mut whole, offset)
        });
    }
    carry.extend_from_slice(&room[whole..filled]);
    match result {
        Err(error) if whole == 0 => Err(error),
        _ if whole == 0 && reader.next_piece_bytes() > 0 => Ok(None),
        _ => Ok(Some(whole)),
    }
}

/// Replaces `staging` by whole events of at least `wanted` bytes, or by all that are left, and
/// returns their size. Reads nothing beyond them, unless the stream ends or cannot be read within
/// an event.
///
/// # Errors
/// The first event cannot be read or is malformed. Later faults end the window before them.
fn read_events(
    reader: &mut impl BufRead,
    wanted: usize,
    offset: u64,
    staging: &mut Vec<u8>,
) -> io::Result<usize> {
    staging.clear();
    let (mut whole, mut end) = (0, wanted);
    loop {
        let read = read_until(reader, end, staging);
        let fault = skip_events(staging, &mut whole, offset).and(read);
        match fault {
            Err(error) if whole == 0 => return Err(error),
            Ok(()) if whole < wanted && staging.len() >= end => {}
            _ => return Ok(whole),
        }
        end = whole + claimed_bytes(&staging[whole..]).unwrap_or(SMALLEST_EVENT);
    }
}

/// Appends to `staging` until it has `end` bytes or the stream ends. It grows with the data read,
/// not with the size that an event claims.
fn read_until(reader: &mut impl BufRead, end: usize, staging: &mut Vec<u8>) -> io::Result<()> {
    while staging.len() < end {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Ok(());
        }
        let count = available.len().min(end - staging.len());
        staging.extend_from_slice(&available[..count]);
        reader.consume(count);
    }
    Ok(())
}

/// Advances `whole` over every complete event in `bytes`, which start at `offset` in the stream.
fn skip_events(bytes: &[u8], whole: &mut usize, offset: u64) -> io::Result<()> {
    while let Some(size) = claimed_bytes(&bytes[*whole..]) {
        if size < SMALLEST_EVENT || !size.is_multiple_of(8) {
            let message = format!(
                "an event at stream offset {} says it has {size} bytes",
                offset + *whole as u64
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if size > bytes.len() - *whole {
            break;
        }
        *whole += size;
    }
    Ok(())
}

/// The size that an event claims; `None` if too little of the event is there.
fn claimed_bytes(event: &[u8]) -> Option<usize> {
    let size = event.get(..SMALLEST_EVENT)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*size) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_recording::{
        ChunkEvents, Codec, Exit, Metadata, Outcome, Recording, RecordingWriter, StreamId,
        StreamInfo, StreamKind,
    };
    use std::io::BufReader;
    use std::path::Path;

    fn event(bytes: usize) -> Vec<u8> {
        let mut event = vec![7; bytes];
        event[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
        event
    }

    /// Returns the sizes of the windows that a stream is cut into, and the error that ends it. The
    /// bytes arrive in pieces of `piece`.
    fn cut(stream: &[u8], wanted: usize, piece: usize) -> (Vec<usize>, Option<String>) {
        let mut reader = BufReader::with_capacity(piece, stream);
        let (mut windows, mut staging, mut offset) = (Vec::new(), Vec::new(), 0);
        loop {
            match read_events(&mut reader, wanted, offset as u64, &mut staging) {
                Ok(0) => return (windows, None),
                Ok(bytes) => {
                    assert_eq!(staging[..bytes], stream[offset..offset + bytes]);
                    windows.push(bytes);
                    offset += bytes;
                    reader = BufReader::with_capacity(piece, &stream[offset..]);
                }
                Err(error) => return (windows, Some(error.to_string())),
            }
        }
    }

    /// A recording whose only stream is `stream`, in chunks of `piece` bytes that end within
    /// events.
    fn recorded(folder: &Path, stream: &[u8], piece: usize) -> StreamReader {
        let writer = RecordingWriter::create(folder, &Metadata::default()).unwrap();
        let info = StreamInfo {
            id: StreamId(0),
            parent: None,
            pid: 1,
            tid: 1,
            kind: StreamKind::Thread,
            label: String::new(),
        };
        writer.declare_stream(&info).unwrap();
        for (index, chunk) in stream.chunks(piece).enumerate() {
            let events = match index {
                0 => ChunkEvents { first: Some(0), count: 1 },
                _ => ChunkEvents::default(),
            };
            writer.append(info.id, chunk, events, Codec::Raw).unwrap();
        }
        writer.finish(&Outcome::of_exit(Exit::Exited(0))).unwrap();
        Recording::open(folder).unwrap().stream(info.id).unwrap()
    }

    /// Reads the window from `offset`.
    fn window(feed: &mut Feed, offset: usize) -> Vec<u8> {
        let (mut got, mut staging) = (Vec::new(), Vec::new());
        feed.window(offset as u64, &mut staging, |bytes| {
            got.extend_from_slice(bytes);
            Ok(true)
        })
        .unwrap();
        got
    }

    #[test]
    fn a_jump_leaves_behind_what_was_read_beyond_a_window() {
        const EVENT: usize = 1000;
        let numbered = |number: usize| {
            let mut event = event(EVENT);
            event[8..16].copy_from_slice(&(number as u64).to_le_bytes());
            event
        };
        let stream: Vec<u8> = (0..9000).flat_map(numbered).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut feed =
            Feed::new(recorded(&folder.path().join("r"), &stream, 65_432), Stock::default());
        let mut offset = 0;
        for _ in 0..3 {
            let got = window(&mut feed, offset);
            assert_eq!(got, stream[offset..offset + got.len()]);
            offset += got.len();
        }
        assert!(!feed.carry.is_empty() && feed.ready.is_none(), "it is to begin within an event");
        for place in [7 * EVENT, offset - EVENT, 0] {
            let got = window(&mut feed, place);
            assert!(!got.is_empty() && got == stream[place..place + got.len()], "from {place}");
        }
    }

    #[test]
    fn windows_end_where_events_end() {
        let stream: Vec<u8> = [16, 40, 24, 4096, 16, 1000].into_iter().flat_map(event).collect();
        for piece in [1, 3, 16, 17, 5000] {
            assert_eq!(
                cut(&stream, 16, piece).0,
                [16, 40, 24, 4096, 16, 1000],
                "pieces of {piece}"
            );
            assert_eq!(cut(&stream, 50, piece).0, [56, 4120, 1016], "pieces of {piece}");
            assert_eq!(cut(&stream, 1 << 20, piece).0, [5192], "pieces of {piece}");
        }
    }

    #[test]
    fn nothing_is_read_beyond_a_window() {
        let stream: Vec<u8> = [16, 40, 24].into_iter().flat_map(event).collect();
        let mut reader = &stream[..];
        assert_eq!(read_events(&mut reader, 20, 0, &mut Vec::new()).unwrap(), 56);
        assert_eq!(reader.len(), 24);
    }

    #[test]
    fn an_event_that_was_cut_off_is_left_out() {
        let stream: Vec<u8> = [16, 40, 24].into_iter().flat_map(event).collect();
        for missing in 1..24 {
            assert_eq!(
                cut(&stream[..80 - missing], 1 << 20, 7),
                (vec![56], None),
                "{missing} bytes missing"
            );
        }
        assert_eq!(cut(&[], 100, 7), (vec![], None));
    }

    #[test]
    fn a_malformed_event_is_an_error_after_those_before_it() {
        for claimed in [0, 8, 15, 20, u32::MAX] {
            let mut stream = event(48);
            stream.extend(claimed.to_le_bytes());
            stream.extend([0; 60]);
            let (windows, error) = cut(&stream, 1 << 20, 9);
            assert_eq!(windows, [48]);
            assert_eq!(
                error,
                Some(format!("an event at stream offset 48 says it has {claimed} bytes"))
            );
        }
    }

    #[test]
    fn a_claim_allocates_nothing() {
        let mut stream = event(16);
        stream[..4].copy_from_slice(&0xffff_fff8_u32.to_le_bytes());
        let mut staging = Vec::new();
        assert_eq!(read_events(&mut &stream[..], 16, 0, &mut staging).unwrap(), 0);
        assert!(staging.capacity() < 1000);
    }
}
