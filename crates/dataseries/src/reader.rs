//! Reading of extents in any order, through the index.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::file::{FILE_HEADER_BYTES, TAIL_BYTES, Tail};
use crate::header::PackedExtent;
use crate::order::ByteOrder;
use crate::schema::{ExtentType, INDEX_TYPE, TypeLibrary, XML_TYPE};
use crate::source::{
    Next, read_file_header, read_next, read_parts_into, read_type_extent, read_up_to, unpack_types,
};
use crate::unpack::{unpack, unpack_into, unpack_without_strings};
use crate::{Error, Extent, ExtentBuffers, ReadOptions, Result};

/// The largest memory for packed bytes that is kept for the next extent, in bytes.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// The position and the type of an extent.
#[derive(Debug, Clone)]
pub struct IndexEntry {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Type of its records.
    pub extent_type: Arc<ExtentType>,
}

/// Reads a file from a source that can seek: any extent, at any time.
#[derive(Debug)]
pub struct Reader<R: Read + Seek> {
    source: R,
    options: ReadOptions,
    order: ByteOrder,
    library: TypeLibrary,
    entries: Vec<IndexEntry>,
    /// Memory for the packed bytes of the next extent.
    spare: Vec<u8>,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads the header, the types, the tail and the index.
    ///
    /// # Errors
    /// Any reading error; [`Error::Corrupt`] at the end of the file if it has no tail.
    pub fn open(mut source: R, options: ReadOptions) -> Result<Self> {
        source.seek(SeekFrom::Start(0))?;
        let order = read_file_header(&mut source)?;
        let types = read_type_extent(&mut source, order)?;
        let library = unpack_types(&types, &options)?;
        let end = source.seek(SeekFrom::End(0))?;
        let tail_offset =
            end.checked_sub(TAIL_BYTES as u64).filter(|&offset| offset > FILE_HEADER_BYTES as u64);
        let tail_offset = tail_offset.ok_or(Error::Truncated { offset: end, what: "the tail" })?;
        source.seek(SeekFrom::Start(tail_offset))?;
        let mut bytes = [0; TAIL_BYTES];
        read_up_to(&mut source, &mut bytes)?;
        let tail = Tail::parse(&bytes, order, tail_offset)?;
        let mut reader =
            Self { source, options, order, library, entries: Vec::new(), spare: Vec::new() };
        let packed = reader.packed_at(tail.index_offset)?;
        if packed.header().type_name != INDEX_TYPE.name() {
            return Err(Error::corrupt(tail.index_offset, "the tail does not point to an index"));
        }
        let index = unpack(&packed, &INDEX_TYPE, &reader.options, tail.index_offset)?;
        reader.entries = reader.parse_index(&index)?;
        Ok(reader)
    }

    /// Opens a file without its index: follows the headers from extent to extent. The error says
    /// why that ended before the tail.
    ///
    /// # Errors
    /// Any reading error about the file header and the types.
    pub fn scan(mut source: R, options: ReadOptions) -> Result<(Self, Option<Error>)> {
        source.seek(SeekFrom::Start(0))?;
        let order = read_file_header(&mut source)?;
        let types = read_type_extent(&mut source, order)?;
        let library = unpack_types(&types, &options)?;
        let end = source.seek(SeekFrom::End(0))?;
        let mut reader =
            Self { source, options, order, library, entries: Vec::new(), spare: Vec::new() };
        let mut offset = FILE_HEADER_BYTES as u64 + types.header().packed_bytes();
        let stopped = loop {
            match reader.step(offset, end) {
                Ok(Some(next)) => offset = next,
                Ok(None) => break None,
                Err(Error::Io(error)) => return Err(Error::Io(error)),
                Err(error) => break Some(error),
            }
        };
        Ok((reader, stopped))
    }

    /// Adds the extent at `offset` to the entries. Returns the offset of the next one, if there is
    /// one.
    fn step(&mut self, offset: u64, end: u64) -> Result<Option<u64>> {
        self.source.seek(SeekFrom::Start(offset))?;
        let header = match read_next(&mut self.source, self.order, offset)? {
            Next::Extent(header) => header,
            Next::Tail(_) => return Ok(None),
            Next::End => {
                return Err(Error::Truncated { offset, what: "the extents: the tail is missing" });
            }
        };
        let next = offset + header.packed_bytes();
        if next > end {
            return Err(Error::Truncated { offset: end, what: "an extent" });
        }
        if header.type_name != INDEX_TYPE.name() {
            let extent_type = Arc::clone(self.library.require(&header.type_name)?);
            self.entries.push(IndexEntry { offset, extent_type });
        }
        Ok(Some(next))
    }

    /// Returns the extents that the index lists, except those of the format itself.
    fn parse_index(&self, index: &Extent) -> Result<Vec<IndexEntry>> {
        let mut entries = Vec::new();
        let mut previous = 0;
        for row in index.rows() {
            let offset = row.value(0).as_i64().unwrap_or_default() as u64;
            let name = row.value(1).as_bytes().unwrap_or_default();
            if offset < FILE_HEADER_BYTES as u64 || offset <= previous || offset > index.offset() {
                return Err(Error::corrupt(index.offset(), "the offsets in the index do not rise"));
            }
            previous = offset;
            if name == XML_TYPE.name().as_bytes() || name == INDEX_TYPE.name().as_bytes() {
                continue;
            }
            let name = String::from_utf8_lossy(name);
            entries
                .push(IndexEntry { offset, extent_type: Arc::clone(self.library.require(&name)?) });
        }
        Ok(entries)
    }

    /// The byte order of the file.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// The types of the file.
    pub fn library(&self) -> &TypeLibrary {
        &self.library
    }

    /// All extents, in file order.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Returns the source after reading.
    pub fn into_inner(self) -> R {
        self.source
    }

    /// Reads one of the extents that [`Reader::entries`] lists.
    ///
    /// # Errors
    /// Any reading error; [`Error::Corrupt`] if what is there has another type than the index says.
    pub fn read(&mut self, entry: &IndexEntry) -> Result<Extent> {
        self.read_into(entry, ExtentBuffers::default())
    }

    /// Like [`Reader::read`], but uses the memory of an extent that is no longer needed.
    ///
    /// # Errors
    /// Those of [`Reader::read`].
    pub fn read_into(&mut self, entry: &IndexEntry, buffers: ExtentBuffers) -> Result<Extent> {
        let packed = self.packed_for(entry)?;
        let extent = unpack_into(&packed, &entry.extent_type, &self.options, entry.offset, buffers);
        self.keep(packed);
        extent
    }

    /// Like [`Reader::read`], but leaves every variable32 field empty, which saves the time of
    /// expanding the strings.
    ///
    /// # Errors
    /// Those of [`Reader::read`]. Damage in the strings is only found by the digest of the packed
    /// bytes.
    pub fn read_without_strings(&mut self, entry: &IndexEntry) -> Result<Extent> {
        let packed = self.packed_for(entry)?;
        let extent =
            unpack_without_strings(&packed, &entry.extent_type, &self.options, entry.offset);
        self.keep(packed);
        extent
    }

    /// Keeps the memory of packed bytes for the next extent.
    fn keep(&mut self, packed: PackedExtent) {
        let bytes = packed.into_bytes();
        if bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare = bytes;
        }
    }

    fn packed_for(&mut self, entry: &IndexEntry) -> Result<PackedExtent> {
        let packed = self.packed_at(entry.offset)?;
        match packed.header().type_name == entry.extent_type.name() {
            true => Ok(packed),
            false => Err(Error::corrupt(entry.offset, "another type than the index says")),
        }
    }

    /// Reads the packed extent at `offset`.
    fn packed_at(&mut self, offset: u64) -> Result<PackedExtent> {
        self.source.seek(SeekFrom::Start(offset))?;
        match read_next(&mut self.source, self.order, offset)? {
            Next::Extent(header) => {
                let spare = std::mem::take(&mut self.spare);
                read_parts_into(
                    &mut self.source,
                    header,
                    self.order,
                    (offset, self.options.extent_bytes_limit),
                    spare,
                )
            }
            Next::Tail(_) => Err(Error::corrupt(offset, "the index points to a tail")),
            Next::End => Err(Error::Truncated { offset, what: "an extent that the index lists" }),
        }
    }
}
