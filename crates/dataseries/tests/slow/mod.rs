//! A second reader of the format, written only from its description, byte by byte, without regard
//! to speed.
//!
//! It shares no code with the crate, so that both do not have the same errors. It panics on
//! anything unexpected: it is only for valid files.
#![allow(dead_code, reason = "each test uses its own part")]

mod expand;
mod numbers;
pub mod rules;
mod types;

use expand::{expand, uncompact};
use numbers::{Order, adler, lookup2, mix3};
use std::collections::HashMap;
use types::{Column, Layout, parse_type};

/// A value. Doubles are kept as bits, so that they compare exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slow {
    Null,
    Bool(bool),
    Byte(u8),
    Int32(i32),
    Int64(i64),
    Double(u64),
    Bytes(Vec<u8>),
}

impl From<retake_dataseries::Value<'_>> for Slow {
    fn from(value: retake_dataseries::Value<'_>) -> Self {
        use retake_dataseries::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Byte(value) => Self::Byte(value),
            Value::Int32(value) => Self::Int32(value),
            Value::Int64(value) => Self::Int64(value),
            Value::Double(value) => Self::Double(value.to_bits()),
            Value::Bytes(value) => Self::Bytes(value.to_vec()),
        }
    }
}

/// The rows of one extent.
#[derive(Debug, PartialEq, Eq)]
pub struct SlowExtent {
    pub type_name: String,
    pub rows: Vec<Vec<Slow>>,
}

fn check_digest(fixed: &[u8], pool: &[u8], order: Order, stored: u32) {
    let mut hash = lookup2(lookup2(1972, fixed), pool);
    let mut words = Vec::new();
    let mut at = 4;
    while at < pool.len() {
        let length = order.word(pool, at);
        words.push(pool[at..at + 4].to_vec());
        at += 4 + length + (12 - length % 8) % 8;
    }
    assert_eq!(at, pool.len(), "pool used up");
    for batch in words.chunks(1024) {
        if batch.len() == 1024 {
            hash = lookup2(hash, &batch.concat());
        }
    }
    hash = lookup2(hash, &words[words.len() / 1024 * 1024..].concat());
    assert_eq!(hash, stored, "hash of the unpacked data");
}

/// Returns the stored number of a column.
fn raw(column: &Column, record: &[u8], order: Order) -> u64 {
    let size = if column.kind == "int32" { 4 } else { 8 };
    order.number(&record[column.offset..column.offset + size])
}

/// Whether a column is null in a record.
fn null_bit(column: &Column, record: &[u8]) -> bool {
    column.nullable && record[column.null_at.0] >> column.null_at.1 & 1 == 1
}

/// Returns the numbers of a record. `previous` has those of the record before.
fn numbers(
    layout: &Layout,
    record: &[u8],
    order: Order,
    bases: &[Option<usize>],
    previous: &mut [(i64, f64)],
) -> Vec<(i64, f64)> {
    // Numbers by column, transformed back in the order of the description: scale, self, other.
    let mut numbers = vec![(0_i64, 0.0_f64); layout.columns.len()];
    let is_null = |column: &Column| null_bit(column, record);
    for (index, column) in layout.columns.iter().enumerate() {
        let (mut whole, mut double) = (0, 0.0);
        match column.kind.as_str() {
            "int32" => whole = i64::from(raw(column, record, order) as u32 as i32),
            "int64" => whole = raw(column, record, order) as i64,
            "double" => double = f64::from_bits(raw(column, record, order)),
            _ => continue,
        }
        if column.scale != 0.0 {
            double *= column.scale;
        }
        let takes_part = !(layout.compact && is_null(column));
        if bases[index] == Some(index) && takes_part {
            let last = &mut previous[index];
            whole = whole.wrapping_add(last.0);
            if column.kind == "int32" {
                whole = i64::from(whole as i32);
            }
            if column.kind == "double" {
                double = ((double + last.1) * (1.0 / column.scale)).round() * column.scale;
            }
            *last = (whole, double);
        } else if let Some(base) = bases[index].filter(|_| takes_part) {
            let base = numbers[base];
            whole = whole.wrapping_add(base.0);
            if column.kind == "int32" {
                whole = i64::from(whole as i32);
            }
            if column.kind == "double" {
                double += base.1;
            }
        }
        numbers[index] = (whole, double);
    }
    numbers
}

fn rows(layout: &Layout, fixed: &[u8], pool: &[u8], order: Order, count: usize) -> Vec<Vec<Slow>> {
    let mut previous = vec![(0_i64, 0.0_f64); layout.columns.len()];
    let base_of =
        |column: &Column| layout.columns.iter().position(|other| other.name == column.relative);
    let bases: Vec<Option<usize>> = layout.columns.iter().map(base_of).collect();
    let mut out = Vec::new();
    for record in fixed.chunks(layout.record.max(1)).take(count) {
        let numbers = numbers(layout, record, order, &bases, &mut previous);
        let is_null = |column: &Column| null_bit(column, record);
        let value = |(index, column): (usize, &Column)| {
            if is_null(column) {
                return Slow::Null;
            }
            let number = numbers[index];
            match column.kind.as_str() {
                "bool" => Slow::Bool(record[column.offset] >> column.bit & 1 == 1),
                "byte" => Slow::Byte(record[column.offset]),
                "int32" => Slow::Int32(number.0 as i32),
                "int64" => Slow::Int64(number.0),
                "double" => Slow::Double(number.1.to_bits()),
                "fixedwidth" => {
                    Slow::Bytes(record[column.offset..column.offset + column.size].to_vec())
                }
                "variable32" => {
                    let at = order.word(record, column.offset);
                    Slow::Bytes(pool[at + 4..at + 4 + order.word(pool, at)].to_vec())
                }
                other => panic!("type {other}"),
            }
        };
        out.push(layout.columns.iter().enumerate().map(value).collect());
    }
    out
}

/// Returns the rows of the extent at the start of `head`, and its size.
fn unpack(
    head: &[u8],
    name: &str,
    words: &[usize],
    layout: &Layout,
    order: Order,
) -> (Vec<Vec<Slow>>, usize) {
    let fixed_at = (28 + name.len()).div_ceil(4) * 4;
    let variable_at = fixed_at + words[0].div_ceil(4) * 4;
    let total = variable_at + words[1].div_ceil(4) * 4;
    let packed = adler(head[..16].iter().chain(&head[20..total]).copied());
    assert_eq!(packed as usize, words[4], "adler of {name}");
    let most = words[2] * layout.record;
    let mut fixed = expand(head[24], &head[fixed_at..fixed_at + words[0]], most);
    if layout.compact {
        fixed = uncompact(layout, &fixed, words[2]);
    }
    let mut pool = vec![0; 4];
    pool.extend(expand(head[25], &head[variable_at..variable_at + words[1]], words[3] - 4));
    assert_eq!((fixed.len(), pool.len()), (most, words[3]), "sizes of {name}");
    check_digest(&fixed, &pool, order, words[5] as u32);
    (rows(layout, &fixed, &pool, order, words[2]), total)
}

/// Checks that the index lists the extents that were seen.
fn check_index(rows: &[Vec<Slow>], seen: &[(i64, String)]) {
    let listed: Vec<Vec<Slow>> = seen
        .iter()
        .map(|(offset, name)| vec![Slow::Int64(*offset), Slow::Bytes(name.clone().into_bytes())])
        .collect();
    assert_eq!(rows, listed, "index");
}

/// The built-in types, which no file lists.
const BUILTIN: [&str; 2] = [
    "<ExtentType name=\"DataSeries: XmlType\"> <field type=\"variable32\" name=\"xmltype\" />",
    "<ExtentType name=\"DataSeries: ExtentIndex\"> <field type=\"int64\" name=\"offset\" /> \
     <field type=\"variable32\" name=\"extenttype\" />",
];

/// Returns all extents of a file, except those of the format itself.
pub fn read(file: &[u8]) -> Vec<SlowExtent> {
    assert_eq!(&file[..4], b"DSv1");
    let order = Order(file[4] == 0x12);
    let mut types: HashMap<String, Layout> = BUILTIN.into_iter().map(parse_type).collect();
    let (mut at, mut chain, mut extents, mut seen) = (40, 0, Vec::new(), Vec::new());
    while file[at..at + 4] != [0xff; 4] {
        let head = &file[at..];
        let words: Vec<usize> = (0..6).map(|index| order.word(head, index * 4)).collect();
        let name = std::str::from_utf8(&head[28..28 + head[26] as usize]).expect("name").to_owned();
        let (rows, total) = unpack(head, &name, &words, &types[&name], order);
        seen.push((at as i64, name.clone()));
        let mixed = (words[5] ^ words[4]) as u32;
        chain = mix3(mixed, chain);
        if name == "DataSeries: XmlType" {
            for row in &rows {
                let Slow::Bytes(xml) = &row[0] else { panic!("xml") };
                let (name, layout) = parse_type(std::str::from_utf8(xml).expect("text"));
                types.insert(name, layout);
            }
        } else if name == "DataSeries: ExtentIndex" {
            check_index(&rows, &seen);
            let place = order.number(&file[file.len() - 12..file.len() - 4]) as usize;
            assert_eq!(at, place, "place of the index");
        } else {
            extents.push(SlowExtent { type_name: name, rows });
        }
        at += total;
    }
    assert_eq!(at + 28, file.len(), "tail at the end");
    assert_eq!(lookup2(1776, &file[at..at + 24]) as usize, order.word(file, at + 24), "tail");
    SLOW_CHAIN.with(|last| last.set(chain as usize == order.word(file, at + 12)));
    extents
}

std::thread_local! {
    /// Whether the chained checksum of the last file was right. In old files it is not.
    pub static SLOW_CHAIN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
