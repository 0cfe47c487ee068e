//! Collection of rows of one type, until they are packed into an extent.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::bind::{FieldHandle, FieldKind, Place};
use crate::header::PART_BYTES_MAX;
use crate::order::ByteOrder;
use crate::pool::{self, POOL_START};
use crate::schema::{ExtentType, FieldType};
use crate::{Error, Result, Value};

/// The records of one extent while it is being filled.
///
/// Several builders of one type can be filled and packed in parallel on different threads. Only
/// appending the packed extents to the file is serial.
#[derive(Debug)]
pub struct ExtentBuilder {
    pub(crate) extent_type: Arc<ExtentType>,
    pub(crate) order: ByteOrder,
    pub(crate) fixed: Vec<u8>,
    pub(crate) pool: Vec<u8>,
    pub(crate) record_count: usize,
    /// A record in which no field is set.
    empty_record: Vec<u8>,
    /// Offsets of the values of unique fields, by hash.
    unique: HashMap<u64, u32>,
    hasher: RandomState,
}

impl ExtentBuilder {
    /// Makes an empty builder for files of the given byte order.
    pub fn new(extent_type: Arc<ExtentType>, order: ByteOrder) -> Self {
        Self {
            order,
            fixed: Vec::new(),
            pool: vec![0; POOL_START],
            record_count: 0,
            empty_record: extent_type.layout().empty_record(),
            unique: HashMap::new(),
            hasher: RandomState::new(),
            extent_type,
        }
    }

    /// The type of the records.
    pub fn extent_type(&self) -> &Arc<ExtentType> {
        &self.extent_type
    }

    /// The number of its rows.
    pub fn record_count(&self) -> usize {
        self.record_count
    }

    /// Bytes of its rows and strings, before compression.
    pub fn bytes(&self) -> usize {
        self.fixed.len() + self.pool.len() - POOL_START
    }

    /// Begins a row. Nullable fields are null, the others zero or empty.
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`] if the extent cannot hold more records and must be packed first.
    /// [`Error::Schema`] for a type without fields, which cannot have records.
    pub fn row(&mut self) -> Result<RowBuilder<'_>> {
        let start = self.fixed.len();
        if self.empty_record.is_empty() {
            return Err(Error::schema(
                self.extent_type.name(),
                "has no fields, so it can have no records",
            ));
        }
        self.check_part(start as u64 + self.empty_record.len() as u64)?;
        self.fixed.extend_from_slice(&self.empty_record);
        let pool_start = self.pool.len();
        Ok(RowBuilder { builder: self, start, pool_start, finished: false })
    }

    /// Refuses a part that would exceed the limit of readers.
    fn check_part(&self, bytes: u64) -> Result<()> {
        let limit = u64::from(PART_BYTES_MAX - 1);
        match bytes <= limit {
            true => Ok(()),
            false => Err(Error::RecordTooLarge {
                type_name: self.extent_type.name().to_owned(),
                bytes,
                limit,
            }),
        }
    }

    /// Puts a value into the pool, or finds it there. Returns the value of the field.
    #[inline]
    fn intern(&mut self, value: &[u8], unique: bool) -> Result<u32> {
        if value.is_empty() {
            return Ok(0);
        }
        self.check_part(self.pool.len() as u64 + pool::entry_bytes(value.len() as u64))?;
        if !unique {
            return Ok(pool::push(&mut self.pool, self.order, value));
        }
        let hash = self.hasher.hash_one(value);
        if let Some(&offset) = self.unique.get(&hash)
            && pool::value(&self.pool, self.order, offset as usize) == Some(value)
        {
            return Ok(offset);
        }
        // After a collision, the later value is found. The earlier one would be stored again, which
        // only costs space.
        let offset = pool::push(&mut self.pool, self.order, value);
        self.unique.insert(hash, offset);
        Ok(offset)
    }

    /// Frees the memory of an empty builder.
    pub(crate) fn release(&mut self) {
        assert_eq!(self.record_count, 0, "only an empty builder can be released");
        self.fixed = Vec::new();
        self.pool.shrink_to(POOL_START);
        self.unique = HashMap::new();
    }

    /// Removes all rows. Keeps memory for as many new ones, but not the memory of one huge record.
    pub(crate) fn clear(&mut self) {
        let keep = 2 * self.bytes().min(8 << 20);
        self.fixed.clear();
        self.fixed.shrink_to(keep);
        self.pool.truncate(POOL_START);
        self.pool.shrink_to(keep);
        self.unique.clear();
        self.record_count = 0;
    }
}

/// A row that is being filled. [`RowBuilder::finish`] adds it to the extent. A row that is dropped
/// earlier leaves nothing behind.
#[derive(Debug)]
#[must_use = "a row is dropped unless it is finished"]
pub struct RowBuilder<'a> {
    builder: &'a mut ExtentBuilder,
    start: usize,
    pool_start: usize,
    finished: bool,
}

impl RowBuilder<'_> {
    /// The type of the row.
    pub fn extent_type(&self) -> &Arc<ExtentType> {
        &self.builder.extent_type
    }

    /// Sets a bound field, and makes it not null.
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`] if the extent has no room for the value, [`Error::Request`] if a
    /// fixedwidth value has another size.
    ///
    /// # Panics
    /// If the handle was made from another type.
    #[inline]
    pub fn set<K: FieldKind + ?Sized>(
        &mut self,
        field: &FieldHandle<K>,
        value: K::Input<'_>,
    ) -> Result<()> {
        field.check(&self.builder.extent_type);
        self.store::<K>(&field.place, value)
    }

    #[inline]
    fn store<K: FieldKind + ?Sized>(&mut self, place: &Place, value: K::Input<'_>) -> Result<()> {
        let stored = match (place.field_type, K::as_bytes(value)) {
            (FieldType::Variable32, Some(bytes)) => Some(self.builder.intern(bytes, place.unique)?),
            (FieldType::FixedWidth(size), Some(bytes)) if bytes.len() != size as usize => {
                let name = &self.builder.extent_type.fields()[place.number].name;
                return Err(Error::Request(format!(
                    "field {name:?} takes {size} bytes, not {}",
                    bytes.len()
                )));
            }
            _ => None,
        };
        let order = self.builder.order;
        let record = &mut self.builder.fixed[self.start..];
        match stored {
            Some(offset) => order.put_u32(record, place.slot.offset, offset),
            None => K::store(record, place, order, value),
        }
        if let Some(null) = place.null {
            record[null.offset] &= !null.mask;
        }
        Ok(())
    }

    /// Sets field `number` from a value of its type, or makes it null.
    ///
    /// # Errors
    /// As [`RowBuilder::set`], and [`Error::FieldType`] if the value has another type or the field
    /// cannot be null.
    ///
    /// # Panics
    /// If the type has no such field.
    pub fn set_value(&mut self, number: usize, value: Value<'_>) -> Result<()> {
        let place = Place::of(&self.builder.extent_type, number);
        match (value, place.field_type) {
            (Value::Null, _) if place.null.is_some() => {
                self.set_null(&place);
                Ok(())
            }
            (Value::Bool(value), FieldType::Bool) => self.store::<bool>(&place, value),
            (Value::Byte(value), FieldType::Byte) => self.store::<u8>(&place, value),
            (Value::Int32(value), FieldType::Int32) => self.store::<i32>(&place, value),
            (Value::Int64(value), FieldType::Int64) => self.store::<i64>(&place, value),
            (Value::Double(value), FieldType::Double) => self.store::<f64>(&place, value),
            (Value::Bytes(value), FieldType::Variable32 | FieldType::FixedWidth(_)) => {
                self.store::<[u8]>(&place, value)
            }
            (value, _) => Err(self.mismatch(number, value)),
        }
    }

    /// Makes a nullable field null, and its stored value zero, as readers expect.
    fn set_null(&mut self, place: &Place) {
        let record = &mut self.builder.fixed[self.start..];
        match place.field_type {
            FieldType::Bool => record[place.slot.offset] &= !place.slot.mask,
            FieldType::Byte => record[place.slot.offset] = 0,
            FieldType::Int32 | FieldType::Variable32 => record[place.slot.offset..][..4].fill(0),
            FieldType::Int64 | FieldType::Double => record[place.slot.offset..][..8].fill(0),
            FieldType::FixedWidth(size) => record[place.slot.offset..][..size as usize].fill(0),
        }
        if let Some(null) = place.null {
            record[null.offset] |= null.mask;
        }
    }

    fn mismatch(&self, number: usize, value: Value<'_>) -> Error {
        let field = &self.builder.extent_type.fields()[number];
        let wanted = match value {
            Value::Null => "nullable",
            Value::Bool(_) => "bool",
            Value::Byte(_) => "byte",
            Value::Int32(_) => "int32",
            Value::Int64(_) => "int64",
            Value::Double(_) => "double",
            Value::Bytes(_) => "variable32",
        };
        Error::FieldType { field: field.name.clone(), wanted, actual: field.field_type.name() }
    }

    /// Adds the row to the extent.
    #[inline]
    pub fn finish(mut self) {
        self.builder.record_count += 1;
        self.finished = true;
    }
}

impl Drop for RowBuilder<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let pool_start = self.pool_start;
            self.builder.fixed.truncate(self.start);
            self.builder.pool.truncate(pool_start);
            self.builder.unique.retain(|_, offset| (*offset as usize) < pool_start);
        }
    }
}
