//! Printing of records.

use std::io::{Read, Write};
use std::sync::Arc;

use super::render::{write_line, write_names};
use super::{BoundExpression, BytesStyle, Expression, Format, Scalar, select_types};
use crate::{Error, ExtentType, ReadOptions, Result, StreamReader, Warning};

/// Options of printing.
#[derive(Debug, Clone, Default)]
pub struct TxtOptions {
    /// Patterns of the types to print, as in [`crate::TypeLibrary::matching`]. Empty for all.
    pub types: Vec<String>,
    /// Columns: fields or expressions. Empty for all fields of each type.
    pub columns: Vec<String>,
    /// Only records for which this expression is true are printed.
    pub filter: Option<String>,
    /// The most records to print.
    pub limit: Option<u64>,
    /// Format of the output.
    pub format: Format,
    /// How bytes are shown.
    pub bytes: BytesStyle,
    /// Whether the lines with the names of types and columns are omitted.
    pub no_header: bool,
    /// How the file is read.
    pub read: ReadOptions,
}

/// The results of printing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TxtReport {
    /// Records printed.
    pub rows: u64,
    /// Other errors of the file.
    pub warnings: Vec<Warning>,
}

/// The columns of one type.
struct Columns {
    extent_type: Arc<ExtentType>,
    names: Vec<String>,
    values: Vec<BoundExpression>,
    filter: Option<BoundExpression>,
}

/// Prints the records of `source` that `options` select, in file order.
///
/// # Errors
/// [`Error::Expression`] and [`Error::Request`] for impossible options. Any reading error, after
/// all records before it were printed. [`Error::Io`] from `out`.
pub fn txt(source: impl Read, out: &mut impl Write, options: &TxtOptions) -> Result<TxtReport> {
    let mut reader = StreamReader::open(source, options.read.clone())?;
    let selected = select_types(reader.library(), &options.types)?;
    let types = reader.library().types().iter().zip(&selected).filter(|(_, selected)| **selected);
    let types: Vec<Arc<ExtentType>> =
        types.map(|(extent_type, _)| Arc::clone(extent_type)).collect();
    if options.format == Format::Csv && options.columns.is_empty() && types.len() > 1 {
        let what = "CSV has one set of columns: choose one type, or name the columns";
        return Err(Error::Request(what.to_owned()));
    }
    let all_columns = bind_columns(&types, options)?;
    let mut report = TxtReport::default();
    let mut header_of = None;
    let mut left = options.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let wanted =
            |name: &str| all_columns.iter().any(|columns| columns.extent_type.name() == name);
        let Some(extent) = reader.next_extent_where(|header| wanted(&header.type_name))? else {
            break;
        };
        let name = extent.extent_type().name();
        let Some(columns) = all_columns.iter().find(|columns| columns.extent_type.name() == name)
        else {
            continue;
        };
        for row in extent.rows() {
            if left == 0 {
                break;
            }
            if columns.filter.as_ref().is_some_and(|filter| !filter.accepts(&row)) {
                continue;
            }
            if !options.no_header {
                columns.write_header(out, options, &mut header_of)?;
            }
            let type_name = Scalar::Bytes(name.as_bytes());
            let with_type = options.format == Format::Json && options.columns.is_empty();
            let type_column = with_type.then_some(("@type", type_name)).into_iter();
            let values = columns.values.iter().map(|value| value.evaluate(&row));
            let named = columns.names.iter().map(String::as_str).zip(values);
            write_line(out, options.format, options.bytes, type_column.chain(named))?;
            report.rows += 1;
            left -= 1;
        }
    }
    report.warnings = reader.warnings().to_vec();
    Ok(report)
}

/// The columns and the filter for each type.
fn bind_columns(types: &[Arc<ExtentType>], options: &TxtOptions) -> Result<Vec<Columns>> {
    let borrowed: Vec<&Arc<ExtentType>> = types.iter().collect();
    let filter = options.filter.as_deref().map(Expression::parse).transpose()?;
    let named: Result<Vec<Expression>> =
        options.columns.iter().map(|text| Expression::column(text, &borrowed)).collect();
    let named = named?;
    for expression in filter.iter().chain(&named) {
        expression.check_fields(&borrowed)?;
    }
    let bind = |extent_type: &Arc<ExtentType>| {
        let own: Vec<Expression> = match named.is_empty() {
            true => {
                extent_type.fields().iter().map(|field| Expression::field(&field.name)).collect()
            }
            false => named.clone(),
        };
        Columns {
            names: own.iter().map(|column| column.text().to_owned()).collect(),
            values: own.iter().map(|column| column.bind(extent_type)).collect(),
            filter: filter.as_ref().map(|filter| filter.bind(extent_type)),
            extent_type: Arc::clone(extent_type),
        }
    };
    Ok(types.iter().map(bind).collect())
}

impl Columns {
    /// Writes the names of the columns, unless they are those of the last header.
    fn write_header(
        &self,
        out: &mut impl Write,
        options: &TxtOptions,
        header_of: &mut Option<Arc<ExtentType>>,
    ) -> Result<()> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let same_type = header_of.as_ref().is_some_and(|last| Arc::ptr_eq(last, &self.extent_type));
        let same = same_type || header_of.is_some() && !options.columns.is_empty();
        if same || options.format == Format::Json {
            return Ok(());
        }
        if options.format == Format::Text && options.columns.is_empty() {
            writeln!(out, "# type {}", self.extent_type.name())?;
        }
        write_names(out, options.format, &names)?;
        *header_of = Some(Arc::clone(&self.extent_type));
        Ok(())
    }
}
