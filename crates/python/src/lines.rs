//! The line of an instruction, from the table in a code object.
//!
//! Each version has one of three forms. A table is a list of entries, each for some instructions.

use crate::layout::Version;

/// The line of the instruction at `offset` bytes; `None` if none belongs to it.
pub(crate) fn line(version: Version, table: &[u8], first: i32, offset: i64) -> Option<i32> {
    if offset < 0 {
        return Some(first);
    }
    match version.0 {
        ..=9 => Some(by_increments(table, first, offset)),
        10 => by_ranges(table, first, offset),
        _ => by_places(table, first, offset),
    }
}

/// Pairs of increments: of the offset, and of the line.
fn by_increments(table: &[u8], first: i32, offset: i64) -> i32 {
    let (mut line, mut covered) = (first, 0);
    for &[bytes, lines] in table.as_chunks().0 {
        covered += i64::from(bytes);
        if covered > offset {
            break;
        }
        line = line.saturating_add(i32::from(lines as i8));
    }
    line
}

/// Pairs for consecutive ranges: the bytes, and how much more the line is than the last one.
fn by_ranges(table: &[u8], first: i32, offset: i64) -> Option<i32> {
    const NO_LINE: i8 = -128;
    let (mut line, mut covered) = (first, 0);
    for &[bytes, lines] in table.as_chunks().0 {
        let lines = lines as i8;
        if lines != NO_LINE {
            line = line.saturating_add(i32::from(lines));
        }
        covered += i64::from(bytes);
        if offset < covered {
            return (lines != NO_LINE).then_some(line);
        }
    }
    None
}

/// Entries for consecutive instructions. The first byte has the form, and the instructions.
fn by_places(table: &[u8], first: i32, offset: i64) -> Option<i32> {
    const NONE: u8 = 15;
    const LONG: u8 = 14;
    const NO_COLUMNS: u8 = 13;
    const ONE_LINE: u8 = 10;
    let mut bytes = table.iter().copied();
    let (mut line, mut covered) = (first, 0);
    while let Some(head) = bytes.next() {
        let form = head >> 3 & 15;
        match form {
            NONE => {}
            LONG => {
                line = line.saturating_add(signed(&mut bytes)?);
                for _ in 0..3 {
                    unsigned(&mut bytes)?;
                }
            }
            NO_COLUMNS => line = line.saturating_add(signed(&mut bytes)?),
            ONE_LINE.. => {
                line = line.saturating_add(i32::from(form - ONE_LINE));
                bytes.nth(1)?;
            }
            _ => {
                bytes.next()?;
            }
        }
        covered += (i64::from(head & 7) + 1) * 2;
        if offset < covered {
            return (form != NONE).then_some(line);
        }
    }
    None
}

/// A number in groups of six bits, the lowest first.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(6) {
        let byte = bytes.next()?;
        value |= u32::from(byte & 0x3f) << shift;
        if byte & 0x40 == 0 {
            return Some(value);
        }
    }
    None
}

/// The same, with the sign in the lowest bit.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i32> {
    let value = unsigned(bytes)?;
    let size = (value >> 1) as i32;
    Some(if value & 1 == 1 { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_form_is_understood() {
        let of = |version, table, offset| line(Version(version), table, 10, offset);
        let cases: [(u8, &[u8], i64, Option<i32>); 16] = [
            (8, &[6, 1, 4, 255], 0, Some(10)),
            (8, &[6, 1, 4, 255], 6, Some(11)),
            (9, &[6, 1, 4, 255], 10, Some(10)),
            (9, &[], -1, Some(10)),
            (10, &[4, 1, 2, 128, 2, 3], 0, Some(11)),
            (10, &[4, 1, 2, 128, 2, 3], 4, None),
            (10, &[4, 1, 2, 128, 2, 3], 6, Some(14)),
            (10, &[4, 1, 2, 128, 2, 3], 8, None),
            // One line further, with columns; then four instructions without a line.
            (11, &[0x80 | 11 << 3, 0, 0, 0x80 | 15 << 3 | 3], 0, Some(11)),
            (11, &[0x80 | 11 << 3, 0, 0, 0x80 | 15 << 3 | 3], 2, None),
            // Two lines back, and short forms that stay there.
            (12, &[0x80 | 13 << 3, 5, 0x80 | 2 << 3, 0], 2, Some(8)),
            // 70 lines further, in the long form.
            (13, &[0x80 | 14 << 3, 0x40 | 12, 2, 0, 1, 1], 1, Some(80)),
            (13, &[0x80 | 14 << 3, 0x40 | 12, 2, 0, 1], 1, None),
            (13, &[0x80 | 14 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f], 1, None),
            (13, &[], -2, Some(10)),
            (13, &[], 0, None),
        ];
        for (version, table, offset, expected) in cases {
            assert_eq!(of(version, table, offset), expected, "3.{version} {table:?} {offset}");
        }
    }

    proptest! {
        #[test]
        fn any_table_ends(version in 8_u8..14, table: Vec<u8>, first: i32, offset: i64) {
            line(Version(version), &table, first, offset);
        }
    }
}
