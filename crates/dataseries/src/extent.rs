//! Unpacked extents and their rows.

use std::ops::Range;
use std::sync::Arc;

use crate::bind::{FieldHandle, FieldKind, Place};
use crate::order::ByteOrder;
use crate::schema::{ExtentType, FieldType, Slot};

/// Memory of an extent that is no longer needed. It can be reused without being zeroed and mapped
/// again.
#[derive(Debug, Default)]
pub struct ExtentBuffers {
    pub(crate) fixed: Vec<u8>,
    pub(crate) pool: Vec<u8>,
}

impl ExtentBuffers {
    /// Its size in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.fixed.capacity() + self.pool.capacity()
    }
}

/// Records of one type, unpacked and checked.
#[derive(Debug)]
pub struct Extent {
    pub(crate) extent_type: Arc<ExtentType>,
    pub(crate) order: ByteOrder,
    /// Its offset in the file.
    pub(crate) offset: u64,
    pub(crate) record_count: usize,
    /// Whole records without gaps.
    pub(crate) fixed: Vec<u8>,
    /// The string pool. All offsets in `fixed` have been checked against it.
    pub(crate) pool: Vec<u8>,
}

impl Extent {
    /// The type of its records.
    pub fn extent_type(&self) -> &Arc<ExtentType> {
        &self.extent_type
    }

    /// Its offset in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of its records.
    pub fn record_count(&self) -> usize {
        self.record_count
    }

    /// Bytes of memory that its records and strings take.
    pub fn unpacked_bytes(&self) -> usize {
        self.fixed.len() + self.pool.len()
    }

    /// The string pool, which has the values of variable32 fields.
    pub fn pool(&self) -> &[u8] {
        &self.pool
    }

    /// Returns the range in [`Extent::pool`] of a value that a row of this extent returned. `None`
    /// if the value is not there.
    pub fn pool_range(&self, value: &[u8]) -> Option<Range<usize>> {
        let start = value.as_ptr().addr().checked_sub(self.pool.as_ptr().addr())?;
        let end = start.checked_add(value.len())?;
        (end <= self.pool.len()).then_some(start..end)
    }

    /// Takes its memory for [`Reader::read_into`]. The extent has no records after that.
    ///
    /// [`Reader::read_into`]: crate::Reader::read_into
    pub fn take_buffers(&mut self) -> ExtentBuffers {
        self.record_count = 0;
        ExtentBuffers {
            fixed: std::mem::take(&mut self.fixed),
            pool: std::mem::take(&mut self.pool),
        }
    }

    /// Returns record number `index`, from 0.
    pub fn row(&self, index: usize) -> Option<Row<'_>> {
        let bytes = self.extent_type.record_bytes();
        let start = index.checked_mul(bytes).filter(|_| index < self.record_count)?;
        Some(Row { extent: self, record: self.fixed.get(start..start + bytes)? })
    }

    /// All records, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> + '_ {
        // A type without fields has no records: unpacking refuses such extents.
        let records = self.fixed.chunks_exact(self.extent_type.record_bytes().max(1));
        records.map(move |record| Row { extent: self, record })
    }
}

/// The place of a whole number or bit of any width in rows of a type. Use it to read the same few
/// fields of all rows.
#[derive(Debug, Clone, Copy)]
pub struct NumberPlace {
    slot: Slot,
    null: Option<Slot>,
    width: Width,
}

#[derive(Debug, Clone, Copy)]
enum Width {
    Bit,
    Byte,
    Word,
    Long,
}

/// The place of bytes in rows of a type.
#[derive(Debug, Clone, Copy)]
pub struct BytesPlace(Place);

impl ExtentType {
    /// Returns the place of field `number`. `None` if its values are not bytes.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn bytes_place(&self, number: usize) -> Option<BytesPlace> {
        let place = Place::of(self, number);
        matches!(place.field_type, FieldType::Variable32 | FieldType::FixedWidth(_))
            .then_some(BytesPlace(place))
    }

    /// Returns the place of field `number`. `None` if its values are not whole numbers.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn number_place(&self, number: usize) -> Option<NumberPlace> {
        let place = Place::of(self, number);
        let width = match place.field_type {
            FieldType::Bool => Width::Bit,
            FieldType::Byte => Width::Byte,
            FieldType::Int32 => Width::Word,
            FieldType::Int64 => Width::Long,
            FieldType::Double | FieldType::Variable32 | FieldType::FixedWidth(_) => return None,
        };
        Some(NumberPlace { slot: place.slot, null: place.null, width })
    }
}

/// The value of a field of any type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A null of any type.
    Null,
    /// One bit.
    Bool(bool),
    /// Eight bits.
    Byte(u8),
    /// 32 bits.
    Int32(i32),
    /// 64 bits.
    Int64(i64),
    /// A floating-point number.
    Double(f64),
    /// The bytes of a variable32 or fixedwidth field.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The value as a whole number, if it is one. Bits count as 0 and 1.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Bool(value) => Some(i64::from(value)),
            Self::Byte(value) => Some(i64::from(value)),
            Self::Int32(value) => Some(i64::from(value)),
            Self::Int64(value) => Some(value),
            Self::Null | Self::Double(_) | Self::Bytes(_) => None,
        }
    }

    /// The value as bytes, if it is bytes.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// One record.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    extent: &'a Extent,
    record: &'a [u8],
}

impl<'a> Row<'a> {
    /// The type of the record.
    pub fn extent_type(&self) -> &'a Arc<ExtentType> {
        &self.extent.extent_type
    }

    /// Returns the value of a bound field. `None` for null.
    ///
    /// # Panics
    /// If the handle was made from another type.
    #[inline]
    pub fn get<K: FieldKind + ?Sized>(&self, field: &FieldHandle<K>) -> Option<K::Value<'a>> {
        field.check(&self.extent.extent_type);
        if field.place.null.is_some_and(|null| null.bit(self.record)) {
            return None;
        }
        Some(K::load(self.record, &field.place, &self.extent.pool, self.extent.order))
    }

    /// Returns a whole number or a bit. `None` if it is null. The place must be from this row's
    /// type.
    #[inline]
    pub fn number(&self, place: &NumberPlace) -> Option<i64> {
        if place.null.is_some_and(|null| null.bit(self.record)) {
            return None;
        }
        let (record, order) = (self.record, self.extent.order);
        Some(match place.width {
            Width::Bit => i64::from(place.slot.bit(record)),
            Width::Byte => i64::from(record[place.slot.offset]),
            Width::Word => i64::from(order.i32(record, place.slot.offset)),
            Width::Long => order.i64(record, place.slot.offset),
        })
    }

    /// Returns bytes. `None` if they are null. The place must be from this row's type.
    #[inline]
    pub fn bytes(&self, place: &BytesPlace) -> Option<&'a [u8]> {
        if place.0.null.is_some_and(|null| null.bit(self.record)) {
            return None;
        }
        Some(<[u8]>::load(self.record, &place.0, &self.extent.pool, self.extent.order))
    }

    /// Returns the value of field `number`.
    ///
    /// # Panics
    /// If the type has no such field.
    #[inline]
    pub fn value(&self, number: usize) -> Value<'a> {
        let place = Place::of(&self.extent.extent_type, number);
        if place.null.is_some_and(|null| null.bit(self.record)) {
            return Value::Null;
        }
        let (record, pool, order) = (self.record, &self.extent.pool, self.extent.order);
        match place.field_type {
            FieldType::Bool => Value::Bool(bool::load(record, &place, pool, order)),
            FieldType::Byte => Value::Byte(u8::load(record, &place, pool, order)),
            FieldType::Int32 => Value::Int32(i32::load(record, &place, pool, order)),
            FieldType::Int64 => Value::Int64(i64::load(record, &place, pool, order)),
            FieldType::Double => Value::Double(f64::load(record, &place, pool, order)),
            FieldType::Variable32 | FieldType::FixedWidth(_) => {
                Value::Bytes(<[u8]>::load(record, &place, pool, order))
            }
        }
    }

    /// The values of all fields, in declaration order.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.extent_type().fields().len()).map(|number| self.value(number))
    }
}
