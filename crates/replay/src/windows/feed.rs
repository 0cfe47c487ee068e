//! One stream, cut into windows: segments that begin and end where events do.
//!
//! A stream that asked for several windows in a row is read ahead, so that the next one is there when it is asked for. A stream of a few events
//! costs one small segment and nothing else.

use retake_kernel::segment::Segment;
use retake_recording::StreamReader;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The first windows of a stream have about this many bytes: most streams are shorter.
const SMALL_WINDOW_BYTES: usize = 128 << 10;
/// Those of a stream that keeps asking. Three of them fit the caches of most machines.
const LARGE_WINDOW_BYTES: usize = 1 << 20;
/// With this much in windows there are no large ones, and nothing is read ahead.
const PLENTY_BYTES: usize = 24 << 20;
/// From the how-manieth window in a row on a stream is read ahead.
const WINDOWS_IN_A_ROW: u32 = 2;
/// Rooms for an event's beginning: size, kind, number and value.
const SMALLEST_EVENT: usize = 16;

/// Bytes that all windows have together. The supervisor's memory is bounded by looking at it.
#[derive(Clone, Default)]
pub(super) struct Stock(Arc<AtomicUsize>);

impl Stock {
    fn is_plentiful(&self) -> bool {
        self.0.load(Relaxed) >= PLENTY_BYTES
    }
}

struct Window {
    segment: Segment,
    /// Stream offset of its first byte.
    start: u64,
    bytes: usize,
    stock: Stock,
}

impl Drop for Window {
    fn drop(&mut self) {
        self.stock.0.fetch_sub(self.segment.bytes(), Relaxed);
    }
}

/// What one stream's reader is given.
pub(super) struct Feed {
    reader: StreamReader,
    /// Given last. Kept, because its reader may not have attached it yet.
    current: Option<Window>,
    /// Read ahead.
    ready: Option<Window>,
    windows_in_a_row: u32,
    stock: Stock,
}

impl Feed {
    pub(super) fn new(reader: StreamReader, stock: Stock) -> Self {
        Self { reader, current: None, ready: None, windows_in_a_row: 0, stock }
    }

    /// The window from `offset`, where an event begins: segment number and bytes; `None` at the end of the stream, or before an event that was never
    /// completed.
    ///
    /// # Errors
    /// The first event there cannot be read or is malformed. What precedes it has been given before.
    pub(super) fn window(&mut self, offset: u64, staging: &mut Vec<u8>) -> io::Result<Option<(i32, u64)>> {
        let follows = self.current.as_ref().is_some_and(|window| window.start + window.bytes as u64 == offset);
        self.windows_in_a_row = if follows { self.windows_in_a_row.saturating_add(1) } else { 0 };
        let window = match self.ready.take() {
            Some(window) if window.start == offset => Some(window),
            _ => self.read_window(offset, staging)?,
        };
        let answer = window.as_ref().map(|window| (window.segment.id(), window.bytes as u64));
        self.current = window;
        Ok(answer)
    }

    /// Reads the window after the current one if it will probably be asked for. What goes wrong shows when it is.
    pub(super) fn read_ahead(&mut self, staging: &mut Vec<u8>) {
        let Some(current) = &self.current else { return };
        if self.windows_in_a_row >= WINDOWS_IN_A_ROW && self.ready.is_none() && !self.stock.is_plentiful() {
            let next = current.start + current.bytes as u64;
            self.ready = self.read_window(next, staging).unwrap_or_default();
        }
    }

    fn read_window(&mut self, offset: u64, staging: &mut Vec<u8>) -> io::Result<Option<Window>> {
        if self.reader.position() != offset {
            self.reader.seek_to_offset(offset).map_err(io::Error::from)?;
        }
        let large = self.windows_in_a_row > 0 && !self.stock.is_plentiful();
        let bytes = read_events(&mut self.reader, if large { LARGE_WINDOW_BYTES } else { SMALL_WINDOW_BYTES }, offset, staging)?;
        if bytes == 0 {
            return Ok(None);
        }
        let segment = Segment::with_bytes(&staging[..bytes], bytes.next_multiple_of(4096))?;
        self.stock.0.fetch_add(segment.bytes(), Relaxed);
        Ok(Some(Window { segment, start: offset, bytes, stock: self.stock.clone() }))
    }
}

/// Replaces `staging` by whole events of at least `wanted` bytes, or what is left; returns how many bytes they are. Reads nothing beyond
/// them, unless the stream ends or cannot be read within an event.
fn read_events(reader: &mut impl BufRead, wanted: usize, offset: u64, staging: &mut Vec<u8>) -> io::Result<usize> {
    staging.clear();
    let mut whole = 0;
    let mut end = wanted;
    loop {
        let result = read_until(reader, end, staging).and_then(|()| {
            whole = find_last_event(staging, whole, offset)?;
            Ok(())
        });
        match result {
            Err(error) if whole == 0 => return Err(error),
            Err(_) => return Ok(whole),
            Ok(()) if staging.len() < end || whole >= wanted => return Ok(whole),
            Ok(()) => end = end_of_cut_event(&staging[whole..]).map_or(whole + SMALLEST_EVENT, |bytes| whole + bytes),
        }
    }
}

/// Appends to `staging` until it has `end` bytes or the stream is over. Grows with what was read, not with what an event claims.
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

/// Where the last whole event ends, beginning at `whole`, where one starts. A malformed event is an error only if it is the first.
fn find_last_event(bytes: &[u8], mut whole: usize, offset: u64) -> io::Result<usize> {
    let first = whole;
    while let Some(size) = end_of_cut_event(&bytes[whole..]) {
        if size < SMALLEST_EVENT || !size.is_multiple_of(8) {
            let message = format!("an event at stream offset {} says it has {size} bytes", offset + whole as u64);
            return if whole == first { Err(io::Error::new(io::ErrorKind::InvalidData, message)) } else { Ok(whole) };
        }
        if size > bytes.len() - whole {
            break;
        }
        whole += size;
    }
    Ok(whole)
}

/// The size an event claims; `None` if not enough of it is there to tell.
fn end_of_cut_event(bytes: &[u8]) -> Option<usize> {
    let size = bytes.get(..SMALLEST_EVENT)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*size) as usize)
}
