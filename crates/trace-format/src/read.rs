//! Reads traces.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use retake_dataseries::{Digests, Error, IndexEntry, ReadOptions, Reader};

use crate::TraceRecord;
use crate::decode::{
    BufferRows, CallCursor, Cursor, DescriptorRows, Extents, LimitRows, end_of, finish, header_of,
    incomplete_of, mapped_of, start_of,
};
use crate::encode::FORMAT_VERSION;
use crate::error::{Result, TraceError};
use crate::schema::{SCHEMA, WRITE_NAME, other};

/// How a trace is read.
#[derive(Debug, Clone)]
pub struct TraceReaderOptions {
    /// The digests of extents that are checked. Sizes and offsets are always checked.
    pub digests: Digests,
    /// Whether to leave out the bytes that `write` wrote, which are half of many traces. The calls
    /// then come without that buffer.
    pub skips_written: bool,
    /// The most memory in bytes that a trace may need at once. Larger ones are refused.
    pub memory_bytes: u64,
}

impl Default for TraceReaderOptions {
    fn default() -> Self {
        Self { digests: Digests::Both, skips_written: false, memory_bytes: 512 << 20 }
    }
}

/// The statements of a trace about itself. Only this program's traces have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeader {
    /// The hash of the system-call table of the writer.
    pub table_hash: u64,
    /// The program that wrote the trace.
    pub producer: String,
}

/// Reads the records of a trace in the order of their ids.
///
/// Our traces come back as they were written. Traces of RE-ANIMATOR's tools are read as far as
/// possible: registers without a field are 0, addresses of buffers are unknown, and data are put
/// together from fields. Their ids have gaps.
///
/// Damaged parts are left out, and a [`TraceRecord::Incomplete`] says so. There is also one at the
/// end of a trace that was cut off. Errors are only those of the stream, and of files that are not
/// traces.
#[derive(Debug)]
pub struct TraceReader<R: Read + Seek> {
    extents: Extents<R>,
    sources: Vec<Source>,
    /// The next record of each source.
    heap: BinaryHeap<Reverse<Next>>,
    /// The next record of all, if it is known to come before those in `heap`. Programs often make
    /// the same call again and again, so that one source supplies many records in a row.
    next: Option<Next>,
    buffers: BufferRows,
    descriptors: DescriptorRows,
    limits: LimitRows,
    header: Option<TraceHeader>,
    end: Option<(u64, Option<u64>)>,
    /// Whether this program made the trace. Its ids have no gaps, and an end is expected.
    is_own: bool,
    /// Why the walk through the file ended early, if it did.
    cut: Option<Error>,
    ready: VecDeque<TraceRecord>,
    last_id: Option<u64>,
    records: u64,
    /// How many records are known to be missing.
    missing: u64,
    has_ended: bool,
}

/// A source of records.
#[derive(Debug)]
enum Source {
    Calls(Box<CallCursor>),
    Starts(Cursor),
    Mapped { cursor: Cursor, id_field: Option<usize>, write: bool },
    Incomplete(Cursor),
}

/// The key of a source's next record: id, rank among equal ids, and the source.
type Next = (u64, u8, usize);

/// Ranks of records with one id: a gap before the first record, then records, then gaps after them.
const RANK_FIRST: u8 = 0;
const RANK_RECORD: u8 = 1;
const RANK_AFTER: u8 = 2;

impl TraceReader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`TraceReader::new`].
    pub fn open(path: &Path, options: &TraceReaderOptions) -> Result<Self> {
        Self::new(BufReader::new(File::open(path)?), options)
    }
}

/// Extents by type.
struct ByType(HashMap<String, VecDeque<IndexEntry>>);

impl ByType {
    fn take(&mut self, name: &str) -> VecDeque<IndexEntry> {
        self.0.remove(name).unwrap_or_default()
    }

    /// A cursor over one of [`other::PLAIN`], with its id field; `None` without extents.
    fn cursor(&mut self, plain: usize, id_name: &str) -> Option<(Cursor, Option<usize>)> {
        let entries = self.take(other::PLAIN[plain].name);
        let id_field = entries.front()?.extent_type.field_number(id_name);
        Some((Cursor::new(entries, id_field), id_field))
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Reads types and index. A file without an index is walked through as far as possible.
    ///
    /// # Errors
    /// From the stream. Also for files that are not DataSeries, hold no trace, or have a newer
    /// version.
    pub fn new(mut source: R, options: &TraceReaderOptions) -> Result<Self> {
        let extent_bytes_limit = options.memory_bytes.min(256 << 20);
        let read = ReadOptions {
            digests: options.digests,
            extent_bytes_limit,
            known_types: SCHEMA.types(),
        };
        let (reader, cut) = match Reader::open(&mut source, read.clone()) {
            Ok(_) => (Reader::open(source, read)?, None),
            Err(Error::Io(error)) => return Err(error.into()),
            Err(_) => Reader::scan(source, read)?,
        };
        let mut by_type: HashMap<String, VecDeque<IndexEntry>> = HashMap::new();
        for entry in reader.entries() {
            by_type
                .entry(entry.extent_type.name().to_owned())
                .or_default()
                .push_back(entry.clone());
        }
        let is_own = reader.library().get(other::PLAIN[other::HEADER].name).is_some();
        if !is_own {
            check_foreign(&reader)?;
        }
        let mut by_type = ByType(by_type);
        let extents = Extents {
            reader,
            loaded_bytes: 0,
            limit_bytes: options.memory_bytes,
            ledger: Arc::default(),
            problems: VecDeque::new(),
        };
        let buffers = by_type.take(other::PLAIN[other::BUFFER].name);
        let buffer_type = buffers.front().map(|entry| entry.extent_type.clone());
        let buffer_id = buffer_type.as_ref().and_then(|own| own.field_number("unique_id"));
        let mut side = |plain| by_type.cursor(plain, "unique_id").unzip();
        let (descriptors, descriptor_id) = side(other::DESCRIPTOR);
        let (limits, limit_id) = side(other::LIMIT);
        let mut this = Self {
            extents,
            sources: Vec::new(),
            heap: BinaryHeap::new(),
            next: None,
            buffers: BufferRows::new(
                buffer_type.is_some().then(|| Cursor::new(buffers, buffer_id)),
                buffer_type.as_deref(),
            ),
            descriptors: DescriptorRows::new(descriptors, descriptor_id.flatten()),
            limits: LimitRows::new(limits, limit_id.flatten()),
            header: None,
            end: None,
            is_own,
            cut,
            ready: VecDeque::new(),
            last_id: None,
            records: 0,
            missing: 0,
            has_ended: false,
        };
        this.read_header(&mut by_type)?;
        this.read_end(&mut by_type)?;
        this.add_sources(&mut by_type, options.skips_written)?;
        Ok(this)
    }

    fn read_header(&mut self, by_type: &mut ByType) -> Result<()> {
        let Some((mut cursor, _)) = by_type.cursor(other::HEADER, "format_version") else {
            return Ok(());
        };
        cursor.fill(&mut self.extents)?;
        let Some(row) = cursor.row() else { return Ok(()) };
        let (version, table_hash, producer) = header_of(&row);
        if version != FORMAT_VERSION {
            return Err(TraceError::Version { version, known: FORMAT_VERSION });
        }
        self.header = Some(TraceHeader { table_hash, producer });
        Ok(())
    }

    fn read_end(&mut self, by_type: &mut ByType) -> Result<()> {
        if let Some((mut cursor, _)) = by_type.cursor(other::END, "records") {
            cursor.fill(&mut self.extents)?;
            self.end = cursor.row().map(|row| end_of(&row));
        }
        Ok(())
    }

    fn add_sources(&mut self, by_type: &mut ByType, skips_written: bool) -> Result<()> {
        for schema in &SCHEMA.calls {
            let skips_strings = skips_written && schema.name() == WRITE_NAME;
            let cursor = CallCursor::new(schema, by_type.take(schema.name()), skips_strings);
            self.sources.extend(cursor.map(|cursor| Source::Calls(Box::new(cursor))));
        }
        let starts = by_type.cursor(other::PROCESS_START, "unique_id");
        self.sources.extend(starts.map(|(cursor, _)| Source::Starts(cursor)));
        for (plain, write) in [(other::MAPPED_READ, false), (other::MAPPED_WRITE, true)] {
            let mapped = by_type.cursor(plain, "unique_id");
            self.sources.extend(mapped.map(|(cursor, id_field)| Source::Mapped {
                cursor,
                id_field,
                write,
            }));
        }
        let incomplete = by_type.cursor(other::INCOMPLETE, "after_id");
        self.sources.extend(incomplete.map(|(cursor, _)| Source::Incomplete(cursor)));
        for source in 0..self.sources.len() {
            let next = self.look(source)?;
            self.heap.extend(next.map(Reverse));
        }
        Ok(())
    }

    /// Returns the key of a source's next record.
    fn look(&mut self, index: usize) -> Result<Option<Next>> {
        let key = match &mut self.sources[index] {
            Source::Calls(calls) => {
                calls.fill(&mut self.extents)?;
                calls.id().map(|id| (id, RANK_RECORD))
            }
            Source::Starts(cursor) => {
                cursor.fill(&mut self.extents)?;
                cursor.row().map(|row| (start_of(&row).id, RANK_RECORD))
            }
            Source::Mapped { cursor, id_field, .. } => {
                cursor.fill(&mut self.extents)?;
                let id = |field: usize| cursor.row().and_then(|row| row.value(field).as_i64());
                cursor.row().map(|_| (id_field.and_then(id).unwrap_or(0) as u64, RANK_RECORD))
            }
            Source::Incomplete(cursor) => {
                cursor.fill(&mut self.extents)?;
                cursor.row().map(|row| match incomplete_of(&row).0 {
                    Some(after) => (after, RANK_AFTER),
                    None => (0, RANK_FIRST),
                })
            }
        };
        Ok(key.map(|(id, rank)| (id, rank, index)))
    }

    /// Returns what the trace says about itself, if this program made it.
    pub fn header(&self) -> Option<&TraceHeader> {
        self.header.as_ref()
    }

    /// Returns the next record, or `None` after the last.
    ///
    /// # Errors
    /// From the stream, and [`TraceError::Memory`].
    pub fn next_record(&mut self) -> Result<Option<TraceRecord>> {
        loop {
            if let Some(problem) = self.extents.problems.pop_front() {
                return Ok(Some(TraceRecord::Incomplete(problem)));
            }
            if let Some(record) = self.ready.pop_front() {
                return Ok(Some(record));
            }
            let Some((_, _, source)) =
                self.next.take().or_else(|| self.heap.pop().map(|Reverse(next)| next))
            else {
                if std::mem::replace(&mut self.has_ended, true) {
                    return Ok(None);
                }
                self.finish();
                continue;
            };
            let record = self.take(source)?;
            self.next = self.look(source)?;
            if let Some(later) = self
                .next
                .take_if(|next| self.heap.peek().is_some_and(|Reverse(first)| first < next))
            {
                self.heap.push(Reverse(later));
            }
            self.note_gap(&record);
            if self.ready.is_empty() && self.extents.problems.is_empty() {
                return Ok(Some(record));
            }
            self.ready.push_back(record);
        }
    }

    /// Takes the next record of a source.
    fn take(&mut self, index: usize) -> Result<TraceRecord> {
        Ok(match &mut self.sources[index] {
            Source::Calls(calls) => {
                let part = calls.take().unwrap_or_default();
                let placed = if calls.fields.is_own {
                    self.buffers.take(part.call.id, &mut self.extents)?
                } else {
                    Vec::new()
                };
                TraceRecord::Call(finish(part, calls.fields.schema, placed))
            }
            Source::Starts(cursor) => {
                let mut start = start_of(&cursor.row().expect("the source was looked at"));
                cursor.advance();
                start.descriptors = self.descriptors.take(start.id, &mut self.extents)?;
                start.limits = self.limits.take(start.id, &mut self.extents)?;
                TraceRecord::ProcessStart(Box::new(start))
            }
            Source::Mapped { cursor, write, .. } => {
                let pages = mapped_of(&cursor.row().expect("the source was looked at"), *write);
                cursor.advance();
                TraceRecord::MappedPages(pages)
            }
            Source::Incomplete(cursor) => {
                let (_, reason) = incomplete_of(&cursor.row().expect("the source was looked at"));
                cursor.advance();
                TraceRecord::Incomplete(reason)
            }
        })
    }

    /// Notes a gap if records between the last and this one are missing.
    fn note_gap(&mut self, record: &TraceRecord) {
        let Some(id) = record.id() else { return };
        let expected = self.last_id.map(|last| last.wrapping_add(1));
        if let Some(expected) = expected.filter(|expected| self.is_own && id > *expected) {
            self.missing = self.missing.saturating_add(id - expected);
            self.ready.push_back(TraceRecord::Incomplete(missing(expected, id - 1)));
        }
        self.last_id = Some(self.last_id.map_or(id, |last| last.max(id)));
        self.records += 1;
    }

    /// Notes the records that are missing at the end.
    fn finish(&mut self) {
        let cut = self.cut.take();
        let Some((records, last_id)) = self.end else {
            let why = cut.map_or(String::new(), |error| format!(": {error}"));
            let is_cut = self.is_own || !why.is_empty();
            let text =
                format!("the trace was cut off while it was written, or its end is lost{why}");
            self.ready.extend(is_cut.then_some(TraceRecord::Incomplete(text)));
            return;
        };
        let next = self.last_id.map_or(0, |last| last.saturating_add(1));
        let mut left = records.saturating_sub(self.records.saturating_add(self.missing));
        if let Some(last) = last_id.filter(|last| *last >= next && left > 0) {
            let from = if self.records == 0 { last.saturating_sub(records - 1) } else { next };
            self.ready.push_back(TraceRecord::Incomplete(missing(from, last)));
            left = left.saturating_sub((last - from).saturating_add(1));
        }
        if left > 0 {
            self.ready.push_back(TraceRecord::Incomplete(format!(
                "{left} records are missing before the first"
            )));
        }
    }
}

fn missing(first: u64, last: u64) -> String {
    match first == last {
        true => format!("the record with id {first} is missing"),
        false => format!("the records with ids {first} to {last} are missing"),
    }
}

/// Refuses files without any type of a trace.
fn check_foreign<R: Read + Seek>(reader: &Reader<R>) -> Result<()> {
    let library = reader.library();
    let has_calls = SCHEMA.types().iter().any(|own| library.get(own.name()).is_some());
    if has_calls {
        return Ok(());
    }
    let names: Vec<&str> =
        library.types().iter().take(3).map(|extent_type| extent_type.name()).collect();
    Err(TraceError::NotATrace {
        types: if names.is_empty() { "no types at all".to_owned() } else { names.join(", ") },
    })
}

impl<R: Read + Seek> Iterator for TraceReader<R> {
    type Item = Result<TraceRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}
