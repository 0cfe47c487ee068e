//! What a virtual machine says about its own structures, and about where its variables lie.
//!
//! HotSpot exports tables for this purpose: fields of structures, sizes of types, and constants.
//! Each table is an array that ends with an entry without a name; further variables tell where an
//! entry has its parts.

use super::JavaError;
use crate::language::Exports;
use retake_python::Reader;
use std::collections::HashMap;

/// The most entries of a table, and the longest name that matters here.
const MOST_ENTRIES: u64 = 16 << 10;
const LONGEST_NAME: u64 = 64;

/// Where structures have their fields, by names such as `Method::_constMethod`.
#[derive(Debug, Default)]
pub struct Tables {
    /// Offsets, or addresses of variables of a class.
    fields: HashMap<String, u64>,
    sizes: HashMap<String, u64>,
    constants: HashMap<String, u64>,
}

/// One table while it is read.
struct Table<'a> {
    reader: Reader<'a>,
    exports: Exports<'a>,
    /// What the names of its variables begin with.
    prefix: &'a str,
}

impl Table<'_> {
    /// The value of one of the variables that describe the table.
    fn told(&self, what: &str) -> Option<u64> {
        self.reader.word((self.exports)(&format!("gHotSpotVM{}{what}", self.prefix))?.at, 0)
    }

    /// Calls `take` with the address of each entry.
    fn entries(&self, name: &str, mut take: impl FnMut(u64)) -> Option<()> {
        let (start, stride) = (self.told("s")?, self.told("EntryArrayStride")?);
        let name = self.told(name)?;
        for index in 0..MOST_ENTRIES {
            let entry = start.checked_add(index.checked_mul(stride)?)?;
            if self.reader.word(entry, name)? == 0 {
                break;
            }
            take(entry);
        }
        Some(())
    }
}

impl Tables {
    /// Reads the tables. `None` as long as they are not there, or cannot be true.
    pub fn read(reader: Reader<'_>, exports: Exports<'_>) -> Option<Self> {
        let mut read = Self::default();
        read.add_fields(&Table { reader, exports, prefix: "Struct" })?;
        let types = Table { reader, exports, prefix: "Type" };
        let (name, size) = (types.told("EntryTypeNameOffset")?, types.told("EntrySizeOffset")?);
        types.entries("EntryTypeNameOffset", |entry| {
            let told = reader.pointer(entry, name).and_then(|name| text(reader, name));
            read.sizes.extend(told.zip(reader.word(entry, size)));
        })?;
        let constants = Table { reader, exports, prefix: "IntConstant" };
        let name = constants.told("EntryNameOffset")?;
        let value = constants.told("EntryValueOffset")?;
        constants.entries("EntryNameOffset", |entry| {
            let told = reader.pointer(entry, name).and_then(|name| text(reader, name));
            read.constants.extend(told.zip(reader.half(entry, value).map(u64::from)));
        })?;
        Some(read)
    }

    fn add_fields(&mut self, table: &Table<'_>) -> Option<()> {
        let reader = table.reader;
        let [type_name, field_name, is_static, offset, address] = [
            "EntryTypeNameOffset",
            "EntryFieldNameOffset",
            "EntryIsStaticOffset",
            "EntryOffsetOffset",
            "EntryAddressOffset",
        ]
        .map(|what| table.told(what));
        let (type_name, field_name) = (type_name?, field_name?);
        let (is_static, offset, address) = (is_static?, offset?, address?);
        table.entries("EntryTypeNameOffset", |entry| {
            let name = |at| reader.pointer(entry, at).and_then(|name| text(reader, name));
            let value = match reader.half(entry, is_static) {
                Some(0) => reader.word(entry, offset),
                Some(_) => reader.word(entry, address),
                None => None,
            };
            let told = name(type_name).zip(name(field_name)).zip(value);
            self.fields
                .extend(told.map(|((owner, field), value)| (format!("{owner}::{field}"), value)));
        })
    }

    /// The offset of a field, or the address of a variable.
    pub fn has(&self, name: &str) -> Option<u64> {
        self.fields.get(name).copied()
    }

    /// The same, where nothing can be done without it.
    ///
    /// # Errors
    /// This machine has no such field.
    pub fn field(&self, name: &str) -> Result<u64, JavaError> {
        self.has(name).ok_or_else(|| JavaError::Unknown(name.to_owned()))
    }

    /// The first of these fields that this machine has: versions have different ones.
    ///
    /// # Errors
    /// It has none of them.
    pub fn one_of(&self, names: [&str; 2]) -> Result<u64, JavaError> {
        self.has(names[0]).map_or_else(|| self.field(names[1]), Ok)
    }

    /// The size of a type in bytes.
    ///
    /// # Errors
    /// This machine has no such type.
    pub fn size(&self, name: &str) -> Result<u64, JavaError> {
        self.sizes.get(name).copied().ok_or_else(|| JavaError::Unknown(name.to_owned()))
    }

    /// A constant.
    pub fn constant(&self, name: &str) -> Option<u64> {
        self.constants.get(name).copied()
    }
}

#[cfg(test)]
impl Tables {
    /// Tables in which a field or a type has this value, too.
    pub fn with(mut self, name: &str, value: u64) -> Self {
        let map = if name.contains("::") { &mut self.fields } else { &mut self.sizes };
        map.insert(name.to_owned(), value);
        self
    }
}

/// The C string at an address, cut where it is long.
pub fn text(reader: Reader<'_>, address: u64) -> Option<String> {
    let bytes = reader.bytes(address, LONGEST_NAME).or_else(|| {
        // It may lie at the end of its page.
        const PAGE_BYTES: u64 = 4096;
        reader.bytes(address, PAGE_BYTES - address % PAGE_BYTES)
    })?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
