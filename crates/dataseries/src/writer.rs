//! Writes a file as a stream of rows.

use std::io::Write;
use std::sync::Arc;

use crate::builder::{ExtentBuilder, RowBuilder};
use crate::header::PackedExtent;
use crate::order::ByteOrder;
use crate::schema::{ExtentType, TypeLibrary};
use crate::sink::FileSink;
use crate::{CompressionSet, Error, Result};

/// The largest wanted size of an extent, so that one more record still fits in what readers accept.
const EXTENT_BYTES_MAX: usize = 64 << 20;

/// How a file is written.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Compression modes to try on each extent.
    pub compression: CompressionSet,
    /// Level of zlib and bzip2, 1 to 9.
    pub level: u8,
    /// An extent is written when its rows have so many bytes. Larger compresses better, smaller
    /// needs less memory of readers. At most 64 MiB.
    pub extent_bytes: usize,
    /// All rows waiting together take at most about so many bytes: the largest extent is written
    /// early if need be.
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

/// Writes rows of several types to one stream, which need not seek.
///
/// Extents are written whole as they fill. If the program dies, [`crate::recover()`] makes a
/// complete file of those that reached the disk; [`Writer::flush`] bounds what would be missing. A
/// writer dropped without [`Writer::finish`] leaves such a file too.
#[derive(Debug)]
pub struct Writer<W: Write> {
    sink: FileSink<W>,
    library: TypeLibrary,
    builders: Vec<ExtentBuilder>,
    options: WriterOptions,
    /// Whether builders must not keep their memory: all of them full would be more than allowed.
    releases: bool,
    /// Bytes waiting in all builders but the one that handed out the last row.
    pending_bytes: usize,
    /// The builder that handed out the last row, and its bytes then.
    last: Option<(usize, usize)>,
}

impl<W: Write> Writer<W> {
    /// Begins a file that can hold the given types; others cannot be added later.
    ///
    /// # Errors
    /// [`Error::Schema`] if two types have one name, [`Error::Io`] from the stream.
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

    /// The types of the file. Their positions are what [`Writer::row`] takes.
    pub fn library(&self) -> &TypeLibrary {
        &self.library
    }

    /// Bytes written to the stream so far.
    pub fn written_bytes(&self) -> u64 {
        self.sink.offset()
    }

    /// Begins a row of type number `type_number`, first writing out extents that are full.
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

    /// Accounts for the last row and writes what is full.
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

    /// Appends an extent packed elsewhere, on another thread perhaps.
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

    /// Writes all waiting rows as extents, however small, and flushes the stream.
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

    /// Writes waiting rows, the index and the tail; returns the stream.
    ///
    /// # Errors
    /// [`Error::Io`] from the stream. The file can then be recovered.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        self.sink.finish(self.options.compression)
    }
}
