//! Writes traces.

use std::io::Write;
use std::sync::Arc;

use retake_dataseries::{
    ByteOrder, CompressionSet, ExtentBuilder, ExtentType, Value, Writer, WriterOptions,
};

use crate::encode::{self, CallRows, Rows};
use crate::error::{Result, TraceError};
use crate::packer::Packer;
use crate::processes::Processes;
use crate::schema::{SCHEMA, other};
use crate::{ProcessStart, TraceRecord};
use retake_model::table::number;

/// How a trace is written.
#[derive(Debug, Clone)]
pub struct TraceWriterOptions {
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Compression modes to try on each extent.
    pub compression: CompressionSet,
    /// Level of zlib and bzip2, 1 to 9.
    pub level: u8,
    /// The size of rows, in bytes, at which an extent is written. A reader needs memory for one
    /// extent of each kind of call at a time.
    pub extent_bytes: usize,
    /// The size of all waiting rows together, in bytes, that is not exceeded by much.
    pub memory_bytes: usize,
    /// The number of bytes after which everything is written. It bounds what a crash can cost.
    pub flush_bytes: usize,
    /// The name of the program that makes the trace, for people.
    pub producer: String,
}

impl Default for TraceWriterOptions {
    fn default() -> Self {
        Self {
            order: ByteOrder::Little,
            compression: CompressionSet::LZ4,
            level: 6,
            extent_bytes: 512 << 10,
            memory_bytes: 64 << 20,
            flush_bytes: 64 << 20,
            producer: concat!("retake ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Writes records to a DataSeries file. The stream need not seek.
///
/// A separate thread packs and writes extents as they fill. If the program dies, or drops the
/// writer without [`TraceWriter::finish`], [`crate::TraceReader`] reads the file as far as it goes.
/// [`TraceWriter::flush`] bounds what is missing.
#[derive(Debug)]
pub struct TraceWriter<W: Write + Send + 'static> {
    builders: Builders,
    packer: Packer<W>,
    options: TraceWriterOptions,
    rows: CallRows,
    processes: Processes,
    records: u64,
    last_id: Option<u64>,
    /// The bytes added since everything was last written.
    unflushed_bytes: usize,
    has_failed: bool,
}

/// The waiting rows, by type.
#[derive(Debug)]
struct Builders {
    builders: Vec<ExtentBuilder>,
    types: Vec<Arc<ExtentType>>,
    order: ByteOrder,
    /// The types whose builders got rows since the last look.
    touched: Vec<usize>,
    /// The bytes in each builder at the last look.
    sizes: Vec<usize>,
    total_bytes: usize,
    /// Empty builders for reuse.
    spare: Vec<Option<ExtentBuilder>>,
}

impl Rows for Builders {
    fn builder(&mut self, type_number: usize) -> &mut ExtentBuilder {
        if self.touched.last() != Some(&type_number) {
            self.touched.push(type_number);
        }
        &mut self.builders[type_number]
    }
}

impl Builders {
    fn new(types: Vec<Arc<ExtentType>>, order: ByteOrder) -> Self {
        let builders = types
            .iter()
            .map(|extent_type| ExtentBuilder::new(Arc::clone(extent_type), order))
            .collect();
        let spare = types.iter().map(|_| None).collect();
        Self {
            builders,
            order,
            touched: Vec::new(),
            sizes: vec![0; types.len()],
            total_bytes: 0,
            spare,
            types,
        }
    }

    /// Takes the rows of one type. `None` if there are none.
    fn take(&mut self, number: usize) -> Option<ExtentBuilder> {
        if self.builders[number].record_count() == 0 {
            return None;
        }
        self.total_bytes -= self.sizes[number];
        self.sizes[number] = 0;
        let fresh = self.spare[number].take();
        let fresh = fresh
            .unwrap_or_else(|| ExtentBuilder::new(Arc::clone(&self.types[number]), self.order));
        Some(std::mem::replace(&mut self.builders[number], fresh))
    }
}

impl<W: Write + Send + 'static> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// From the stream.
    pub fn new(out: W, options: TraceWriterOptions) -> Result<Self> {
        let types = SCHEMA.types();
        let writer_options = WriterOptions {
            order: options.order,
            compression: options.compression,
            level: options.level,
            ..WriterOptions::default()
        };
        let writer = Writer::new(out, types.clone(), writer_options)?;
        let mut this = Self {
            builders: Builders::new(types, options.order),
            packer: Packer::start(writer, options.compression, options.level)?,
            rows: CallRows::default(),
            processes: Processes::default(),
            records: 0,
            last_id: None,
            unflushed_bytes: 0,
            has_failed: false,
            options,
        };
        encode::write_header(&mut this.builders, &this.options.producer)?;
        this.flush()?;
        Ok(this)
    }

    /// Adds a record.
    ///
    /// At most 64 MiB of one buffer are kept, and 128 MiB of one call. The record then says that
    /// data are missing, as in all such cases.
    ///
    /// # Errors
    /// [`TraceError::Order`] if the id is not larger than all before. After an error of the stream
    /// nothing can be added.
    pub fn write(&mut self, record: &TraceRecord) -> Result<()> {
        if self.has_failed {
            return Err(TraceError::Poisoned);
        }
        if let Some((id, last)) = record.id().zip(self.last_id)
            && id <= last
        {
            return Err(TraceError::Order { id, last });
        }
        self.has_failed = true;
        self.add(record)?;
        self.settle()?;
        self.has_failed = false;
        Ok(())
    }

    fn add(&mut self, record: &TraceRecord) -> Result<()> {
        match record {
            TraceRecord::Call(call) => {
                self.rows.write(&mut self.builders, call, &self.processes)?;
                self.processes.update(call);
            }
            TraceRecord::ProcessStart(start) => {
                if self.records == 0 {
                    self.write_first_umask(start)?;
                }
                encode::write_start(&mut self.builders, start)?;
                self.processes.start(start);
            }
            TraceRecord::MappedPages(pages) => encode::write_mapped(&mut self.builders, pages)?,
            TraceRecord::Incomplete(reason) => {
                encode::write_incomplete(&mut self.builders, self.last_id, reason)?
            }
        }
        if let Some(id) = record.id() {
            self.last_id = Some(id);
            self.records += 1;
        }
        Ok(())
    }

    /// Writes a record of `umask` with id 0, which stands for no call. RE-ANIMATOR's replayer takes
    /// the main thread and the umask from it.
    fn write_first_umask(&mut self, start: &ProcessStart) -> Result<()> {
        let position = SCHEMA.position(UMASK);
        let extent_type = &SCHEMA.calls[position].extent_type;
        let mut row = self.builders.builder(position).row()?;
        for (name, value) in [
            ("unique_id", Value::Int64(0)),
            ("executing_pid", Value::Int32(start.process as i32)),
            ("executing_tid", Value::Int32(start.thread as i32)),
            ("time_called", Value::Int64(start.time_ns as i64)),
            ("time_returned", Value::Int64(start.time_ns as i64)),
            ("return_value", Value::Int64(i64::from(start.umask))),
            ("errno_number", Value::Int32(0)),
            ("mode_value", Value::Int32(start.umask as i32)),
        ] {
            row.set_value(extent_type.require_field(name)?, value)?;
        }
        row.finish();
        Ok(())
    }

    /// Accounts for new rows and hands full builders over.
    fn settle(&mut self) -> Result<()> {
        while let Some(number) = self.builders.touched.pop() {
            let bytes = self.builders.builders[number].bytes();
            let added = bytes - self.builders.sizes[number];
            self.builders.sizes[number] = bytes;
            self.builders.total_bytes += added;
            self.unflushed_bytes += added;
            if bytes >= self.options.extent_bytes {
                self.pack(number)?;
            }
        }
        while self.builders.total_bytes > self.options.memory_bytes {
            let sizes = self.builders.sizes.iter().enumerate();
            let largest = sizes.max_by_key(|(_, bytes)| **bytes).map(|(number, _)| number);
            self.pack(largest.expect("there are types"))?;
        }
        if self.unflushed_bytes >= self.options.flush_bytes {
            self.pack_all()?;
        }
        Ok(())
    }

    fn pack(&mut self, number: usize) -> Result<()> {
        while let Some((number, empty)) = self.packer.take_empty() {
            self.builders.spare[number] = Some(empty);
        }
        match self.builders.take(number) {
            Some(rows) => self.packer.pack(number, rows),
            None => Ok(()),
        }
    }

    fn pack_all(&mut self) -> Result<()> {
        self.unflushed_bytes = 0;
        (0..self.builders.builders.len()).try_for_each(|number| self.pack(number))
    }

    /// Writes everything added so far, and waits until it is with the operating system.
    ///
    /// # Errors
    /// From the stream.
    pub fn flush(&mut self) -> Result<()> {
        self.settle()?;
        self.pack_all()?;
        self.packer.flush()
    }

    /// Returns how many records with an id were added.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Ends the trace. Returns the stream.
    ///
    /// # Errors
    /// From the stream. The part that was written can still be read.
    pub fn finish(mut self) -> Result<W> {
        if self.has_failed {
            return Err(TraceError::Poisoned);
        }
        self.settle()?;
        self.pack_all()?;
        // The end is in an extent of its own, the last one.
        encode::write_end(&mut self.builders, self.records, self.last_id)?;
        self.pack(SCHEMA.plain_position(other::END))?;
        self.builders.touched.clear();
        Ok(self.packer.stop()?.finish()?)
    }
}

impl<W: Write + Send + 'static> Drop for TraceWriter<W> {
    /// Writes everything added so far, so that an abandoned trace can be read as far as it goes.
    fn drop(&mut self) {
        if !self.has_failed {
            // Errors have no receiver any more. After `finish` nothing is left to write.
            let _ = self.pack_all();
        }
    }
}

/// System call number of `umask`.
const UMASK: u32 = number::UMASK as u32;
