//! The layout of columns in the fixed part of a record.

use std::collections::HashMap;

use super::{Field, FieldOrdering, FieldType, PadRecord};
use crate::bind::Place;

/// The place of one value in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Slot {
    /// Offset of its first byte from the start of the record.
    pub(crate) offset: usize,
    /// Mask of its bit in that byte, only for bits.
    pub(crate) mask: u8,
}

impl Slot {
    /// Returns the bit. The caller has checked that `record` is a whole record.
    #[inline]
    pub(crate) fn bit(self, record: &[u8]) -> bool {
        record[self.offset] & self.mask != 0
    }
}

/// A field stored as the difference to another value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relative {
    /// Number of the field.
    pub(crate) field: usize,
    /// Number of the base field. The same number means the record before.
    pub(crate) base: usize,
}

/// A column that null compaction can leave out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactColumn {
    /// Offset in the record.
    pub(crate) offset: usize,
    /// Bytes of the value.
    pub(crate) bytes: usize,
    /// Alignment of the value in the compacted record: 1, 4 or 8.
    pub(crate) align: usize,
    /// The null bit, if the field is nullable.
    pub(crate) null: Option<Slot>,
}

/// The layout of a type's records. It is computed once from the fields.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Bytes of a record.
    pub(crate) record_bytes: usize,
    /// Value slot of each field.
    pub(crate) slots: Vec<Slot>,
    /// Null slot of each field.
    pub(crate) nulls: Vec<Option<Slot>>,
    /// The data needed to read or write each field, in one place, because rows are read field by
    /// field.
    pub(crate) places: Vec<Place>,
    /// Numbers of the variable32 fields.
    pub(crate) variable: Vec<usize>,
    /// Fields stored as differences, in declaration order.
    pub(crate) relative: Vec<Relative>,
    /// Numbers of the scaled fields.
    pub(crate) scaled: Vec<usize>,
    /// Bytes at the start of a record that hold bits. Null compaction keeps them.
    pub(crate) bool_bytes: usize,
    /// The columns that null compaction packs, in this order.
    pub(crate) compact: Vec<CompactColumn>,
    /// Field numbers by name.
    pub(crate) numbers: HashMap<String, usize>,
}

/// Offsets while they are being assigned.
struct Cursor<'a> {
    fields: &'a [Field],
    layout: Layout,
    at: usize,
}

impl Layout {
    /// Lays out `fields`. The caller has limited their total size.
    pub(crate) fn new(fields: &[Field], ordering: FieldOrdering, pad: PadRecord) -> Self {
        let mut cursor = Cursor { fields, layout: Self::default(), at: 0 };
        cursor.layout.slots = vec![Slot::default(); fields.len()];
        cursor.layout.nulls = vec![None; fields.len()];
        let four = fields
            .iter()
            .any(|field| matches!(field.field_type, FieldType::Int32 | FieldType::Variable32));
        let eight = fields
            .iter()
            .any(|field| matches!(field.field_type, FieldType::Int64 | FieldType::Double));
        let original = pad == PadRecord::Original;
        match ordering {
            FieldOrdering::SmallToBig => {
                cursor.bits();
                cursor.bytes();
                cursor.align(if original || four { 4 } else { 1 });
                cursor.group(4, |kind| kind == FieldType::Int32);
                cursor.group(4, |kind| kind == FieldType::Variable32);
                cursor.align(if original || eight { 8 } else { 1 });
                cursor.group(8, |kind| matches!(kind, FieldType::Int64 | FieldType::Double));
            }
            FieldOrdering::BigToSmall => {
                cursor.group(8, |kind| matches!(kind, FieldType::Int64 | FieldType::Double));
                cursor.group(4, |kind| kind == FieldType::Int32);
                cursor.group(4, |kind| kind == FieldType::Variable32);
                cursor.bytes();
                cursor.bits();
                cursor.align(match (original || eight, four) {
                    (true, _) => 8,
                    (false, true) => 4,
                    (false, false) => 1,
                });
            }
        }
        cursor.layout.record_bytes = cursor.at;
        cursor.layout.finish(fields);
        cursor.layout
    }

    /// Makes a record with every nullable field null and everything else zero.
    pub(crate) fn empty_record(&self) -> Vec<u8> {
        let mut record = vec![0; self.record_bytes];
        for null in self.nulls.iter().flatten() {
            record[null.offset] |= null.mask;
        }
        record
    }

    /// Computes the rest from the slots.
    fn finish(&mut self, fields: &[Field]) {
        self.numbers =
            fields.iter().enumerate().map(|(number, field)| (field.name.clone(), number)).collect();
        for (number, field) in fields.iter().enumerate() {
            let (slot, null) = (self.slots[number], self.nulls[number]);
            self.places.push(Place {
                number,
                slot,
                null,
                field_type: field.field_type,
                unique: field.unique,
            });
            if field.field_type == FieldType::Variable32 {
                self.variable.push(number);
            }
            if field.scale.is_some() {
                self.scaled.push(number);
            }
            if let Some(base) = field.relative.as_ref().and_then(|base| self.numbers.get(base)) {
                self.relative.push(Relative { field: number, base: *base });
            }
            let (bytes, align) = match field.field_type {
                FieldType::Bool => continue,
                FieldType::Byte => (1, 1),
                FieldType::FixedWidth(size) => (size as usize, 1),
                FieldType::Int32 | FieldType::Variable32 => (4, 4),
                FieldType::Int64 | FieldType::Double => (8, 8),
            };
            self.compact.push(CompactColumn { offset: slot.offset, bytes, align, null });
        }
        self.compact.sort_by_key(|column| (column.align, column.offset));
    }
}

impl Cursor<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    /// Assigns 4 or 8 bytes to each field of the wanted kind.
    fn group(&mut self, bytes: usize, wanted: impl Fn(FieldType) -> bool) {
        for (number, field) in self.fields.iter().enumerate() {
            if wanted(field.field_type) {
                self.layout.slots[number].offset = self.at;
                self.at += bytes;
            }
        }
    }

    /// Assigns bytes to the byte and fixed-width fields.
    fn bytes(&mut self) {
        for (number, field) in self.fields.iter().enumerate() {
            let bytes = match field.field_type {
                FieldType::Byte => 1,
                FieldType::FixedWidth(size) => size as usize,
                _ => continue,
            };
            self.layout.slots[number].offset = self.at;
            self.at += bytes;
        }
    }

    /// Assigns bits to bool fields and to null flags. A null flag follows its field.
    fn bits(&mut self) {
        let start = self.at;
        let mut count = 0;
        let mut next = || {
            let slot = Slot { offset: start + count / 8, mask: 1 << (count % 8) };
            count += 1;
            slot
        };
        for (number, field) in self.fields.iter().enumerate() {
            if field.field_type == FieldType::Bool {
                self.layout.slots[number] = next();
            }
            if field.nullable {
                self.layout.nulls[number] = Some(next());
            }
        }
        self.at += count.div_ceil(8);
        self.layout.bool_bytes = if count == 0 { 0 } else { self.at };
    }
}
