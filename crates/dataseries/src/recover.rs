//! Salvages the whole extents of a damaged file.
//!
//! Extents have their own sizes and digests. A file without index and tail, or with bytes changed
//! or missing in the middle, still has all its other extents. After a damaged extent, the next one
//! is searched first at the end that the damaged header gives, then byte by byte.

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom, Write};

use crate::file::{FILE_HEADER_BYTES, TAIL_BYTES, Tail};
use crate::header::{ExtentHeader, HEADER_BYTES, PackedExtent};
use crate::order::ByteOrder;
use crate::schema::{INDEX_TYPE, TypeLibrary};
use crate::sink::FileSink;
use crate::source::{
    Next, read_file_header, read_next, read_parts, read_type_extent, read_up_to, unpack_types,
};
use crate::unpack::unpack;
use crate::{CompressionSet, Digests, Error, ReadOptions, Result};

/// The most lost ranges that are reported one by one.
const LOST_RANGES_MAX: usize = 1000;
/// Bytes that are searched in one step.
const WINDOW_BYTES: usize = 1 << 20;
/// The most bytes of a header with its name.
const HEADER_BYTES_MAX: usize = HEADER_BYTES + 256;

/// Options of a recovery.
#[derive(Debug, Clone, Default)]
pub struct RecoverOptions {
    /// How extents are read. Digests are always verified.
    pub read: ReadOptions,
    /// Types to use if the file's own descriptions are damaged, from an undamaged file of the same
    /// kind.
    pub types: Option<TypeLibrary>,
}

/// A part of the file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRange {
    /// Start of the part, in bytes.
    pub offset: u64,
    /// Length of the part, in bytes.
    pub bytes: u64,
    /// Why it could not be used.
    pub reason: String,
}

/// The results of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoverReport {
    /// Extents copied.
    pub extents: u64,
    /// Records in them.
    pub records: u64,
    /// Copied extents that were only found by searching.
    pub found_by_search: u64,
    /// Whether the file ended with a whole tail.
    pub had_tail: bool,
    /// Bytes lost in total.
    pub lost_bytes: u64,
    /// Number of lost ranges.
    pub lost_ranges: u64,
    /// The first thousand of them.
    pub lost: Vec<LostRange>,
}

impl RecoverReport {
    /// Whether the file had no error.
    pub fn is_sound(&self) -> bool {
        self.had_tail && self.lost_ranges == 0
    }

    fn lose(&mut self, offset: u64, bytes: u64, reason: String) {
        self.lost_bytes += bytes;
        self.lost_ranges += 1;
        if self.lost.len() < LOST_RANGES_MAX {
            self.lost.push(LostRange { offset, bytes, reason });
        }
    }
}

/// Copies every whole extent of `source` into a complete new file, byte for byte.
///
/// # Errors
/// [`Error::Io`]. Any reading error if the header or the descriptions of types are damaged, and
/// `options` has no types to use instead.
pub fn recover<R: Read + Seek, W: Write>(
    source: R,
    out: W,
    options: &RecoverOptions,
) -> Result<(W, RecoverReport)> {
    let mut salvage = Salvage::open(source, options)?;
    let mut sink = match &salvage.type_extent {
        Some(packed) => FileSink::create_with(out, salvage.order, &salvage.library, packed)?,
        None => FileSink::create(out, salvage.order, &salvage.library, CompressionSet::NONE)?,
    };
    let mut report = RecoverReport::default();
    if salvage.type_extent.is_none() {
        report.lose(0, salvage.offset, "the descriptions of types are damaged".to_owned());
    }
    let mut searched = salvage.type_extent.is_none();
    loop {
        match salvage.examine(salvage.offset)? {
            Found::Extent(packed, number) => {
                sink.append(&packed, number)?;
                report.extents += 1;
                report.records += u64::from(packed.header().record_count);
                report.found_by_search += u64::from(searched);
                salvage.offset += packed.bytes().len() as u64;
                searched = false;
            }
            Found::Index(bytes) => salvage.offset += bytes,
            Found::Tail => {
                report.had_tail = true;
                let end = salvage.offset + TAIL_BYTES as u64;
                if end < salvage.length {
                    report.lose(end, salvage.length - end, "bytes after the tail".to_owned());
                }
                break;
            }
            Found::End => break,
            Found::Bad { reason, end } => {
                let start = salvage.offset;
                searched = !salvage.skip(end)?;
                if searched {
                    salvage.search(start + 1)?;
                }
                report.lose(start, salvage.offset - start, reason);
            }
        }
    }
    Ok((sink.finish(CompressionSet::LZ4)?, report))
}

/// What is at some offset.
enum Found {
    /// A whole extent. The number is that of its type in the library.
    Extent(Box<PackedExtent>, usize),
    /// A whole index of this size in bytes.
    Index(u64),
    Tail,
    End,
    /// Nothing whole. `end` is where the next extent begins according to the header, if there is a
    /// header.
    Bad {
        reason: String,
        end: Option<u64>,
    },
}

/// The recovery of a damaged file.
struct Salvage<R> {
    source: R,
    order: ByteOrder,
    library: TypeLibrary,
    /// The file's own description of its types, if it is whole.
    type_extent: Option<PackedExtent>,
    options: ReadOptions,
    length: u64,
    /// The end of the part that is done.
    offset: u64,
    /// Bytes that may still be read because of false headers.
    budget_bytes: u64,
}

impl<R: Read + Seek> Salvage<R> {
    fn open(mut source: R, options: &RecoverOptions) -> Result<Self> {
        let length = source.seek(SeekFrom::End(0))?;
        let read = ReadOptions { digests: Digests::Both, ..options.read.clone() };
        source.seek(SeekFrom::Start(0))?;
        let declared = read_file_header(&mut source);
        let mut failure = None;
        // Without a valid header, the byte order is the one in which the types can be read.
        let orders = match &declared {
            Ok(order) => vec![*order],
            Err(_) => vec![ByteOrder::Little, ByteOrder::Big],
        };
        let mut types = None;
        for &order in &orders {
            source.seek(SeekFrom::Start(FILE_HEADER_BYTES as u64))?;
            let packed = read_type_extent(&mut source, order);
            match packed
                .and_then(|packed| unpack_types(&packed, &read).map(|library| (packed, library)))
            {
                Ok((packed, library)) => {
                    types = Some((order, Some(packed), library));
                    break;
                }
                Err(error) => failure = Some(error),
            }
        }
        let replacement = || Some((*declared.as_ref().ok()?, None, options.types.clone()?));
        let (order, type_extent, library) = match types.or_else(replacement) {
            Some(known) => known,
            None => return Err(declared.err().or(failure).expect("one of the two failed")),
        };
        let start = type_extent.as_ref().map_or(0, |packed| packed.bytes().len() as u64);
        Ok(Self {
            source,
            order,
            library,
            type_extent,
            options: read,
            length,
            offset: FILE_HEADER_BYTES as u64 + start,
            budget_bytes: length.saturating_mul(16).saturating_add(1 << 30),
        })
    }

    /// Reads and fully verifies what is at `offset`.
    fn examine(&mut self, offset: u64) -> Result<Found> {
        self.source.seek(SeekFrom::Start(offset))?;
        let bad = |error: Error, end| match error {
            Error::Io(error) => Err(Error::Io(error)),
            error => Ok(Found::Bad { reason: error.to_string(), end }),
        };
        let header = match read_next(&mut self.source, self.order, offset) {
            Ok(Next::Extent(header)) => header,
            Ok(Next::End) => return Ok(Found::End),
            Ok(Next::Tail(bytes)) => {
                return match Tail::parse(&bytes, self.order, offset) {
                    Ok(_) => Ok(Found::Tail),
                    Err(error) => bad(error, Some(offset + TAIL_BYTES as u64)),
                };
            }
            Err(error) => return bad(error, None),
        };
        let is_index = header.type_name == INDEX_TYPE.name();
        let number = self.library.number(&header.type_name);
        let extent_type = match number {
            Some(number) => &self.library.types()[number],
            None if is_index => &INDEX_TYPE,
            None => {
                return bad(Error::UnknownType { name: header.type_name }, None);
            }
        };
        let end = Some(offset + header.packed_bytes()).filter(|&end| end <= self.length);
        let limit = self.options.extent_bytes_limit;
        let packed = match read_parts(&mut self.source, header, self.order, offset, limit) {
            Ok(packed) => packed,
            Err(error) => return bad(error, end),
        };
        if let Err(error) = unpack(&packed, extent_type, &self.options, offset) {
            return bad(error, end);
        }
        Ok(match number {
            Some(number) => Found::Extent(Box::new(packed), number),
            None => Found::Index(packed.bytes().len() as u64),
        })
    }

    /// Continues at `end` if something valid is there. Returns whether it is.
    fn skip(&mut self, end: Option<u64>) -> Result<bool> {
        let Some(end) = end else { return Ok(false) };
        let sound = !matches!(self.examine(end)?, Found::Bad { .. });
        if sound {
            self.offset = end;
        }
        Ok(sound)
    }

    /// Searches the next valid extent from `from` on, and continues there, or at the tail if there
    /// is none.
    fn search(&mut self, from: u64) -> Result<()> {
        let mut names: HashSet<Vec<u8>> = self
            .library
            .types()
            .iter()
            .map(|extent_type| extent_type.name().as_bytes().to_vec())
            .collect();
        names.insert(INDEX_TYPE.name().as_bytes().to_vec());
        let mut window = vec![0; WINDOW_BYTES + HEADER_BYTES_MAX];
        let mut start = from;
        while start < self.length {
            self.source.seek(SeekFrom::Start(start))?;
            let filled = read_up_to(&mut self.source, &mut window)?;
            for at in 0..filled.min(WINDOW_BYTES) {
                let place = start + at as u64;
                let Some(cost) = self.candidate(&window[at..filled], place, &names) else {
                    continue;
                };
                self.budget_bytes = self.budget_bytes.saturating_sub(cost);
                if self.budget_bytes == 0 {
                    return self.give_up(from);
                }
                if !matches!(self.examine(place)?, Found::Bad { .. }) {
                    self.offset = place;
                    return Ok(());
                }
            }
            start += WINDOW_BYTES as u64;
        }
        self.give_up(from)
    }

    /// Continues at the tail if the file ends with one, or at the end of the file.
    fn give_up(&mut self, from: u64) -> Result<()> {
        let tail = self.length.saturating_sub(TAIL_BYTES as u64);
        let is_tail = tail >= from && matches!(self.examine(tail)?, Found::Tail);
        self.offset = if is_tail { tail } else { self.length };
        Ok(())
    }

    /// Whether an extent may begin with `bytes` at `offset`. If so, returns the bytes that the
    /// check takes, packed and unpacked.
    fn candidate(&self, bytes: &[u8], offset: u64, names: &HashSet<Vec<u8>>) -> Option<u64> {
        let (start, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if start[27] != 0 || start[26] == 0 || !names.contains(rest.get(..usize::from(start[26]))?)
        {
            return None;
        }
        let name_part = rest.get(..ExtentHeader::name_part_bytes(start))?;
        let header = ExtentHeader::parse(start, name_part, self.order, offset).ok()?;
        let packed_bytes = header.packed_bytes();
        if offset + packed_bytes > self.length {
            return None;
        }
        let record_bytes = self.library.get(&header.type_name).map_or(16, |own| own.record_bytes());
        let fixed_bytes = u64::from(header.record_count) * record_bytes as u64;
        let unpacked_bytes = fixed_bytes + u64::from(header.pool_bytes);
        Some(packed_bytes + unpacked_bytes.min(self.options.extent_bytes_limit))
    }
}
