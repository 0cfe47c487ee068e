//! The values of a column, on their way between rows and a file.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::file::writer::SerializedColumnWriter;
use retake_dataseries::{FieldType, Value};

use crate::error::{Error, Result};
use crate::plan::PlannedColumn;

/// The values of a column, of one kind and without nulls.
#[derive(Debug)]
enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

/// The rows of a column that are not written yet.
#[derive(Debug)]
pub(crate) struct Column {
    values: Values,
    /// For a nullable column: 1 for each value, 0 for each null.
    levels: Option<Vec<i16>>,
    is_text: bool,
}

impl Column {
    pub fn new(planned: &PlannedColumn) -> Self {
        let values = match planned.field_type {
            FieldType::Bool => Values::Bool(Vec::new()),
            FieldType::Byte | FieldType::Int32 => Values::Int32(Vec::new()),
            FieldType::Int64 => Values::Int64(Vec::new()),
            FieldType::Double => Values::Double(Vec::new()),
            FieldType::Variable32 => Values::Bytes(Vec::new()),
            FieldType::FixedWidth(_) => Values::Fixed(Vec::new()),
        };
        Self { values, levels: planned.nullable.then(Vec::new), is_text: planned.is_text }
    }

    /// Adds a value, which must fit the plan. Returns the approximate number of bytes that it
    /// takes.
    pub fn push(&mut self, value: Value<'_>) -> usize {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(value != Value::Null));
        }
        if value == Value::Null {
            return 2;
        }
        match &mut self.values {
            Values::Bool(values) => values.push(value.as_i64().unwrap_or(0) != 0),
            Values::Int32(values) => values.push(value.as_i64().unwrap_or(0) as i32),
            Values::Int64(values) => values.push(value.as_i64().unwrap_or(0)),
            Values::Double(values) => {
                values.push(if let Value::Double(number) = value { number } else { 0.0 })
            }
            Values::Bytes(values) => {
                let bytes = value.as_bytes().unwrap_or_default();
                values.push(if self.is_text { text(bytes) } else { ByteArray::from(bytes) });
                return 48 + bytes.len();
            }
            Values::Fixed(values) => {
                let bytes = value.as_bytes().unwrap_or_default();
                values.push(FixedLenByteArray::from(bytes.to_vec()));
                return 48 + bytes.len();
            }
        }
        10
    }

    /// Writes all values to a file and clears the column.
    pub fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Values::Bool(values) => write_values::<BoolType>(writer, values, levels)?,
            Values::Int32(values) => write_values::<Int32Type>(writer, values, levels)?,
            Values::Int64(values) => write_values::<Int64Type>(writer, values, levels)?,
            Values::Double(values) => write_values::<DoubleType>(writer, values, levels)?,
            Values::Bytes(values) => write_values::<ByteArrayType>(writer, values, levels)?,
            Values::Fixed(values) => write_values::<FixedLenByteArrayType>(writer, values, levels)?,
        }
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

/// Bytes as a string, without a NUL at the end. Invalid UTF-8 is replaced.
fn text(bytes: &[u8]) -> ByteArray {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    ByteArray::from(String::from_utf8_lossy(bytes).as_ref())
}

fn write_values<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<()> {
    writer.typed::<T>().write_batch(values, levels, None)?;
    values.clear();
    Ok(())
}

/// The values read from a column: a value or null for each row.
#[derive(Debug)]
pub(crate) enum ReadValues {
    Bool(Vec<Option<bool>>),
    Int(Vec<Option<i64>>),
    Double(Vec<Option<f64>>),
    Bytes(Vec<Option<ByteArray>>),
    Fixed(Vec<Option<FixedLenByteArray>>),
}

impl ReadValues {
    /// Reads the next `count` rows of a column. `name` is for errors.
    pub fn read(
        reader: &mut ColumnReader,
        count: usize,
        nullable: bool,
        name: &str,
    ) -> Result<Self> {
        Ok(match reader {
            ColumnReader::BoolColumnReader(reader) => {
                Self::Bool(read_rows(reader, count, nullable, name)?)
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let values = read_rows(reader, count, nullable, name)?;
                Self::Int(values.into_iter().map(|value| value.map(i64::from)).collect())
            }
            ColumnReader::Int64ColumnReader(reader) => {
                Self::Int(read_rows(reader, count, nullable, name)?)
            }
            ColumnReader::FloatColumnReader(reader) => {
                let values = read_rows(reader, count, nullable, name)?;
                Self::Double(values.into_iter().map(|value| value.map(f64::from)).collect())
            }
            ColumnReader::DoubleColumnReader(reader) => {
                Self::Double(read_rows(reader, count, nullable, name)?)
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                Self::Bytes(read_rows(reader, count, nullable, name)?)
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                Self::Fixed(read_rows(reader, count, nullable, name)?)
            }
            ColumnReader::Int96ColumnReader(_) => {
                return Err(Error::Column {
                    column: name.to_owned(),
                    what: "a time of 96 bits".to_owned(),
                });
            }
        })
    }

    /// The value of a row, as a field of this type.
    pub fn value(&self, row: usize, field_type: FieldType) -> Value<'_> {
        let integer = match self {
            Self::Bool(values) => values[row].map(i64::from),
            Self::Int(values) => values[row],
            Self::Double(values) => return values[row].map_or(Value::Null, Value::Double),
            Self::Bytes(values) => {
                return values[row]
                    .as_ref()
                    .map_or(Value::Null, |bytes| Value::Bytes(bytes.data()));
            }
            Self::Fixed(values) => {
                return values[row]
                    .as_ref()
                    .map_or(Value::Null, |bytes| Value::Bytes(bytes.data()));
            }
        };
        integer.map_or(Value::Null, |integer| match field_type {
            FieldType::Bool => Value::Bool(integer != 0),
            FieldType::Byte => Value::Byte(integer as u8),
            FieldType::Int32 => Value::Int32(integer as i32),
            _ => Value::Int64(integer),
        })
    }
}

fn read_rows<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    nullable: bool,
    name: &str,
) -> Result<Vec<Option<T::T>>> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut rows = 0;
    while rows < count {
        let (read, _, _) = reader.read_records(
            count - rows,
            nullable.then_some(&mut levels),
            None,
            &mut values,
        )?;
        if read == 0 {
            return Err(Error::Metadata {
                what: format!("column {name:?} has fewer values than rows"),
            });
        }
        rows += read;
    }
    if !nullable {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    let present = levels.into_iter().map(|level| if level > 0 { values.next() } else { None });
    Ok(present.collect())
}
