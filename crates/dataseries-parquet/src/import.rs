//! Converts Parquet to DataSeries.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};
use retake_dataseries::{Error as DataSeriesError, ExtentType, Writer, WriterOptions};

use crate::column::ReadValues;
use crate::error::{Error, Result};
use crate::plan::{Plan, foreign_field};

/// The number of rows that are read at once.
const BATCH_ROWS: usize = 256;

/// Options for an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Options for writing the new file.
    pub writer: WriterOptions,
}

/// A Parquet file that is read.
struct Input {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    plan: Plan,
}

impl Input {
    fn open(path: &Path) -> Result<Self> {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        let metadata = reader.metadata().file_metadata();
        let plan = match Plan::of_metadata(metadata.key_value_metadata())? {
            Some(plan) => plan,
            None => foreign_plan(path, metadata.schema())?,
        };
        let input = Self { path: path.to_owned(), reader, plan };
        input.check_columns()?;
        Ok(input)
    }

    /// Checks that the columns are those of the plan: their names, physical types, and whether they
    /// may be null.
    fn check_columns(&self) -> Result<()> {
        let planned = self.plan.schema()?;
        let actual = self.reader.metadata().file_metadata().schema();
        let (planned, actual) = (planned.get_fields(), actual.get_fields());
        if planned.len() != actual.len() {
            return Err(Error::Metadata {
                what: format!("{} columns instead of {}", actual.len(), planned.len()),
            });
        }
        for (planned, actual) in planned.iter().zip(actual) {
            let same = actual.is_primitive()
                && planned.name() == actual.name()
                && (planned.get_physical_type() == actual.get_physical_type() || is_float(actual))
                && planned.is_optional() == actual.is_optional();
            if !same {
                return Err(Error::Metadata {
                    what: format!("column {:?} is not as described", actual.name()),
                });
            }
        }
        Ok(())
    }
}

fn is_float(column: &parquet::schema::types::Type) -> bool {
    column.get_physical_type() == parquet::basic::Type::FLOAT
}

/// The plan for another program's file: one type, which has the file's name.
fn foreign_plan(path: &Path, schema: &parquet::schema::types::Type) -> Result<Plan> {
    let name = path.file_stem().map_or_else(|| "table".into(), |stem| stem.to_string_lossy());
    let fields = schema
        .get_fields()
        .iter()
        .map(|column| foreign_field(column))
        .collect::<Result<Vec<_>>>()?;
    Ok(Plan::of_type(&ExtentType::builder(&name).fields(fields).build()?, &[]))
}

/// Reads Parquet files in order into one DataSeries file. Returns the stream and the number of
/// records.
///
/// # Errors
/// Any error of reading or writing, with the file that it concerns.
pub fn import<W: Write>(
    paths: &[PathBuf],
    out: W,
    options: &ImportOptions,
) -> std::result::Result<(W, u64), (PathBuf, Error)> {
    let inputs = paths.iter().map(|path| Input::open(path).map_err(|error| (path.clone(), error)));
    let inputs = inputs.collect::<std::result::Result<Vec<_>, _>>()?;
    let nowhere = |error: DataSeriesError| (PathBuf::from("the new file"), error.into());
    let mut types: Vec<Arc<ExtentType>> = Vec::new();
    for input in &inputs {
        for extent_type in &input.plan.types {
            match types.iter().find(|known| known.name() == extent_type.name()) {
                None => types.push(Arc::clone(extent_type)),
                Some(known) if known.xml() == extent_type.xml() => {}
                Some(_) => {
                    let what =
                        format!("type {:?} is not the same in all files", extent_type.name());
                    return Err((input.path.clone(), Error::Metadata { what }));
                }
            }
        }
    }
    let mut writer = Writer::new(out, types, options.writer.clone()).map_err(nowhere)?;
    let mut records = 0;
    for input in &inputs {
        records += copy(input, &mut writer).map_err(|error| (input.path.clone(), error))?;
    }
    Ok((writer.finish().map_err(nowhere)?, records))
}

/// Copies all rows of a file.
fn copy<W: Write>(input: &Input, writer: &mut Writer<W>) -> Result<u64> {
    let library = writer.library();
    let numbers: HashMap<&[u8], (usize, usize)> = (input.plan.types.iter().enumerate())
        .map(|(own, extent_type)| {
            let number =
                library.number(extent_type.name()).expect("the writer has all types of its inputs");
            (extent_type.name().as_bytes(), (own, number))
        })
        .collect();
    let first = numbers.values().find(|(own, _)| *own == 0).map_or(0, |(_, number)| *number);
    let mut records = 0;
    for group in 0..input.reader.num_row_groups() {
        let group = input.reader.get_row_group(group)?;
        let mut columns = (0..input.plan.columns.len())
            .map(|column| Ok(group.get_column_reader(column)?))
            .collect::<Result<Vec<_>>>()?;
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let count = left.min(BATCH_ROWS);
            let values = read_batch(&input.plan, &mut columns, count)?;
            for row in 0..count {
                let (own, number) = match input.plan.is_wide {
                    false => (0, first),
                    true => {
                        let name = values[0]
                            .value(row, input.plan.columns[0].field_type)
                            .as_bytes()
                            .unwrap_or_default();
                        let found = numbers.get(name).copied();
                        found.ok_or_else(|| Error::Metadata {
                            what: format!("no type {:?}", String::from_utf8_lossy(name)),
                        })?
                    }
                };
                copy_row(&input.plan, own, number, &values, row, writer)?;
            }
            left -= count;
            records += count as u64;
        }
    }
    Ok(records)
}

fn read_batch(plan: &Plan, columns: &mut [ColumnReader], count: usize) -> Result<Vec<ReadValues>> {
    let planned = plan.columns.iter().zip(columns);
    planned
        .map(|(planned, column)| ReadValues::read(column, count, planned.nullable, &planned.name))
        .collect()
}

fn copy_row<W: Write>(
    plan: &Plan,
    own: usize,
    number: usize,
    values: &[ReadValues],
    at: usize,
    writer: &mut Writer<W>,
) -> Result<()> {
    let mut row = writer.row(number)?;
    for (field, (place, declared)) in
        plan.places[own].iter().zip(plan.types[own].fields()).enumerate()
    {
        row.set_value(field, values[*place].value(at, declared.field_type))?;
    }
    row.finish();
    Ok(())
}
