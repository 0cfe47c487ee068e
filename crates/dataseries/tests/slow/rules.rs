//! Rules of the description for writers that readers do not need.

use super::expand::{expand, uncompact};
use super::numbers::Order;
use super::types::{Layout, attribute, parse_type};
use super::{BUILTIN, Slow, null_bit, unpack};
use std::collections::HashMap;

/// Checks the rules for writers that readers do not need: the bytes of the header, all padding, the
/// form of the pool, nulls, and types that the original library accepts. [`super::read`] checks
/// digests, index and tail.
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

/// Returns the type if the original library accepts it.
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

/// Returns the offsets of the values in a pool.
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
