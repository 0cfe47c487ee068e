//! Relative and scaled fields: conversion between values and their stored form.
//!
//! Whole numbers wrap. With null compaction, a null value is left out of the computation. Without
//! it, its stored zero takes part.

use crate::order::ByteOrder;
use crate::schema::{ExtentType, FieldType, Slot};

/// A field, with the data for its transformation.
struct Step {
    slot: Slot,
    kind: FieldType,
    /// The null bit, only if nulls are compacted.
    null: Option<Slot>,
    /// Slot of its base field.
    base: Slot,
    scale: f64,
}

/// The transformations of a type, in declaration order.
pub(crate) struct Transform {
    order: ByteOrder,
    /// Fields relative to another field.
    others: Vec<Step>,
    /// Fields relative to the record before.
    selves: Vec<Step>,
    scaled: Vec<Step>,
}

/// The last value of a self-relative field.
#[derive(Clone, Copy, Default)]
struct Previous {
    whole: i64,
    double: f64,
}

impl Transform {
    /// Returns the transformation of a type's records. `None` if it has no such fields.
    pub(crate) fn of(extent_type: &ExtentType, order: ByteOrder) -> Option<Self> {
        let layout = extent_type.layout();
        if layout.relative.is_empty() && layout.scaled.is_empty() {
            return None;
        }
        let step = |field: usize, base: usize| Step {
            slot: layout.slots[field],
            kind: extent_type.fields()[field].field_type,
            null: layout.nulls[field].filter(|_| extent_type.is_null_compact()),
            base: layout.slots[base],
            scale: extent_type.fields()[field].scale.unwrap_or(1.0),
        };
        let relative = |to_self: bool| {
            let wanted = layout
                .relative
                .iter()
                .filter(move |relative| (relative.field == relative.base) == to_self);
            wanted.map(|relative| step(relative.field, relative.base)).collect()
        };
        let scaled = layout.scaled.iter().map(|&field| step(field, field)).collect();
        Some(Self { order, others: relative(false), selves: relative(true), scaled })
    }

    /// Converts values to their stored form, in place.
    pub(crate) fn apply(&self, fixed: &mut [u8], record_bytes: usize) {
        let order = self.order;
        let mut previous = vec![Previous::default(); self.selves.len()];
        for record in fixed.chunks_exact_mut(record_bytes) {
            // In reverse order of declaration, so that each base still has its value.
            for step in self.others.iter().rev() {
                step.combine(record, order, i64::wrapping_sub, |value, base| value - base);
            }
            for (step, previous) in self.selves.iter().zip(&mut previous) {
                if !step.is_null(record) {
                    let last = *previous;
                    *previous = step.load(record, order);
                    let value = *previous;
                    let difference = Previous {
                        whole: value.whole.wrapping_sub(last.whole),
                        double: value.double - last.double,
                    };
                    step.store(record, order, difference);
                }
            }
            for step in &self.scaled {
                // Multiplication by the inverse, not a division: other writers round this way.
                let scaled = order.f64(record, step.slot.offset) * (1.0 / step.scale);
                order.put_f64(record, step.slot.offset, scaled.round());
            }
        }
    }

    /// Converts stored values back, in place.
    pub(crate) fn undo(&self, fixed: &mut [u8], record_bytes: usize) {
        let order = self.order;
        let mut previous = vec![Previous::default(); self.selves.len()];
        for record in fixed.chunks_exact_mut(record_bytes) {
            for step in &self.scaled {
                let value = order.f64(record, step.slot.offset) * step.scale;
                order.put_f64(record, step.slot.offset, value);
            }
            for (step, previous) in self.selves.iter().zip(&mut previous) {
                if !step.is_null(record) {
                    let difference = step.load(record, order);
                    previous.whole = previous.whole.wrapping_add(difference.whole);
                    if step.kind == FieldType::Double {
                        // The sum is rounded to the scale again, or else errors would add up.
                        let sum = previous.double + difference.double;
                        previous.double = (sum * (1.0 / step.scale)).round() * step.scale;
                    }
                    step.store(record, order, *previous);
                }
            }
            for step in &self.others {
                step.combine(record, order, i64::wrapping_add, |value, base| value + base);
            }
        }
    }
}

impl Step {
    fn is_null(&self, record: &[u8]) -> bool {
        self.null.is_some_and(|null| null.bit(record))
    }

    fn load_at(&self, record: &[u8], order: ByteOrder, slot: Slot) -> Previous {
        let at = slot.offset;
        match self.kind {
            FieldType::Int32 => Previous { whole: i64::from(order.i32(record, at)), double: 0.0 },
            FieldType::Int64 => Previous { whole: order.i64(record, at), double: 0.0 },
            _ => Previous { whole: 0, double: order.f64(record, at) },
        }
    }

    fn load(&self, record: &[u8], order: ByteOrder) -> Previous {
        self.load_at(record, order, self.slot)
    }

    fn store(&self, record: &mut [u8], order: ByteOrder, value: Previous) {
        let at = self.slot.offset;
        match self.kind {
            // Truncating the 64-bit result gives the wrapped 32-bit result.
            FieldType::Int32 => order.put_i32(record, at, value.whole as i32),
            FieldType::Int64 => order.put_i64(record, at, value.whole),
            _ => order.put_f64(record, at, value.double),
        }
    }

    /// Replaces a value by the result of an operation on it and its base. A null stays as it is.
    fn combine(
        &self,
        record: &mut [u8],
        order: ByteOrder,
        whole: fn(i64, i64) -> i64,
        double: fn(f64, f64) -> f64,
    ) {
        if self.is_null(record) {
            return;
        }
        let value = self.load(record, order);
        let base = self.load_at(record, order, self.base);
        let combined = Previous {
            whole: whole(value.whole, base.whole),
            double: double(value.double, base.double),
        };
        self.store(record, order, combined);
    }
}
