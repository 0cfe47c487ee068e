//! The bytes of a record: its own, or a part of an extent of the trace being read.
//!
//! A trace holds its data in extents of some hundred kilobytes. Copying each value out of them
//! costs more than everything else in reading a record, so records share the extent instead.
//! [`Ledger`] bounds how much memory that keeps in use.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use retake_dataseries::{Extent, ExtentBuffers, Row};

/// The most bytes of extents that are read to their end but whose data are still in use. Beyond
/// that, data are copied.
const SHARED_BYTES_MAX: u64 = 64 << 20;

/// The largest extent whose data are shared. Data of larger ones are always copied, because one
/// small record must not keep all of it in memory.
const EXTENT_BYTES_MAX: usize = 4 << 20;

/// The most bytes of freed extents that are kept for reuse.
const SPARE_BYTES_MAX: usize = 32 << 20;

/// Bytes, as a slice. Made from a `Vec<u8>`.
#[derive(Clone, Default)]
pub struct TraceData(Bytes);

#[derive(Clone)]
enum Bytes {
    Own(Vec<u8>),
    /// A part of an extent's pool.
    Shared(Arc<SharedExtent>, Range<usize>),
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl TraceData {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self
    }

    /// Returns the number of bytes, without touching the bytes or their extent.
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Own(bytes) => bytes.len(),
            Bytes::Shared(_, range) => range.len(),
        }
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes for changes. Shared bytes are copied first.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        if let Bytes::Shared(..) = self.0 {
            self.0 = Bytes::Own(self.to_vec());
        }
        match &mut self.0 {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(..) => unreachable!("it was just copied"),
        }
    }

    /// Keeps at most the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        match &mut self.0 {
            Bytes::Own(bytes) => bytes.truncate(length),
            Bytes::Shared(_, range) => {
                range.end = range.end.min(range.start.saturating_add(length))
            }
        }
    }
}

impl Deref for TraceData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(extent, range) => &extent.extent.pool()[range.clone()],
        }
    }
}

impl AsRef<[u8]> for TraceData {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for TraceData {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Own(bytes))
    }
}

impl From<&[u8]> for TraceData {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<TraceData> for Vec<u8> {
    fn from(mut data: TraceData) -> Self {
        std::mem::take(data.to_mut())
    }
}

impl PartialEq for TraceData {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for TraceData {}

impl PartialEq<[u8]> for TraceData {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for TraceData {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for TraceData {
    fn eq(&self, other: &[u8; N]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for TraceData {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for TraceData {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for TraceData {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, formatter)
    }
}

/// An extent that is being read, or whose data are in use.
#[derive(Debug)]
pub(crate) struct SharedExtent {
    pub extent: Extent,
    /// Whether its data may be shared.
    shares: bool,
    ledger: Arc<Ledger>,
}

impl SharedExtent {
    /// Returns a value that one of the extent's rows gave.
    fn data(self: &Arc<Self>, value: &[u8]) -> TraceData {
        match self.extent.pool_range(value) {
            Some(range) if self.shares && !range.is_empty() => {
                TraceData(Bytes::Shared(Arc::clone(self), range))
            }
            _ => value.into(),
        }
    }
}

impl Drop for SharedExtent {
    fn drop(&mut self) {
        self.ledger.live_bytes.fetch_sub(self.extent.unpacked_bytes() as u64, Ordering::Relaxed);
        self.ledger.keep(self.extent.take_buffers());
    }
}

/// The account of the memory that the extents of a trace take: extents being read, and extents
/// whose data are still in use.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live_bytes: AtomicU64,
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<ExtentBuffers>,
    bytes: usize,
}

impl Ledger {
    /// Takes in an extent. `read_bytes` is the size of all extents being read, including this one.
    pub fn enter(self: &Arc<Self>, extent: Extent, read_bytes: u64) -> Arc<SharedExtent> {
        let bytes = extent.unpacked_bytes();
        let live_bytes = self.live_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let shares =
            bytes <= EXTENT_BYTES_MAX && live_bytes.saturating_sub(read_bytes) <= SHARED_BYTES_MAX;
        Arc::new(SharedExtent { extent, shares, ledger: Arc::clone(self) })
    }

    /// Returns memory for the next extent.
    pub fn spare(&self) -> ExtentBuffers {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let buffers = spare.buffers.pop().unwrap_or_default();
        spare.bytes -= buffers.capacity_bytes();
        buffers
    }

    fn keep(&self, buffers: ExtentBuffers) {
        let bytes = buffers.capacity_bytes();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.bytes + bytes <= SPARE_BYTES_MAX {
            spare.bytes += bytes;
            spare.buffers.push(buffers);
        }
    }
}

/// A row, and the extent that its data can be shared from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedRow<'a> {
    row: Row<'a>,
    extent: &'a Arc<SharedExtent>,
}

impl<'a> SharedRow<'a> {
    /// Row number `index` of an extent.
    pub fn of(extent: &'a Arc<SharedExtent>, index: usize) -> Option<Self> {
        Some(Self { row: extent.extent.row(index)?, extent })
    }

    /// Returns a value that the row gave.
    pub fn data(&self, value: &[u8]) -> TraceData {
        self.extent.data(value)
    }
}

impl<'a> Deref for SharedRow<'a> {
    type Target = Row<'a>;

    fn deref(&self) -> &Row<'a> {
        &self.row
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use retake_dataseries::{ExtentType, Field, ReadOptions, Reader, Writer, WriterOptions};

    const VALUE: &[u8] = b"some value or other";

    /// Returns an extent of `rows` rows, each with a value of its own.
    fn extent(rows: usize, buffers: ExtentBuffers) -> Extent {
        let file_type = ExtentType::builder("Test")
            .namespace("example.org")
            .version(1, 0)
            .field(Field::variable32("value"))
            .build()
            .unwrap();
        let value = file_type.bind::<[u8]>("value").unwrap();
        let options = WriterOptions { extent_bytes: 1 << 30, ..WriterOptions::default() };
        let mut writer = Writer::new(Vec::new(), vec![file_type], options).unwrap();
        for _ in 0..rows {
            let mut row = writer.row(0).unwrap();
            row.set(&value, VALUE).unwrap();
            row.finish();
        }
        let mut reader =
            Reader::open(Cursor::new(writer.finish().unwrap()), ReadOptions::default()).unwrap();
        let entry = reader.entries()[0].clone();
        reader.read_into(&entry, buffers).unwrap()
    }

    fn first(extent: &Arc<SharedExtent>) -> TraceData {
        let row = SharedRow::of(extent, 0).unwrap();
        row.data(row.value(0).as_bytes().unwrap())
    }

    fn is_shared(data: &TraceData) -> bool {
        matches!(data.0, Bytes::Shared(..))
    }

    #[test]
    fn data_can_be_changed_and_cut() {
        let ledger = Arc::new(Ledger::default());
        let shared = ledger.enter(extent(3, ExtentBuffers::default()), 0);
        for mut data in [TraceData::from(VALUE), first(&shared)] {
            data.truncate(VALUE.len() + 1);
            assert_eq!(data, VALUE);
            data.truncate(4);
            assert_eq!(data, b"some");
            data.to_mut().push(b'!');
            assert_eq!((Vec::from(data), first(&shared)), (b"some!".to_vec(), VALUE.into()));
        }
    }

    #[test]
    fn shared_data_outlive_the_reading_and_give_their_memory_back() {
        let ledger = Arc::new(Ledger::default());
        let shared = ledger.enter(extent(1000, ledger.spare()), 0);
        let data = first(&shared);
        drop(shared);
        assert!(is_shared(&data) && data == VALUE && ledger.live_bytes.load(Ordering::Relaxed) > 0);
        drop(data);
        assert_eq!(ledger.live_bytes.load(Ordering::Relaxed), 0);
        let spare = ledger.spare();
        assert!(spare.capacity_bytes() > 1000 * VALUE.len());
        // The old contents of the reused memory do not show.
        let next = ledger.enter(extent(3, spare), 0);
        assert_eq!((next.extent.record_count(), first(&next)), (3, VALUE.into()));
    }

    #[test]
    fn what_is_kept_in_use_is_bounded() {
        let ledger = Arc::new(Ledger::default());
        let rows = 100_000;
        let kept: Vec<TraceData> =
            (0..40).map(|_| first(&ledger.enter(extent(rows, ledger.spare()), 0))).collect();
        let extent_bytes = rows as u64 * 40;
        assert!(
            kept.iter().all(|data| data == VALUE) && is_shared(&kept[0]) && !is_shared(&kept[39])
        );
        assert!(ledger.live_bytes.load(Ordering::Relaxed) <= SHARED_BYTES_MAX + extent_bytes);
        let large = ledger.enter(extent(200_000, ExtentBuffers::default()), 0);
        assert!(!is_shared(&first(&large)), "one value would keep all of a large extent");
    }
}
