//! Converts DataSeries to Parquet.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use retake_dataseries::{ExtentType, ReadOptions, Row, StreamReader, TypeLibrary, Value};

use crate::column::Column;
use crate::error::Result;
use crate::plan::Plan;

/// Options for an export.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Patterns of the types to export, as for [`TypeLibrary::matching`]; empty for all.
    pub types: Vec<String>,
    /// The names of fields whose bytes are text. They become strings, without the NUL at the end.
    pub text_fields: Vec<String>,
    /// The level of Zstandard, 1 to 22.
    pub level: i32,
    /// The approximate bytes of rows that are collected before they are written.
    pub group_bytes: usize,
    /// Options for reading the file.
    pub read: ReadOptions,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            types: Vec::new(),
            text_fields: Vec::new(),
            level: 3,
            group_bytes: 32 << 20,
            read: ReadOptions::default(),
        }
    }
}

/// A new Parquet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// Its path.
    pub path: PathBuf,
    /// The number of its rows.
    pub records: u64,
}

/// A Parquet file being written.
struct Table<W: Write + Send> {
    plan: Plan,
    columns: Vec<Column>,
    writer: SerializedFileWriter<W>,
    /// The bytes of rows that are not written yet.
    bytes: usize,
    records: u64,
}

impl<W: Write + Send> Table<W> {
    fn new(plan: Plan, out: W, options: &ExportOptions) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(options.level)?))
            .set_created_by("retake".to_owned())
            .set_key_value_metadata(Some(plan.metadata()))
            .build();
        let writer = SerializedFileWriter::new(out, plan.schema()?, Arc::new(properties))?;
        let columns = plan.columns.iter().map(Column::new).collect();
        Ok(Self { plan, columns, writer, bytes: 0, records: 0 })
    }

    /// Adds a row of the plan's type `number`. Returns the bytes that it takes.
    fn push(&mut self, number: usize, row: &Row<'_>) -> usize {
        let mut values = vec![Value::Null; if self.plan.is_wide { self.columns.len() } else { 0 }];
        let mut bytes = 0;
        if self.plan.is_wide {
            values[0] = Value::Bytes(row.extent_type().name().as_bytes());
            for (place, value) in self.plan.places[number].iter().zip(row.values()) {
                values[*place] = value;
            }
            bytes += self
                .columns
                .iter_mut()
                .zip(values)
                .map(|(column, value)| column.push(value))
                .sum::<usize>();
        } else {
            bytes += self
                .columns
                .iter_mut()
                .zip(row.values())
                .map(|(column, value)| column.push(value))
                .sum::<usize>();
        }
        self.bytes += bytes;
        self.records += 1;
        bytes
    }

    /// Writes the collected rows.
    fn write_group(&mut self) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let mut writer =
                group.next_column()?.expect("the schema has as many columns as the plan");
            column.write(&mut writer)?;
            writer.close()?;
        }
        group.close()?;
        self.bytes = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<W> {
        self.write_group()?;
        Ok(self.writer.into_inner()?)
    }
}

/// The names of the types to export.
fn is_selected(library: &TypeLibrary, options: &ExportOptions) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for pattern in &options.types {
        let found = library.matching(pattern);
        if found.is_empty() {
            return Err(retake_dataseries::Error::UnknownType { name: pattern.clone() }.into());
        }
        names.extend(found.into_iter().map(|own| own.name().to_owned()));
    }
    if options.types.is_empty() {
        names.extend(library.types().iter().map(|own| own.name().to_owned()));
    }
    Ok(names)
}

/// The name of the file for a type.
fn file_name(extent_type: &ExtentType) -> String {
    let name = extent_type.name().replace("::", ".");
    let plain = |character: char| {
        if character.is_alphanumeric() || "._- ".contains(character) { character } else { '_' }
    };
    // The path must not lead out of the folder.
    let name: String = name.trim_start_matches('.').chars().map(plain).collect();
    format!("{name}.parquet")
}

/// Makes a file for each type that has records. The folder must exist.
///
/// # Errors
/// Any error of reading, writing or creating files.
pub fn export_types(
    source: impl Read,
    folder: &Path,
    options: &ExportOptions,
) -> Result<Vec<ExportedFile>> {
    let mut reader = StreamReader::open(source, options.read.clone())?;
    let selected = is_selected(reader.library(), options)?;
    let mut tables: Vec<(PathBuf, Table<BufWriter<std::fs::File>>)> = Vec::new();
    let mut waiting = 0;
    while let Some(extent) =
        reader.next_extent_where(|header| selected.contains(&header.type_name))?
    {
        let known = tables
            .iter()
            .position(|(_, table)| table.plan.types[0].name() == extent.extent_type().name());
        let number = match known {
            Some(number) => number,
            None => {
                let path = folder.join(file_name(extent.extent_type()));
                let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
                let plan = Plan::of_type(extent.extent_type(), &options.text_fields);
                tables.push((path, Table::new(plan, BufWriter::new(file), options)?));
                tables.len() - 1
            }
        };
        for row in extent.rows() {
            waiting += tables[number].1.push(0, &row);
            if waiting > options.group_bytes {
                let largest = tables.iter_mut().max_by_key(|(_, table)| table.bytes);
                let (_, table) = largest.expect("there is one with rows");
                waiting -= table.bytes;
                table.write_group()?;
            }
        }
    }
    let mut made = Vec::with_capacity(tables.len());
    for (path, table) in tables {
        made.push(ExportedFile { path, records: table.records });
        table.finish()?.flush()?;
    }
    made.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(made)
}

/// Writes all records to one file. Returns the stream and the number of rows.
///
/// # Errors
/// Any error of reading or writing.
pub fn export_wide<R: Read + Seek, W: Write + Send>(
    mut source: R,
    out: W,
    options: &ExportOptions,
) -> Result<(W, u64)> {
    // A first pass finds the types that have records. Only these get columns.
    let mut used = BTreeSet::new();
    let mut reader = StreamReader::open(&mut source, options.read.clone())?;
    let selected = is_selected(reader.library(), options)?;
    let none = reader.next_extent_where(|header| {
        used.insert(header.type_name.clone());
        false
    })?;
    assert!(none.is_none(), "no extent was wanted");
    source.seek(SeekFrom::Start(0))?;
    let mut reader = StreamReader::open(source, options.read.clone())?;
    let is_wanted = |name: &str| used.contains(name) && selected.contains(name);
    let types: Vec<Arc<ExtentType>> = reader
        .library()
        .types()
        .iter()
        .filter(|own| is_wanted(own.name()))
        .map(Arc::clone)
        .collect();
    let mut table = Table::new(Plan::wide(types, &options.text_fields), out, options)?;
    while let Some(extent) = reader.next_extent_where(|header| is_wanted(&header.type_name))? {
        let number =
            table.plan.types.iter().position(|own| own.name() == extent.extent_type().name());
        let number = number.expect("only types of the plan are read");
        for row in extent.rows() {
            table.push(number, &row);
            if table.bytes > options.group_bytes {
                table.write_group()?;
            }
        }
    }
    let records = table.records;
    Ok((table.finish()?, records))
}
