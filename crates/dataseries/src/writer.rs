//! Writing of a file as a stream of rows.

use std::io::Write;
use std::sync::Arc;

use crate::builder::{ExtentBuilder, RowBuilder};
use crate::header::PackedExtent;
use crate::order::ByteOrder;
use crate::schema::{ExtentType, TypeLibrary};
use crate::sink::FileSink;
use crate::{CompressionSet, Error, Result};

/// The largest target size of an extent. One more record still fits below the limit of readers.
const EXTENT_BYTES_MAX: usize = 64 << 20;

/// Options for writing files.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Byte order of the file.
    pub order: ByteOrder,
    /// The compression modes that are tried on each extent.
    pub compression: CompressionSet,
    /// Level of zlib and bzip2, 1 to 9.
    pub level: u8,
    /// The size of the rows at which an extent is written, in bytes, at most 64 MiB. Larger extents
    /// compress better. Smaller ones need less memory in readers.
    pub extent_bytes: usize,
    /// The approximate limit of memory for all waiting rows, in bytes. Beyond it, the largest
    /// extent is written early.
    pub memory_bytes: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            order: ByteOrder::Little,
            compression: CompressionSet::LZ4,
            level: 6,
            extent_bytes: 256 << 10,
            memory_bytes: 64 << 20,
        }
    }
}

/// Writes rows of several types to one stream, which need not be able to seek.
///
/// Extents are written as a whole when they are full. If the program dies, [`crate::recover()`]
/// makes a complete file of the extents that reached the disk. [`Writer::flush`] limits what is
/// missing. A writer dropped without [`Writer::finish`] leaves such a file, too.
#[derive(Debug)]
pub struct Writer<W: Write> {
    sink: FileSink<W>,
    library: TypeLibrary,
    builders: Vec<ExtentBuilder>,
    options: WriterOptions,
    /// Whether builders must free their memory, because it would exceed the limit if all were full.
    releases: bool,
    /// Bytes that wait in all builders except the one of the last row.
    pending_bytes: usize,
    /// The builder of the last row, and its size before that row.
    last: Option<(usize, usize)>,
}

impl<W: Write> Writer<W> {
    /// Begins a file for the given types. Others cannot be added later.
    ///
    /// # Errors
    /// [`Error::Schema`] if two types have the same name, [`Error::Io`] from the stream.
    pub fn new(out: W, types: Vec<Arc<ExtentType>>, mut options: WriterOptions) -> Result<Self> {
        let library = TypeLibrary::new(types)?;
        options.extent_bytes = options.extent_bytes.min(EXTENT_BYTES_MAX);
        let sink = FileSink::create(out, options.order, &library, options.compression)?;
        let builders = library
            .types()
            .iter()
            .map(|extent_type| ExtentBuilder::new(Arc::clone(extent_type), options.order));
        let builders = builders.collect();
        let releases =
            options.extent_bytes.saturating_mul(library.types().len()) > options.memory_bytes;
        Ok(Self { sink, library, builders, releases, options, pending_bytes: 0, last: None })
    }

    /// The types of the file. [`Writer::row`] takes their positions.
    pub fn library(&self) -> &TypeLibrary {
        &self.library
    }

    /// Bytes written to the stream so far.
    pub fn written_bytes(&self) -> u64 {
        self.sink.offset()
    }

    /// Begins a row of type number `type_number`. First writes extents that are full.
    ///
    /// # Errors
    /// [`Error::Io`] from the stream, [`Error::Poisoned`] after one.
    ///
    /// # Panics
    /// If there is no such type.
    #[inline]
    pub fn row(&mut self, type_number: usize) -> Result<RowBuilder<'_>> {
        self.settle()?;
        self.last = Some((type_number, self.builders[type_number].bytes()));
        self.builders[type_number].row()
    }

    /// Adds the size of the last row, and writes a full extent.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        let Some((number, bytes_before)) = self.last.take() else {
            return Ok(());
        };
        let bytes = self.builders[number].bytes();
        self.pending_bytes += bytes - bytes_before;
        if bytes >= self.options.extent_bytes {
            self.write_builder(number)?;
        }
        while self.pending_bytes > self.options.memory_bytes {
            let largest =
                (0..self.builders.len()).max_by_key(|&number| self.builders[number].bytes());
            self.write_builder(largest.expect("bytes are pending, so there is a builder"))?;
        }
        Ok(())
    }

    /// Writes the extent of one builder, if it has rows.
    fn write_builder(&mut self, number: usize) -> Result<()> {
        let builder = &mut self.builders[number];
        self.pending_bytes -= builder.bytes();
        if builder.record_count() == 0 {
            return Ok(());
        }
        let packed = builder.pack(self.options.compression, self.options.level)?;
        if self.releases {
            builder.release();
        }
        self.sink.append(&packed, number)
    }

    /// Appends an extent that was packed elsewhere, for instance on another thread.
    ///
    /// # Errors
    /// [`Error::UnknownType`] if this file does not have its type, [`Error::Request`] if its byte
    /// order differs, [`Error::Io`] from the stream.
    pub fn append(&mut self, packed: &PackedExtent) -> Result<()> {
        let name = &packed.header().type_name;
        let number =
            self.library.number(name).ok_or_else(|| Error::UnknownType { name: name.clone() })?;
        if packed.order() != self.options.order {
            return Err(Error::Request(
                "an extent of the other byte order cannot be appended".to_owned(),
            ));
        }
        self.sink.append(packed, number)
    }

    /// Writes all waiting rows as extents of any size, and flushes the stream.
    ///
    /// # Errors
    /// [`Error::Io`] from the stream.
    pub fn flush(&mut self) -> Result<()> {
        self.settle()?;
        for number in 0..self.builders.len() {
            self.write_builder(number)?;
        }
        self.sink.flush()
    }

    /// Writes waiting rows, the index and the tail. Returns the stream.
    ///
    /// # Errors
    /// [`Error::Io`] from the stream. The file can then be recovered.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        self.sink.finish(self.options.compression)
    }
}
