//! Summaries of records: counts, sums, means and quantiles of fields or expressions, by groups.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

use super::quantile::Quantiles;
use super::render::{BytesStyle, write_line, write_names};
use super::{BoundExpression, Expression, Format, Scalar, select_types};
use crate::{Error, ExtentType, ReadOptions, Result, StreamReader};

/// Options of a summary.
#[derive(Debug, Clone)]
pub struct StatOptions {
    /// Patterns of the types to read; empty for all.
    pub types: Vec<String>,
    /// Only records for which this expression is true are read.
    pub filter: Option<String>,
    /// Fields or expressions whose values form the groups, `@type` for the type. Empty for one
    /// group.
    pub group_by: Vec<String>,
    /// Fields or expressions to summarise; empty to count records only.
    pub values: Vec<String>,
    /// The quantiles to compute, from 0 to 1.
    pub quantiles: Vec<f64>,
    /// Format of the output.
    pub format: Format,
    /// How bytes of group keys are shown.
    pub bytes: BytesStyle,
    /// The approximate limit of memory for the groups, in bytes.
    pub memory_bytes: usize,
    /// How the file is read.
    pub read: ReadOptions,
}

impl Default for StatOptions {
    fn default() -> Self {
        Self {
            types: Vec::new(),
            filter: None,
            group_by: Vec::new(),
            values: Vec::new(),
            quantiles: vec![0.5, 0.9, 0.99],
            format: Format::Text,
            bytes: BytesStyle::Escaped,
            memory_bytes: 256 << 20,
            read: ReadOptions::default(),
        }
    }
}

/// A group key that is independent of its record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Null,
    Bool(bool),
    Int(i64),
    /// The bits of a double. Equal bits form one group.
    Double(u64),
    Bytes(Vec<u8>),
}

impl Key {
    fn of(value: Scalar<'_>) -> Self {
        match value {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(value),
            Scalar::Int(value) => Self::Int(value),
            Scalar::Double(value) => Self::Double(value.to_bits()),
            Scalar::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Null => Scalar::Null,
            Self::Bool(value) => Scalar::Bool(*value),
            Self::Int(value) => Scalar::Int(*value),
            Self::Double(bits) => Scalar::Double(f64::from_bits(*bits)),
            Self::Bytes(bytes) => Scalar::Bytes(bytes),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + if let Self::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

/// The summary of one value in one group.
#[derive(Debug, Clone, Default)]
struct Summary {
    count: u64,
    nulls: u64,
    whole_sum: i128,
    double_sum: f64,
    /// Whether a value was no whole number. Otherwise, the sum is exact.
    has_doubles: bool,
    /// Running mean, by Welford's method.
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
    min: Option<f64>,
    max: Option<f64>,
    quantiles: Quantiles,
}

impl Summary {
    /// Adds a value. Returns whether it took memory.
    fn add(&mut self, value: Scalar<'_>) -> bool {
        // Bytes are summarised by their length.
        let value =
            if let Scalar::Bytes(bytes) = value { Scalar::Int(bytes.len() as i64) } else { value };
        let Some(number) = value.as_f64() else {
            self.nulls += 1;
            return false;
        };
        self.count += 1;
        match value.as_i64() {
            Some(whole) => self.whole_sum += i128::from(whole),
            None => {
                self.has_doubles = true;
                self.double_sum += number;
            }
        }
        let distance = number - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (number - self.mean);
        self.min = Some(self.min.map_or(number, |min| min.min(number)));
        self.max = Some(self.max.map_or(number, |max| max.max(number)));
        self.quantiles.add(number)
    }

    fn sum(&self) -> Scalar<'static> {
        match i64::try_from(self.whole_sum) {
            Ok(whole) if !self.has_doubles => Scalar::Int(whole),
            _ => Scalar::Double(self.whole_sum as f64 + self.double_sum),
        }
    }
}

/// The records with one key.
#[derive(Debug, Clone, Default)]
struct Group {
    records: u64,
    values: Vec<Summary>,
}

/// The expressions bound to one type.
struct Bound {
    filter: Option<BoundExpression>,
    keys: Vec<BoundExpression>,
    values: Vec<BoundExpression>,
}

/// The expressions of the options, for all types.
struct Plan {
    types: Vec<Arc<ExtentType>>,
    bound: Vec<Bound>,
}

/// Writes one line for each group and value. The most frequent groups come first.
///
/// Bytes are summarised by their length. Quantiles are accurate within 0.4 %.
///
/// # Errors
/// [`Error::Expression`]. [`Error::Request`] if the groups need too much memory. Any reading error.
/// [`Error::Io`] from `out`.
pub fn stat(source: impl Read, out: &mut impl Write, options: &StatOptions) -> Result<()> {
    if let Some(q) = options.quantiles.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        return Err(Error::Request(format!("quantile {q} is not between 0 and 1")));
    }
    let mut reader = StreamReader::open(source, options.read.clone())?;
    let plan = Plan::new(&reader, options)?;
    let mut groups: HashMap<Vec<Key>, Group> = HashMap::new();
    let mut used_bytes = 0;
    let number_of =
        |name: &str| plan.types.iter().position(|extent_type| extent_type.name() == name);
    while let Some(extent) =
        reader.next_extent_where(|header| number_of(&header.type_name).is_some())?
    {
        let number = number_of(extent.extent_type().name()).expect("only wanted types are read");
        let bound = &plan.bound[number];
        for row in extent.rows() {
            if bound.filter.as_ref().is_some_and(|filter| !filter.accepts(&row)) {
                continue;
            }
            let key: Vec<Key> = bound.keys.iter().map(|key| Key::of(key.evaluate(&row))).collect();
            let key_bytes: usize = key.iter().map(Key::bytes).sum();
            let group = groups.entry(key).or_insert_with(|| {
                used_bytes += key_bytes + 64 + bound.values.len() * size_of::<Summary>();
                Group { records: 0, values: vec![Summary::default(); bound.values.len()] }
            });
            group.records += 1;
            for (summary, value) in group.values.iter_mut().zip(&bound.values) {
                used_bytes += 24 * usize::from(summary.add(value.evaluate(&row)));
            }
            if used_bytes > options.memory_bytes {
                let what = format!(
                    "{} groups need more than {} bytes",
                    groups.len(),
                    options.memory_bytes
                );
                return Err(Error::Request(what));
            }
        }
    }
    write_groups(out, groups, options)
}

impl Plan {
    fn new<R: Read>(reader: &StreamReader<R>, options: &StatOptions) -> Result<Self> {
        let selected = select_types(reader.library(), &options.types)?;
        let types = reader.library().types().iter().zip(selected).filter(|(_, selected)| *selected);
        let types: Vec<Arc<ExtentType>> =
            types.map(|(extent_type, _)| Arc::clone(extent_type)).collect();
        let borrowed: Vec<&Arc<ExtentType>> = types.iter().collect();
        let parse = |texts: &[String]| -> Result<Vec<Expression>> {
            let parsed = texts.iter().map(|text| Expression::column(text, &borrowed));
            let parsed: Vec<Expression> = parsed.collect::<Result<_>>()?;
            parsed.iter().try_for_each(|expression| expression.check_fields(&borrowed))?;
            Ok(parsed)
        };
        let (keys, values) = (parse(&options.group_by)?, parse(&options.values)?);
        let filter = options.filter.as_deref().map(Expression::parse).transpose()?;
        if let Some(filter) = &filter {
            filter.check_fields(&borrowed)?;
        }
        let bind_all = |expressions: &[Expression], extent_type: &ExtentType| {
            expressions.iter().map(|expression| expression.bind(extent_type)).collect()
        };
        let bound = types.iter().map(|extent_type| Bound {
            filter: filter.as_ref().map(|filter| filter.bind(extent_type)),
            keys: bind_all(&keys, extent_type),
            values: bind_all(&values, extent_type),
        });
        let bound = bound.collect();
        Ok(Self { bound, types })
    }
}

fn write_groups(
    out: &mut impl Write,
    groups: HashMap<Vec<Key>, Group>,
    options: &StatOptions,
) -> Result<()> {
    let mut groups: Vec<(Vec<Key>, Group)> = groups.into_iter().collect();
    groups.sort_by(|(left_key, left), (right_key, right)| {
        right.records.cmp(&left.records).then_with(|| left_key.cmp(right_key))
    });
    let quantile_names: Vec<String> =
        options.quantiles.iter().map(|q| format!("p{}", q * 100.0)).collect();
    let mut names: Vec<&str> = options.group_by.iter().map(String::as_str).collect();
    match options.values.is_empty() {
        true => names.push("records"),
        false => {
            names.extend(["value", "count", "nulls", "sum", "mean", "stddev", "min"]);
            names.extend(quantile_names.iter().map(String::as_str));
            names.push("max");
        }
    }
    if options.format != Format::Json {
        write_names(out, options.format, &names)?;
    }
    for (key, group) in &groups {
        let keys: Vec<Scalar<'_>> = key.iter().map(Key::scalar).collect();
        if options.values.is_empty() {
            let values = keys.iter().copied().chain([Scalar::Int(group.records as i64)]);
            write_line(out, options.format, options.bytes, names.iter().copied().zip(values))?;
        }
        for (text, summary) in options.values.iter().zip(&group.values) {
            let values = keys.iter().copied().chain(summary_columns(text, summary, options));
            write_line(out, options.format, options.bytes, names.iter().copied().zip(values))?;
        }
    }
    Ok(())
}

/// Returns the columns of one value, which follow those of the key.
fn summary_columns<'a>(text: &'a str, summary: &Summary, options: &StatOptions) -> Vec<Scalar<'a>> {
    let known = |value: f64| {
        if summary.count > 0 { Scalar::Double(value) } else { Scalar::Null }
    };
    let deviation = (summary.squares / summary.count.max(1) as f64).max(0.0).sqrt();
    let mut columns = vec![
        Scalar::Bytes(text.as_bytes()),
        Scalar::Int(summary.count as i64),
        Scalar::Int(summary.nulls as i64),
        summary.sum(),
        known(summary.mean),
        known(deviation),
        summary.min.map_or(Scalar::Null, Scalar::Double),
    ];
    for &q in &options.quantiles {
        // The value of a bucket may be outside the range of the values seen.
        let value = summary.quantiles.quantile(q).zip(summary.min.zip(summary.max));
        columns.push(
            value.map_or(Scalar::Null, |(value, (min, max))| {
                Scalar::Double(value.max(min).min(max))
            }),
        );
    }
    columns.push(summary.max.map_or(Scalar::Null, Scalar::Double));
    columns
}
