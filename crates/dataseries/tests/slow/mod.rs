//! A second reader of the format, written only from its description, byte by byte and without
//! regard to speed.
//!
//! It shares no code with the crate, so that a mistake in one is not a mistake in both. It panics
//! on anything unexpected: it is for files that must be right.
#![allow(dead_code, reason = "each test uses its own part")]

use std::collections::HashMap;

/// A value, with doubles by their bits so that they compare exactly.
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

#[derive(Debug, Clone)]
struct Column {
    name: String,
    kind: String,
    size: usize,
    nullable: bool,
    relative: String,
    scale: f64,
    offset: usize,
    bit: usize,
    null_at: (usize, usize),
}

#[derive(Debug, Default)]
struct Layout {
    columns: Vec<Column>,
    record: usize,
    compact: bool,
    bool_end: usize,
}

/// The value of an attribute in the text of one element.
fn attribute(element: &str, key: &str) -> String {
    let Some(start) =
        element.find(&format!(" {key}=\"")).or_else(|| element.find(&format!("\n{key}=\"")))
    else {
        return String::new();
    };
    let value = &element[start + key.len() + 3..];
    let raw = &value[..value.find('"').expect("attribute ends")];
    raw.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#10;", "\n")
        .replace("&amp;", "&")
}

fn parse_type(xml: &str) -> (String, Layout) {
    let mut elements =
        xml.split('<').filter(|part| part.starts_with("ExtentType") || part.starts_with("field"));
    let root = elements.next().expect("a root");
    let mut columns: Vec<Column> = elements
        .map(|element| Column {
            name: attribute(element, "name"),
            kind: attribute(element, "type"),
            size: attribute(element, "size").parse().unwrap_or(0),
            nullable: attribute(element, "opt_nullable") == "yes",
            relative: attribute(element, "pack_relative"),
            scale: attribute(element, "pack_scale").parse().unwrap_or(0.0),
            offset: 0,
            bit: 0,
            null_at: (0, 0),
        })
        .collect();
    let original = attribute(root, "pack_pad_record") != "max_column_size";
    let big_first = attribute(root, "pack_field_ordering") == "big_to_small_sep_var32";
    let has = |columns: &[Column], kinds: &[&str]| {
        columns.iter().any(|c| kinds.contains(&c.kind.as_str()))
    };
    let four = has(&columns, &["int32", "variable32"]);
    let eight = has(&columns, &["int64", "double"]);
    let (record, bool_end) = place(&mut columns, big_first, original, four, eight);
    let compact = attribute(root, "pack_null_compact") == "non_bool";
    (attribute(root, "name"), Layout { columns, record, compact, bool_end })
}

/// Gives each column its place; returns the size of a record and where its bits end.
fn place(
    columns: &mut [Column],
    big_first: bool,
    original: bool,
    four: bool,
    eight: bool,
) -> (usize, usize) {
    let mut at = 0;
    let mut bool_end = 0;
    let steps: &[&str] = match big_first {
        false => &["bits", "bytes", "pad4", "int32", "variable32", "pad8", "eight"],
        true => &["eight", "int32", "variable32", "bytes", "bits", "padend"],
    };
    for step in steps {
        match *step {
            "bits" => {
                let mut bit = 0;
                for column in columns.iter_mut() {
                    if column.kind == "bool" {
                        (column.offset, column.bit) = (at + bit / 8, bit % 8);
                        bit += 1;
                    }
                    if column.nullable {
                        column.null_at = (at + bit / 8, bit % 8);
                        bit += 1;
                    }
                }
                at += bit.div_ceil(8);
                if bit > 0 {
                    bool_end = at;
                }
            }
            "pad4" if original || four => at = at.div_ceil(4) * 4,
            "pad8" if original || eight => at = at.div_ceil(8) * 8,
            "padend" if original || eight => at = at.div_ceil(8) * 8,
            "padend" if four => at = at.div_ceil(4) * 4,
            group => {
                for column in columns.iter_mut() {
                    let size = match (group, column.kind.as_str()) {
                        ("bytes", "byte") => 1,
                        ("bytes", "fixedwidth") => column.size,
                        ("int32", "int32") | ("variable32", "variable32") => 4,
                        ("eight", "int64" | "double") => 8,
                        _ => continue,
                    };
                    column.offset = at;
                    at += size;
                }
            }
        }
    }
    (at, bool_end)
}

/// Integers of the file's order.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn number(self, bytes: &[u8]) -> u64 {
        let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.0 { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
    }

    fn word(self, bytes: &[u8], at: usize) -> usize {
        self.number(&bytes[at..at + 4]) as usize
    }
}

fn adler(bytes: impl Iterator<Item = u8>) -> u32 {
    let (mut low, mut high) = (1, 0);
    for byte in bytes {
        low = (low + u32::from(byte)) % 65521;
        high = (high + low) % 65521;
    }
    high << 16 | low
}

fn lookup2(init: u32, bytes: &[u8]) -> u32 {
    let mut state = [0x9e37_79b9_u32, 0x9e37_79b9, init];
    let shifts: [i32; 9] = [-13, 8, -13, -12, 16, -5, -3, 10, -15];
    let stir = |state: &mut [u32; 3]| {
        for (step, &shift) in shifts.iter().enumerate() {
            let (target, first, second) = (step % 3, (step + 1) % 3, (step + 2) % 3);
            let moved = match shift < 0 {
                true => state[second] >> -shift,
                false => state[second] << shift,
            };
            state[target] =
                state[target].wrapping_sub(state[first]).wrapping_sub(state[second]) ^ moved;
        }
    };
    let whole = bytes.len() / 12 * 12;
    for block in bytes[..whole].chunks(12) {
        for (index, &byte) in block.iter().enumerate() {
            state[index / 4] = state[index / 4].wrapping_add(u32::from(byte) << (index % 4 * 8));
        }
        stir(&mut state);
    }
    state[2] = state[2].wrapping_add(bytes.len() as u32);
    for (index, &byte) in bytes[whole..].iter().enumerate() {
        let index = if index < 8 { index } else { index + 1 };
        state[index / 4] = state[index / 4].wrapping_add(u32::from(byte) << (index % 4 * 8));
    }
    stir(&mut state);
    state[2]
}

fn unlzf(input: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < input.len() {
        let control = input[at] as usize;
        at += 1;
        if control < 32 {
            out.extend(&input[at..=at + control]);
            at += control + 1;
            continue;
        }
        let mut length = control / 32 + 2;
        if control / 32 == 7 {
            length += input[at] as usize;
            at += 1;
        }
        let distance = control % 32 * 256 + input[at] as usize + 1;
        at += 1;
        for _ in 0..length {
            out.push(out[out.len() - distance]);
        }
    }
    out
}

/// A position in lzo data.
struct Lzo<'a>(&'a [u8], usize);

impl Lzo<'_> {
    fn next(&mut self) -> usize {
        self.1 += 1;
        self.0[self.1 - 1] as usize
    }

    fn long(&mut self, field: usize, max: usize) -> usize {
        if field > 0 {
            return field;
        }
        let mut extra = max;
        while self.0[self.1] == 0 {
            extra += 255;
            self.1 += 1;
        }
        extra + self.next()
    }

    fn literals(&mut self, count: usize) -> &[u8] {
        self.1 += count;
        &self.0[self.1 - count..self.1]
    }
}

fn unlzo(input: &[u8]) -> Vec<u8> {
    let (mut input, mut out, mut state) = (Lzo(input, 0), Vec::new(), 0);
    if input.0[0] > 17 {
        let count = input.next() - 17;
        out.extend(input.literals(count));
        state = count.min(4);
    }
    loop {
        let op = input.next();
        let (length, distance, after);
        if op >= 64 {
            length = [3 + op / 32 % 2, 5 + op / 32 % 4][usize::from(op >= 128)];
            distance = input.next() * 8 + op / 4 % 8 + 1;
            after = op % 4;
        } else if op >= 32 {
            length = 2 + input.long(op % 32, 31);
            let pair = input.next() + 256 * input.next();
            (distance, after) = (pair / 4 + 1, pair % 4);
        } else if op >= 16 {
            length = 2 + input.long(op % 8, 7);
            let pair = input.next() + 256 * input.next();
            (distance, after) = (pair / 4 + 16384 + op / 8 % 2 * 16384, pair % 4);
            if distance == 16384 {
                return out;
            }
        } else if state == 0 {
            let count = input.long(op, 15) + 3;
            out.extend(input.literals(count));
            state = 4;
            continue;
        } else {
            let near = input.next() * 4 + op / 4;
            (length, distance) = [(2, near + 1), (3, near + 2049)][usize::from(state == 4)];
            after = op % 4;
        }
        for _ in 0..length {
            out.push(out[out.len() - distance]);
        }
        out.extend(input.literals(after));
        state = after;
    }
}

fn expand(mode: u8, input: &[u8], most: usize) -> Vec<u8> {
    use std::io::Read;
    if most == 0 {
        return Vec::new();
    }
    match mode {
        0 => input.to_vec(),
        1 => unlzo(input),
        2 => miniz_oxide::inflate::decompress_to_vec_zlib(input).expect("zlib"),
        3 => {
            let mut out = Vec::new();
            bzip2::read::BzDecoder::new(input).read_to_end(&mut out).expect("bzip2");
            out
        }
        4 => unlzf(input),
        5 => snap::raw::Decoder::new().decompress_vec(input).expect("snappy"),
        6 | 7 => lz4_flex::block::decompress(input, most).expect("lz4"),
        other => panic!("mode {other}"),
    }
}

/// Records with their null values put back as zeros.
fn uncompact(layout: &Layout, data: &[u8], count: usize) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    for _ in 0..count {
        let mut record = vec![0; layout.record];
        record[..layout.bool_end].copy_from_slice(&data[at..at + layout.bool_end]);
        at += layout.bool_end;
        for align in [1, 4, 8] {
            let mut columns: Vec<&Column> = layout
                .columns
                .iter()
                .filter(|column| match column.kind.as_str() {
                    "byte" | "fixedwidth" => align == 1,
                    "int32" | "variable32" => align == 4,
                    "int64" | "double" => align == 8,
                    _ => false,
                })
                .collect();
            columns.sort_by_key(|column| column.offset);
            for column in columns {
                if column.nullable && record[column.null_at.0] >> column.null_at.1 & 1 == 1 {
                    continue;
                }
                at = at.div_ceil(align) * align;
                let size = if column.kind == "fixedwidth" { column.size } else { align };
                record[column.offset..column.offset + size].copy_from_slice(&data[at..at + size]);
                at += size;
            }
        }
        out.extend(record);
    }
    assert_eq!(at, data.len(), "compacted data used up");
    out
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

/// Raw number of a column, as stored.
fn raw(column: &Column, record: &[u8], order: Order) -> u64 {
    let size = if column.kind == "int32" { 4 } else { 8 };
    order.number(&record[column.offset..column.offset + size])
}

/// Whether the column is null in a record.
fn null_bit(column: &Column, record: &[u8]) -> bool {
    column.nullable && record[column.null_at.0] >> column.null_at.1 & 1 == 1
}

/// The numbers of a record; `previous` has those of the record before.
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

/// The rows of the extent at the start of `head`, and its size.
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

/// Checks that the index lists what was seen.
fn check_index(rows: &[Vec<Slow>], seen: &[(i64, String)]) {
    let listed: Vec<Vec<Slow>> = seen
        .iter()
        .map(|(offset, name)| vec![Slow::Int64(*offset), Slow::Bytes(name.clone().into_bytes())])
        .collect();
    assert_eq!(rows, listed, "index");
}

/// The types that no file lists.
const BUILTIN: [&str; 2] = [
    "<ExtentType name=\"DataSeries: XmlType\"> <field type=\"variable32\" name=\"xmltype\" />",
    "<ExtentType name=\"DataSeries: ExtentIndex\"> <field type=\"int64\" name=\"offset\" /> \
     <field type=\"variable32\" name=\"extenttype\" />",
];

/// All extents of a file, those of the format left out.
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
    /// Whether the chained checksum of the file read last was right; it is not in old files.
    pub static SLOW_CHAIN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The mixing step alone, with the seed of extents.
fn mix3(a: u32, b: u32) -> u32 {
    let (mut a, mut b, mut c) = (a, b, 1972_u32);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 13);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 8);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 13);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 12);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 16);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 5);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 3);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 10);
    c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 15)
}

/// Asserts what the description asks of a writer beyond what a reader needs: the bytes of the
/// header, every padding, the shape of the pool, nulls, and types that the original library parses.
/// [`read`] checks digests, index and tail.
pub fn obeys(file: &[u8]) {
    let order = Order(file[4] == 0x12);
    check_header(file, order);
    assert_eq!(file.len() % 4, 0, "all parts are words");
    let mut types: HashMap<String, Layout> = BUILTIN.into_iter().map(parse_type).collect();
    let mut at = 40;
    while file[at..at + 4] != [0xff; 4] {
        let head = &file[at..];
        let words: Vec<usize> = (0..6).map(|index| order.word(head, index * 4)).collect();
        let name = std::str::from_utf8(&head[28..28 + head[26] as usize]).expect("name").to_owned();
        let total = check_extent(head, &name, &words, &types[&name], order);
        if name == "DataSeries: XmlType" {
            assert_eq!(at, 40, "one extent of types, and it is the first");
            let (rows, _) = unpack(head, &name, &words, &types[&name], order);
            let texts = rows
                .iter()
                .map(|row| if let Slow::Bytes(xml) = &row[0] { xml } else { panic!("xml") });
            types.extend(texts.map(|xml| checked_type(std::str::from_utf8(xml).expect("text"))));
        }
        at += total;
    }
    let packed = order.number(&file[at + 4..at + 8]) as u32;
    assert_eq!(
        order.number(&file[at + 8..at + 12]) as u32,
        !packed,
        "size of the index, and its complement"
    );
    let index = order.number(&file[at + 16..at + 24]) as usize;
    assert_eq!(index + packed as usize, at, "the index ends at the tail");
}

fn check_header(file: &[u8], order: Order) {
    let in_order = |bytes: [u8; 8]| {
        if order.0 { bytes } else { std::array::from_fn(|index| bytes[7 - index]) }
    };
    let number =
        if order.0 { 0x1234_5678_u32.to_be_bytes() } else { 0x1234_5678_u32.to_le_bytes() };
    assert_eq!((&file[..4], &file[4..8]), (&b"DSv1"[..], &number[..]));
    let long = in_order(0x1234_5678_9abc_def0_u64.to_be_bytes());
    let numbers =
        [std::f64::consts::PI, f64::INFINITY].map(|number| in_order(number.to_be_bytes()));
    assert_eq!(file[8..32], [long, numbers[0], numbers[1]].concat());
    assert!(f64::from_bits(order.number(&file[32..40])).is_nan());
}

/// The type, if the original library parses it.
fn checked_type(xml: &str) -> (String, Layout) {
    let (name, layout) = parse_type(xml);
    assert!(!xml.contains("<!--") && (1..=255).contains(&name.len()), "{xml}");
    let root = &xml[..xml.find('>').expect("a root")];
    assert!(
        !attribute(root, "namespace").is_empty()
            && attribute(root, "version").split_once('.').is_some(),
        "{root}"
    );
    let known = [
        "pack_null_compact",
        "pack_pad_record",
        "pack_field_ordering",
        "pack_unique",
        "pack_relative",
        "pack_scale",
        "opt_nullable",
    ];
    let options =
        xml.split([' ', '\n']).filter(|word| word.starts_with("pack_") || word.starts_with("opt_"));
    options.for_each(|option| {
        assert!(
            option.split('=').next().is_some_and(|key| known.contains(&key)),
            "{option} in {name}"
        )
    });
    for (index, column) in layout.columns.iter().enumerate() {
        let earlier = &layout.columns[..index];
        assert!(
            !column.name.is_empty() && column.name.len() <= 255 && !column.name.starts_with(' '),
            "{}",
            column.name
        );
        assert!(
            earlier.iter().all(|other| other.name != column.name),
            "{} twice in {name}",
            column.name
        );
        let base = earlier.iter().find(|other| other.name == column.relative);
        assert!(
            column.relative.is_empty()
                || column.relative == column.name
                || base.is_some_and(|base| base.kind == column.kind),
            "{}",
            column.name
        );
    }
    (name, layout)
}

/// Returns the size of the extent at the start of `head`.
fn check_extent(head: &[u8], name: &str, words: &[usize], layout: &Layout, order: Order) -> usize {
    let zeros = |range: std::ops::Range<usize>, what: &str| {
        assert!(head[range].iter().all(|byte| *byte == 0), "{what} of {name}")
    };
    assert!(head[27] == 0 && head[24] < 8 && head[25] < 8 && words[3] >= 4, "{name}");
    assert!(words[0] < 512 << 20 && words[1] < 512 << 20, "sizes of {name}");
    let fixed_at = (28 + name.len()).div_ceil(4) * 4;
    let variable_at = fixed_at + words[0].div_ceil(4) * 4;
    let total = variable_at + words[1].div_ceil(4) * 4;
    zeros(28 + name.len()..fixed_at, "padding of the name");
    zeros(fixed_at + words[0]..variable_at, "padding of the records");
    zeros(variable_at + words[1]..total, "padding of the pool");
    let mut fixed =
        expand(head[24], &head[fixed_at..fixed_at + words[0]], words[2] * layout.record);
    if layout.compact {
        fixed = uncompact(layout, &fixed, words[2]);
    }
    let mut pool = vec![0; 4];
    pool.extend(expand(head[25], &head[variable_at..variable_at + words[1]], words[3] - 4));
    let starts = check_pool(&pool, order);
    for record in fixed.chunks(layout.record.max(1)) {
        for column in &layout.columns {
            let is_null = null_bit(column, record);
            let size = [("byte", 1), ("int32", 4), ("variable32", 4), ("int64", 8), ("double", 8)]
                .iter()
                .find(|(kind, _)| *kind == column.kind);
            if let Some((_, size)) = size.filter(|_| is_null && column.relative.is_empty()) {
                assert!(
                    record[column.offset..column.offset + size].iter().all(|byte| *byte == 0),
                    "null {} of {name}",
                    column.name
                );
            }
            if column.kind == "variable32" {
                assert!(
                    starts.contains(&order.word(record, column.offset)),
                    "{} of {name} points into an entry",
                    column.name
                );
            }
        }
    }
    total
}

/// Where the values of a pool begin.
fn check_pool(pool: &[u8], order: Order) -> std::collections::HashSet<usize> {
    assert_eq!(pool[..4], [0; 4], "the empty value");
    let mut starts = std::collections::HashSet::from([0]);
    let mut at = 4;
    while at < pool.len() {
        let length = order.word(pool, at);
        let end = at + 4 + length + (12 - length % 8) % 8;
        assert!(length > 0, "an empty value is at 0");
        assert_eq!((at + 4) % 8, 0, "values are aligned");
        assert!(pool[at + 4 + length..end].iter().all(|byte| *byte == 0), "padding of a value");
        starts.insert(at);
        at = end;
    }
    starts
}
