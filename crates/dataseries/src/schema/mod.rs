//! Types of records: the XML text of a type, and the layout of its records.

mod construct;
mod layout;
mod library;
mod parse;

pub use construct::ExtentTypeBuilder;
pub(crate) use layout::{Layout, Slot};
pub use library::TypeLibrary;
pub(crate) use library::{INDEX_TYPE, XML_TYPE};

use crate::{Error, Result};

/// The longest name of a type or field, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Name of the built-in type of the extent that describes all other types.
pub(crate) const XML_TYPE_NAME: &str = "DataSeries: XmlType";
/// Name of the built-in type of the last extent.
pub(crate) const INDEX_TYPE_NAME: &str = "DataSeries: ExtentIndex";

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// One bit.
    Bool,
    /// Eight bits, unsigned.
    Byte,
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
    /// IEEE 754 binary64.
    Double,
    /// Up to 2³¹ arbitrary bytes.
    Variable32,
    /// Exactly this number of arbitrary bytes, at least one.
    FixedWidth(u32),
}

impl FieldType {
    /// The name in XML.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Byte => "byte",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::Variable32 => "variable32",
            Self::FixedWidth(_) => "fixedwidth",
        }
    }
}

/// A declared field with its packing options.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The name, unique in its type. It does not start with a space.
    pub name: String,
    /// The type of its values.
    pub field_type: FieldType,
    /// Whether it can be null.
    pub nullable: bool,
    /// Whether equal values of an extent are stored once (`pack_unique`, variable32 only).
    pub unique: bool,
    /// The field to which the difference is stored (`pack_relative`): an earlier one of the same
    /// type, or the field itself for the record before.
    pub relative: Option<String>,
    /// The unit of the stored value, which is rounded to a multiple of it (`pack_scale`, double
    /// only).
    pub scale: Option<f64>,
    /// A base for programs that add it to the value (`opt_doublebase`). Values here are as stored.
    pub double_base: Option<f64>,
}

/// Constructors for each type, and methods for the options. The fields explain their meaning.
impl Field {
    fn of(name: &str, field_type: FieldType) -> Self {
        Self {
            name: name.to_owned(),
            field_type,
            nullable: false,
            unique: false,
            relative: None,
            scale: None,
            double_base: None,
        }
    }

    /// Makes a field of one bit.
    pub fn bool(name: &str) -> Self {
        Self::of(name, FieldType::Bool)
    }

    /// Makes a field of eight bits.
    pub fn byte(name: &str) -> Self {
        Self::of(name, FieldType::Byte)
    }

    /// Makes a field of 32 bits.
    pub fn int32(name: &str) -> Self {
        Self::of(name, FieldType::Int32)
    }

    /// Makes a field of 64 bits.
    pub fn int64(name: &str) -> Self {
        Self::of(name, FieldType::Int64)
    }

    /// Makes a floating-point field.
    pub fn double(name: &str) -> Self {
        Self::of(name, FieldType::Double)
    }

    /// Makes a field of any number of bytes.
    pub fn variable32(name: &str) -> Self {
        Self::of(name, FieldType::Variable32)
    }

    /// Makes a field of exactly `size` bytes.
    pub fn fixed_width(name: &str, size: u32) -> Self {
        Self::of(name, FieldType::FixedWidth(size))
    }

    /// Makes the field nullable.
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Stores equal values once.
    pub fn unique(mut self) -> Self {
        self.unique = true;
        self
    }

    /// Stores the difference to the field `base`.
    pub fn relative_to(mut self, base: &str) -> Self {
        self.relative = Some(base.to_owned());
        self
    }

    /// Rounds values to multiples of `scale`.
    pub fn scaled_by(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }
}

/// The order of the groups of columns in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldOrdering {
    /// Bits, bytes, 32-bit, variable32, 64-bit.
    #[default]
    SmallToBig,
    /// 64-bit, 32-bit, variable32, bytes, bits.
    BigToSmall,
}

/// How records are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PadRecord {
    /// Always to 8 bytes.
    #[default]
    Original,
    /// To the size of the largest column.
    MaxColumnSize,
}

/// A type of records. It is immutable, and shared by everything that reads or writes such records.
#[derive(Debug)]
pub struct ExtentType {
    name: String,
    namespace: Option<String>,
    version: Option<(u32, u32)>,
    fields: Vec<Field>,
    null_compact: bool,
    ordering: FieldOrdering,
    pad: PadRecord,
    xml: String,
    layout: Layout,
}

impl ExtentType {
    /// Begins the description of a new type.
    pub fn builder(name: &str) -> ExtentTypeBuilder {
        ExtentTypeBuilder::new(name)
    }

    /// The name: 1 to 255 bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The domain name of the type's author.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Major and minor version. A reader made for `major.minor` can read the same major and any
    /// later minor.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.version
    }

    /// Whether a reader made for version `major.minor` of this type understands it.
    pub fn is_compatible(&self, major: u32, minor: u32) -> bool {
        self.version.is_some_and(|(own_major, own_minor)| own_major == major && own_minor >= minor)
    }

    /// The declared fields, in order. A field number is a position in this list.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The number of the field with this name.
    pub fn field_number(&self, name: &str) -> Option<usize> {
        self.layout.numbers.get(name).copied()
    }

    /// Whether null values take no space in files (`pack_null_compact`).
    pub fn is_null_compact(&self) -> bool {
        self.null_compact
    }

    /// The order of the columns.
    pub fn ordering(&self) -> FieldOrdering {
        self.ordering
    }

    /// How records are padded.
    pub fn pad(&self) -> PadRecord {
        self.pad
    }

    /// The XML text, byte for byte as it is in files.
    pub fn xml(&self) -> &str {
        &self.xml
    }

    /// Bytes of a record's fixed part.
    pub fn record_bytes(&self) -> usize {
        self.layout.record_bytes
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether it is a type of the format itself.
    pub(crate) fn is_built_in(&self) -> bool {
        self.name == XML_TYPE_NAME || self.name == INDEX_TYPE_NAME
    }

    /// Returns the number of a field.
    ///
    /// # Errors
    /// [`Error::UnknownField`] if there is none.
    pub fn require_field(&self, name: &str) -> Result<usize> {
        self.field_number(name).ok_or_else(|| Error::UnknownField {
            type_name: self.name.clone(),
            field: name.to_owned(),
        })
    }
}
