//! Rewriting of files: with other compression, extent sizes or byte order, with only some types or
//! records, or several files into one.

use std::io::{Read, Write};
use std::sync::Arc;

use super::{Expression, select_types};
use crate::{Error, ExtentType, ReadOptions, Result, StreamReader, Writer, WriterOptions};

/// Options of a repack.
#[derive(Debug, Clone, Default)]
pub struct RepackOptions {
    /// Patterns of the types to keep; empty for all.
    pub types: Vec<String>,
    /// Only records for which this expression is true are kept.
    pub filter: Option<String>,
    /// How the new file is written.
    pub writer: WriterOptions,
    /// How the old ones are read.
    pub read: ReadOptions,
}

/// The numbers of a repack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepackReport {
    /// Records read.
    pub records_read: u64,
    /// Records written.
    pub records_written: u64,
    /// Bytes of the old files.
    pub read_bytes: u64,
    /// Bytes of the new file, without its index.
    pub written_bytes: u64,
}

/// Copies the records of all `sources`, one source after the other, into one new file.
///
/// Types keep their XML text byte for byte. Types with the same name must be the same in all
/// sources.
///
/// # Errors
/// [`Error::Schema`] if they are not. [`Error::Expression`]. Any reading or writing error.
pub fn repack<R: Read, W: Write>(
    sources: Vec<R>,
    out: W,
    options: &RepackOptions,
) -> Result<(W, RepackReport)> {
    let readers: Result<Vec<StreamReader<R>>> = sources
        .into_iter()
        .map(|source| StreamReader::open(source, options.read.clone()))
        .collect();
    let readers = readers?;
    let types = merge_types(&readers, options)?;
    let filter = options.filter.as_deref().map(Expression::parse).transpose()?;
    if let Some(filter) = &filter {
        filter.check_fields(&types.iter().collect::<Vec<_>>())?;
    }
    let filters: Vec<_> =
        types.iter().map(|own| filter.as_ref().map(|filter| filter.bind(own))).collect();
    let mut writer = Writer::new(out, types, options.writer.clone())?;
    let mut report = RepackReport::default();
    for mut reader in readers {
        let library = writer.library().clone();
        while let Some(extent) =
            reader.next_extent_where(|header| library.get(&header.type_name).is_some())?
        {
            let number = library
                .number(extent.extent_type().name())
                .expect("only types of the library are read");
            report.records_read += extent.record_count() as u64;
            for row in extent.rows() {
                if filters[number].as_ref().is_some_and(|filter| !filter.accepts(&row)) {
                    continue;
                }
                let mut copy = writer.row(number)?;
                for (field, value) in row.values().enumerate() {
                    copy.set_value(field, value)?;
                }
                copy.finish();
                report.records_written += 1;
            }
        }
        report.read_bytes += reader.offset();
    }
    writer.flush()?;
    report.written_bytes = writer.written_bytes();
    Ok((writer.finish()?, report))
}

/// Returns the wanted types of all sources, each once.
fn merge_types<R: Read>(
    readers: &[StreamReader<R>],
    options: &RepackOptions,
) -> Result<Vec<Arc<ExtentType>>> {
    let mut merged: Vec<Arc<ExtentType>> = Vec::new();
    for reader in readers {
        let selected = select_types(reader.library(), &options.types)?;
        for (extent_type, _) in
            reader.library().types().iter().zip(selected).filter(|(_, selected)| *selected)
        {
            match merged.iter().find(|known| known.name() == extent_type.name()) {
                None => merged.push(Arc::clone(extent_type)),
                Some(known) if known.xml() == extent_type.xml() => {}
                Some(_) => {
                    return Err(Error::Schema {
                        type_name: extent_type.name().to_owned(),
                        what: "not the same in all files".to_owned(),
                    });
                }
            }
        }
    }
    Ok(merged)
}
