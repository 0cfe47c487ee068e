//! Typed access to one field of a type. The type is checked once, when the handle is made.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::order::ByteOrder;
use crate::schema::{ExtentType, FieldType, Slot};
use crate::{Error, Result};

/// A Rust type that fields can have: `bool`, `u8`, `i32`, `i64`, `f64`, or `[u8]` for variable32
/// and fixedwidth.
pub trait FieldKind: private::Sealed {
    /// The name of the Rust type, for errors.
    #[doc(hidden)]
    const NAME: &'static str;
    /// The type that reading a row returns.
    type Value<'row>: Copy;
    /// The type that a row is set from.
    type Input<'value>: Copy;
    /// Whether fields of this type are read and written as `Self`.
    #[doc(hidden)]
    fn accepts(field_type: FieldType) -> bool;
    /// Reads the value from a record. `pool` has the variable values.
    #[doc(hidden)]
    fn load<'row>(
        record: &'row [u8],
        place: &Place,
        pool: &'row [u8],
        order: ByteOrder,
    ) -> Self::Value<'row>;
    /// Writes a value to a record. Variable values are handled separately.
    #[doc(hidden)]
    fn store(record: &mut [u8], place: &Place, order: ByteOrder, value: Self::Input<'_>);
    /// The bytes to put into the pool, for variable fields.
    #[doc(hidden)]
    fn as_bytes<'value>(_value: Self::Input<'value>) -> Option<&'value [u8]> {
        None
    }
}

mod private {
    /// Only the types listed here can be fields.
    pub trait Sealed {}
    impl Sealed for bool {}
    impl Sealed for u8 {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
    impl Sealed for f64 {}
    impl Sealed for [u8] {}
}

/// Where a field is, and how it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub(crate) number: usize,
    pub(crate) slot: Slot,
    pub(crate) null: Option<Slot>,
    pub(crate) field_type: FieldType,
    pub(crate) unique: bool,
}

impl Place {
    /// Returns the place of field `number`, which must exist.
    #[inline]
    pub(crate) fn of(extent_type: &ExtentType, number: usize) -> Self {
        extent_type.layout().places[number]
    }
}

/// A field of a type, read and written as `K`.
///
/// It belongs to the [`ExtentType`] that it was made from. Using it with rows of another type is a
/// bug and panics.
#[derive(Debug)]
pub struct FieldHandle<K: FieldKind + ?Sized> {
    pub(crate) extent_type: Arc<ExtentType>,
    pub(crate) place: Place,
    kind: PhantomData<fn() -> Box<K>>,
}

impl<K: FieldKind + ?Sized> Clone for FieldHandle<K> {
    fn clone(&self) -> Self {
        Self { extent_type: Arc::clone(&self.extent_type), place: self.place, kind: PhantomData }
    }
}

impl<K: FieldKind + ?Sized> FieldHandle<K> {
    /// The number of the field in its type.
    pub fn number(&self) -> usize {
        self.place.number
    }

    /// Panics if the handle is for rows of another type.
    #[inline]
    pub(crate) fn check(&self, extent_type: &Arc<ExtentType>) {
        assert!(
            Arc::ptr_eq(&self.extent_type, extent_type),
            "a field handle was used with rows of another type"
        );
    }
}

impl ExtentType {
    /// Makes a typed handle for the field `name`.
    ///
    /// # Errors
    /// [`Error::UnknownField`] if there is none, [`Error::FieldType`] if it has another type.
    pub fn bind<K: FieldKind + ?Sized>(self: &Arc<Self>, name: &str) -> Result<FieldHandle<K>> {
        let number = self.require_field(name)?;
        let field_type = self.fields()[number].field_type;
        if !K::accepts(field_type) {
            return Err(Error::FieldType {
                field: name.to_owned(),
                wanted: K::NAME,
                actual: field_type.name(),
            });
        }
        Ok(FieldHandle {
            extent_type: Arc::clone(self),
            place: Place::of(self, number),
            kind: PhantomData,
        })
    }
}

/// Kinds that take a fixed number of bytes in a record.
macro_rules! plain_kind {
    ($kind:ty, $field:pat, $name:literal, $record:ident, $slot:ident, $order:ident, $value:ident,
        $load:expr, $store:expr) => {
        impl FieldKind for $kind {
            const NAME: &'static str = $name;
            type Value<'row> = $kind;
            type Input<'value> = $kind;

            fn accepts(field_type: FieldType) -> bool {
                matches!(field_type, $field)
            }

            #[inline]
            fn load<'row>(
                $record: &'row [u8],
                place: &Place,
                _pool: &'row [u8],
                $order: ByteOrder,
            ) -> $kind {
                let $slot = place.slot;
                let _ = $order;
                $load
            }

            #[inline]
            fn store($record: &mut [u8], place: &Place, $order: ByteOrder, $value: $kind) {
                let $slot = place.slot;
                let _ = $order;
                $store
            }
        }
    };
}

plain_kind!(bool, FieldType::Bool, "bool", record, slot, order, value, slot.bit(record), {
    let byte = &mut record[slot.offset];
    *byte = if value { *byte | slot.mask } else { *byte & !slot.mask };
});
plain_kind!(u8, FieldType::Byte, "byte", record, slot, order, value, record[slot.offset], {
    record[slot.offset] = value;
});
plain_kind!(
    i32,
    FieldType::Int32,
    "int32",
    record,
    slot,
    order,
    value,
    order.i32(record, slot.offset),
    order.put_i32(record, slot.offset, value)
);
plain_kind!(
    i64,
    FieldType::Int64,
    "int64",
    record,
    slot,
    order,
    value,
    order.i64(record, slot.offset),
    order.put_i64(record, slot.offset, value)
);
plain_kind!(
    f64,
    FieldType::Double,
    "double",
    record,
    slot,
    order,
    value,
    order.f64(record, slot.offset),
    order.put_f64(record, slot.offset, value)
);

impl FieldKind for [u8] {
    const NAME: &'static str = "variable32 or fixedwidth";
    type Value<'row> = &'row [u8];
    type Input<'value> = &'value [u8];

    fn accepts(field_type: FieldType) -> bool {
        matches!(field_type, FieldType::Variable32 | FieldType::FixedWidth(_))
    }

    #[inline]
    fn load<'row>(
        record: &'row [u8],
        place: &Place,
        pool: &'row [u8],
        order: ByteOrder,
    ) -> &'row [u8] {
        match place.field_type {
            FieldType::FixedWidth(size) => &record[place.slot.offset..][..size as usize],
            // The offsets were checked when the extent was unpacked.
            _ => crate::pool::value(pool, order, order.u32(record, place.slot.offset) as usize)
                .unwrap_or_default(),
        }
    }

    #[inline]
    fn store(record: &mut [u8], place: &Place, _order: ByteOrder, value: &[u8]) {
        if let FieldType::FixedWidth(size) = place.field_type {
            record[place.slot.offset..][..size as usize].copy_from_slice(value);
        }
    }

    #[inline]
    fn as_bytes<'value>(value: Self::Input<'value>) -> Option<&'value [u8]> {
        Some(value)
    }
}
