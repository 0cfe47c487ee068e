//! Expansion of compressed bytes and of compacted records.

use super::types::{Column, Layout};

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

pub(super) fn expand(mode: u8, input: &[u8], most: usize) -> Vec<u8> {
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

/// Restores the null values of records as zeros.
pub(super) fn uncompact(layout: &Layout, data: &[u8], count: usize) -> Vec<u8> {
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
