//! Walks the rows of one type, extent after extent.

use std::collections::VecDeque;
use std::io::{Read, Seek};
use std::sync::Arc;

use retake_dataseries::{Error, ExtentType, IndexEntry, Reader, Row};

use crate::data::{Ledger, SharedExtent, SharedRow};
use crate::error::{Result, TraceError};

/// The file, and the problems found in its extents.
#[derive(Debug)]
pub(crate) struct Extents<R: Read + Seek> {
    pub reader: Reader<R>,
    /// Bytes of all extents in memory. `limit_bytes` bounds them.
    pub loaded_bytes: u64,
    pub limit_bytes: u64,
    /// The account of extents whose data are still in use.
    pub ledger: Arc<Ledger>,
    /// Why extents could not be read.
    pub problems: VecDeque<String>,
}

impl<R: Read + Seek> Extents<R> {
    /// Reads an extent, which replaces one of `freed_bytes`. A damaged extent is left out and noted
    /// in `problems`.
    fn load(
        &mut self,
        entry: &IndexEntry,
        freed_bytes: u64,
        skips_strings: bool,
    ) -> Result<Option<Arc<SharedExtent>>> {
        self.loaded_bytes -= freed_bytes;
        let read = if skips_strings {
            self.reader.read_without_strings(entry)
        } else {
            self.reader.read_into(entry, self.ledger.spare())
        };
        let extent = match read {
            Ok(extent) => extent,
            Err(Error::Io(error)) => return Err(error.into()),
            Err(error) => {
                self.problems.push_back(format!(
                    "an extent of {:?} is lost: {error}",
                    entry.extent_type.name()
                ));
                return Ok(None);
            }
        };
        self.loaded_bytes += extent.unpacked_bytes() as u64;
        if self.loaded_bytes > self.limit_bytes {
            return Err(TraceError::Memory { limit: self.limit_bytes });
        }
        Ok(Some(self.ledger.enter(extent, self.loaded_bytes)))
    }
}

/// A place among the rows of one type.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The extents that follow.
    entries: VecDeque<IndexEntry>,
    extent: Option<Arc<SharedExtent>>,
    /// The rows of the extent sorted by id. Empty if the file has them in that order.
    order: Vec<u32>,
    position: usize,
    /// The field to sort rows by; `None` to take them as they come.
    sort_field: Option<usize>,
    /// Whether values without a fixed size are left empty.
    skips_strings: bool,
}

impl Cursor {
    pub fn new(entries: VecDeque<IndexEntry>, sort_field: Option<usize>) -> Self {
        Self {
            entries,
            extent: None,
            order: Vec::new(),
            position: 0,
            sort_field,
            skips_strings: false,
        }
    }

    /// Leaves values without a fixed size empty if `skips_strings`.
    pub fn skipping_strings(self, skips_strings: bool) -> Self {
        Self { skips_strings, ..self }
    }

    /// Makes sure that there is a current row, if any are left.
    pub fn fill<R: Read + Seek>(&mut self, extents: &mut Extents<R>) -> Result<()> {
        while self
            .extent
            .as_ref()
            .is_none_or(|shared| self.position >= shared.extent.record_count())
        {
            let freed =
                self.extent.take().map_or(0, |shared| shared.extent.unpacked_bytes() as u64);
            let Some(entry) = self.entries.pop_front() else {
                extents.loaded_bytes -= freed;
                return Ok(());
            };
            self.position = 0;
            self.extent = extents.load(&entry, freed, self.skips_strings)?;
            self.sort();
        }
        Ok(())
    }

    fn sort(&mut self) {
        self.order.clear();
        let (Some(shared), Some(field)) = (&self.extent, self.sort_field) else { return };
        let extent = &shared.extent;
        let place = extent.extent_type().number_place(field);
        let id = |row: Row<'_>| place.and_then(|place| row.number(&place)).unwrap_or(0) as u64;
        if extent.rows().map(id).is_sorted() {
            return;
        }
        let ids: Vec<u64> = extent.rows().map(id).collect();
        self.order.extend(0..ids.len() as u32);
        self.order.sort_by_key(|row| ids[*row as usize]);
    }

    /// Returns the current row. There is none after the last, or before [`Cursor::fill`].
    pub fn row(&self) -> Option<SharedRow<'_>> {
        let extent = self.extent.as_ref()?;
        let index = self.order.get(self.position).map_or(self.position, |row| *row as usize);
        SharedRow::of(extent, index)
    }

    /// Goes to the next row.
    pub fn advance(&mut self) {
        self.position += 1;
    }
}

/// The type of the first entry.
pub(crate) fn type_of(entries: &VecDeque<IndexEntry>) -> Option<&ExtentType> {
    entries.front().map(|entry| entry.extent_type.as_ref())
}
