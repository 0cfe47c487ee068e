//! Appends packed extents to a stream, and collects their offsets for the index and the tail.

use std::io::Write;

use crate::builder::ExtentBuilder;
use crate::file::{Tail, encode_file_header};
use crate::header::PackedExtent;
use crate::order::ByteOrder;
use crate::schema::{INDEX_TYPE, TypeLibrary, XML_TYPE};
use crate::{CompressionSet, Error, Result, digest};

/// The most extents of one file. With more, the index would be too large for some readers.
const EXTENTS_MAX: usize = 8 << 20;

/// A file that is being written. The appended extents can be recovered even if nothing more is
/// written.
#[derive(Debug)]
pub(crate) struct FileSink<W: Write> {
    out: W,
    order: ByteOrder,
    /// The offset of the next extent.
    offset: u64,
    /// Names of all types, the built-in ones first.
    names: Vec<String>,
    /// Offset and name of each extent.
    index: Vec<(u64, u32)>,
    chain: u32,
    /// Whether a write failed, possibly halfway.
    failed: bool,
}

impl<W: Write> FileSink<W> {
    /// Writes the file header and a type extent for `library`.
    pub(crate) fn create(
        out: W,
        order: ByteOrder,
        library: &TypeLibrary,
        compression: CompressionSet,
    ) -> Result<Self> {
        let mut builder = ExtentBuilder::new(std::sync::Arc::clone(&XML_TYPE), order);
        let xml_field = XML_TYPE.bind::<[u8]>("xmltype")?;
        for extent_type in library.types() {
            let mut row = builder.row()?;
            row.set(&xml_field, extent_type.xml().as_bytes())?;
            row.finish();
        }
        let packed = builder.pack(compression, 6)?;
        Self::create_with(out, order, library, &packed)
    }

    /// Writes the file header and the given type extent.
    pub(crate) fn create_with(
        out: W,
        order: ByteOrder,
        library: &TypeLibrary,
        type_extent: &PackedExtent,
    ) -> Result<Self> {
        let mut names = vec![XML_TYPE.name().to_owned(), INDEX_TYPE.name().to_owned()];
        names.extend(library.types().iter().map(|extent_type| extent_type.name().to_owned()));
        let mut sink =
            Self { out, order, offset: 0, names, index: Vec::new(), chain: 0, failed: false };
        sink.write(&encode_file_header(order))?;
        sink.append_numbered(type_extent, 0)?;
        Ok(sink)
    }

    /// Bytes written so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends an extent of the library's type `number`.
    pub(crate) fn append(&mut self, packed: &PackedExtent, number: usize) -> Result<()> {
        self.append_numbered(packed, number + 2)
    }

    fn append_numbered(&mut self, packed: &PackedExtent, name: usize) -> Result<()> {
        assert_eq!(packed.order(), self.order, "all extents of a file have its byte order");
        assert_eq!(
            packed.header().type_name,
            self.names[name],
            "an extent is appended as what it is"
        );
        if self.index.len() == EXTENTS_MAX {
            return Err(Error::Request(format!(
                "a file cannot have more than {EXTENTS_MAX} extents: make them larger"
            )));
        }
        self.index.push((self.offset, name as u32));
        let header = packed.header();
        self.chain = digest::chain(self.chain, header.data_digest, header.packed_digest);
        self.write(packed.bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.failed {
            return Err(Error::Poisoned);
        }
        self.failed = true;
        self.out.write_all(bytes)?;
        self.failed = false;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Flushes the underlying stream.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }

    /// Writes the index extent and the tail. Returns the stream.
    pub(crate) fn finish(mut self, compression: CompressionSet) -> Result<W> {
        let index_offset = self.offset;
        // The index lists itself, as the last extent.
        self.index.push((index_offset, 1));
        let mut builder = ExtentBuilder::new(std::sync::Arc::clone(&INDEX_TYPE), self.order);
        let offset_field = INDEX_TYPE.bind::<i64>("offset")?;
        let mut name_field = INDEX_TYPE.bind::<[u8]>("extenttype")?;
        // The index stores each name once. It may do so although its type does not ask for it.
        name_field.place.unique = true;
        for &(offset, name) in &self.index {
            let mut row = builder.row()?;
            row.set(&offset_field, offset as i64)?;
            row.set(&name_field, self.names[name as usize].as_bytes())?;
            row.finish();
        }
        let packed = builder.pack(compression, 6)?;
        let header = packed.header();
        let chain = digest::chain(self.chain, header.data_digest, header.packed_digest);
        self.write(packed.bytes())?;
        let index_bytes = packed.bytes().len() as u32;
        self.write(&Tail { index_bytes, chain, index_offset }.encode(self.order))?;
        self.out.flush()?;
        Ok(self.out)
    }
}
