//! Reads a file from front to back, without seeking.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::sync::Arc;

use crate::file::{FILE_HEADER_BYTES, TAIL_BYTES, Tail};
use crate::header::{ExtentHeader, PackedExtent};
use crate::order::ByteOrder;
use crate::read_options::ReadOptions;
use crate::schema::{ExtentType, INDEX_TYPE, TypeLibrary};
use crate::source::{
    Next, read_file_header, read_next, read_parts, read_type_extent, read_up_to, unpack_types,
};
use crate::unpack::unpack;
use crate::{Error, Extent, Result, digest};

/// An error of a file that affects none of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The checksum over all extents differs. Writers of 2006 to 2008 stored nothing useful there.
    Chain,
    /// The index does not list exactly the extents of the file.
    Index,
    /// There are bytes after the tail.
    TrailingBytes,
}

impl Warning {
    /// A sentence for users.
    pub fn text(self) -> &'static str {
        match self {
            Self::Chain => {
                "the checksum chained over all extents differs, as in files of old writers"
            }
            Self::Index => "the index does not list exactly the extents of the file",
            Self::TrailingBytes => "there are bytes after the tail",
        }
    }
}

/// Reads extents in file order.
///
/// It uses the memory of one extent. After an error in the contents of an extent, the next one can
/// still be read.
#[derive(Debug)]
pub struct StreamReader<R: Read> {
    source: R,
    options: ReadOptions,
    order: ByteOrder,
    library: TypeLibrary,
    /// The offset of the next extent, or of the tail.
    offset: u64,
    chain: u32,
    /// Hash over offset and type of all extents that were read.
    seen: DefaultHasher,
    /// The hash that the index should give.
    index_seen: Option<u64>,
    warnings: Vec<Warning>,
    finished: bool,
}

impl<R: Read> StreamReader<R> {
    /// Reads the file header and the types.
    ///
    /// # Errors
    /// Any reading error.
    pub fn open(mut source: R, options: ReadOptions) -> Result<Self> {
        let order = read_file_header(&mut source)?;
        let types = read_type_extent(&mut source, order)?;
        let library = unpack_types(&types, &options)?;
        let mut reader = Self {
            source,
            options,
            order,
            library,
            offset: FILE_HEADER_BYTES as u64,
            chain: 0,
            seen: DefaultHasher::new(),
            index_seen: None,
            warnings: Vec::new(),
            finished: false,
        };
        reader.advance(types.header());
        Ok(reader)
    }

    /// The byte order of the file.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// The types of the file.
    pub fn library(&self) -> &TypeLibrary {
        &self.library
    }

    /// The errors found so far. The list is complete when everything was read.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The offset up to which the file was read, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Updates the position and the checksum for an extent.
    fn advance(&mut self, header: &ExtentHeader) {
        hash_entry(&mut self.seen, self.offset, header.type_name.as_bytes());
        self.chain = digest::chain(self.chain, header.data_digest, header.packed_digest);
        self.offset += header.packed_bytes();
    }

    /// Reads the next extent, of any type. `None` after the last one.
    ///
    /// # Errors
    /// Any reading error; [`Error::Truncated`] if the file has no tail.
    pub fn next_extent(&mut self) -> Result<Option<Extent>> {
        self.next_extent_where(|_| true)
    }

    /// Reads the next extent whose header is wanted. Others are skipped without being unpacked or
    /// verified.
    ///
    /// # Errors
    /// Those of [`StreamReader::next_extent`].
    pub fn next_extent_where(
        &mut self,
        wanted: impl FnMut(&ExtentHeader) -> bool,
    ) -> Result<Option<Extent>> {
        match self.next_packed_where(wanted)? {
            Some((offset, packed)) => self.unpack(&packed, offset).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the next extent whose header is wanted, without unpacking it. Returns its offset, too.
    ///
    /// # Errors
    /// Those of [`StreamReader::next_extent`].
    pub fn next_packed_where(
        &mut self,
        mut wanted: impl FnMut(&ExtentHeader) -> bool,
    ) -> Result<Option<(u64, PackedExtent)>> {
        while !self.finished {
            let offset = self.offset;
            let header = match read_next(&mut self.source, self.order, offset)? {
                Next::Extent(header) => header,
                Next::Tail(tail) => {
                    self.finish(&tail)?;
                    break;
                }
                Next::End => {
                    return Err(Error::Truncated {
                        offset,
                        what: "the extents: the tail is missing",
                    });
                }
            };
            if header.type_name == INDEX_TYPE.name() {
                self.read_index(header)?;
                continue;
            }
            if self.index_seen.is_some() {
                return Err(Error::corrupt(offset, "an extent after the index"));
            }
            if self.library.get(&header.type_name).is_none() {
                return Err(Error::UnknownType { name: header.type_name });
            }
            if !wanted(&header) {
                let rest = header.packed_bytes() - header.header_bytes() as u64;
                let skipped = io::copy(&mut self.source.by_ref().take(rest), &mut io::sink())?;
                if skipped < rest {
                    let end = offset + header.header_bytes() as u64 + skipped;
                    return Err(Error::Truncated { offset: end, what: "an extent" });
                }
                self.advance(&header);
                continue;
            }
            let limit = self.options.extent_bytes_limit;
            let packed = read_parts(&mut self.source, header, self.order, offset, limit)?;
            self.advance(packed.header());
            return Ok(Some((offset, packed)));
        }
        Ok(None)
    }

    /// Unpacks an extent of this file from `offset`.
    ///
    /// # Errors
    /// Any reading error of its contents.
    pub fn unpack(&self, packed: &PackedExtent, offset: u64) -> Result<Extent> {
        let extent_type: &Arc<ExtentType> = self.library.require(&packed.header().type_name)?;
        unpack(packed, extent_type, &self.options, offset)
    }

    /// Reads the index extent, and compares it with the extents that were read.
    fn read_index(&mut self, header: ExtentHeader) -> Result<()> {
        let offset = self.offset;
        if self.index_seen.is_some() {
            return Err(Error::corrupt(offset, "a second index"));
        }
        let packed = read_parts(
            &mut self.source,
            header,
            self.order,
            offset,
            self.options.extent_bytes_limit,
        )?;
        self.advance(packed.header());
        let index = unpack(&packed, &INDEX_TYPE, &self.options, offset)?;
        let mut listed = DefaultHasher::new();
        for row in index.rows() {
            let entry_offset = row.value(0).as_i64().unwrap_or_default() as u64;
            hash_entry(&mut listed, entry_offset, row.value(1).as_bytes().unwrap_or_default());
        }
        if listed.finish() != self.seen.finish() {
            self.warnings.push(Warning::Index);
        }
        self.index_seen = Some(offset);
        Ok(())
    }

    /// Checks the tail.
    fn finish(&mut self, bytes: &[u8; TAIL_BYTES]) -> Result<()> {
        let tail = Tail::parse(bytes, self.order, self.offset)?;
        if self.index_seen != Some(tail.index_offset) {
            return Err(Error::corrupt(self.offset, "no index before the tail"));
        }
        if tail.chain != self.chain {
            self.warnings.push(Warning::Chain);
        }
        self.offset += TAIL_BYTES as u64;
        self.finished = true;
        if read_up_to(&mut self.source, &mut [0])? > 0 {
            self.warnings.push(Warning::TrailingBytes);
        }
        Ok(())
    }
}

/// Adds one extent to a hash over all of them.
fn hash_entry(hasher: &mut DefaultHasher, offset: u64, name: &[u8]) {
    hasher.write_u64(offset);
    hasher.write_usize(name.len());
    hasher.write(name);
}
