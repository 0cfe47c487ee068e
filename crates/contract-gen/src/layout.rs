//! Computes the offsets of fields by the rules of C on x86-64. Assertions in the C headers confirm
//! them.

use std::collections::HashMap;

use crate::parse::{self, Item, Structure, Type};
use crate::{Contract, Error};

/// Size and alignment of something, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    bytes: u64,
    align: u64,
}

/// The layouts of all structures, and the values of all constants.
#[derive(Debug, Default)]
pub struct Layouts {
    extents: HashMap<String, Extent>,
    offsets: HashMap<String, Vec<u64>>,
    numbers: HashMap<String, u64>,
}

/// Computes all layouts.
///
/// # Errors
/// A name is unknown, or has two meanings.
pub fn compute(contract: &Contract) -> Result<Layouts, Error> {
    let mut layouts = Layouts::default();
    for (name, bytes) in
        [("u8", 1), ("char", 1), ("u16", 2), ("u32", 4), ("i32", 4), ("u64", 8), ("i64", 8)]
    {
        layouts.extents.insert(name.to_owned(), Extent { bytes, align: bytes });
    }
    for item in contract.files.iter().flat_map(|file| &file.items) {
        match item {
            Item::Constant(constant) => layouts.define(&constant.name, &constant.value)?,
            Item::Enumeration(enumeration) => {
                for value in &enumeration.values {
                    let name = format!("{}{}", enumeration.prefix, value.name);
                    layouts.define(&name, &value.value)?;
                }
            }
            Item::Structure(structure) => layouts.place(structure)?,
        }
    }
    Ok(layouts)
}

impl Layouts {
    fn define(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let number = self.number(value)?;
        match self.numbers.insert(name.to_owned(), number) {
            None => Ok(()),
            Some(_) => Err(Error::Meaning(format!("there are two of {name}"))),
        }
    }

    /// The value of a number or a constant.
    pub fn number(&self, text: &str) -> Result<u64, Error> {
        let known = parse::number(text).or_else(|| self.numbers.get(text).copied());
        known.ok_or_else(|| Error::Meaning(format!("{text} is neither a number nor a constant")))
    }

    fn extent(&self, kind: &Type) -> Result<Extent, Error> {
        let one = match self.extents.get(&kind.name) {
            // A pointer's target may be unknown.
            _ if kind.is_pointer => Extent { bytes: 8, align: 8 },
            Some(extent) => *extent,
            None => return Err(Error::Meaning(format!("there is no type {}", kind.name))),
        };
        let count = kind.count.as_ref().map_or(Ok(1), |count| self.number(count))?;
        Ok(Extent { bytes: one.bytes * count, align: one.align })
    }

    fn place(&mut self, structure: &Structure) -> Result<(), Error> {
        let (mut end, mut align) = (0_u64, structure.align);
        let mut offsets = Vec::new();
        for field in &structure.fields {
            let extent = self.extent(&field.kind)?;
            let offset = end.next_multiple_of(extent.align);
            offsets.push(offset);
            end = offset + extent.bytes;
            align = align.max(extent.align);
        }
        let extent = Extent { bytes: end.next_multiple_of(align), align };
        if self.extents.insert(structure.name.clone(), extent).is_some() {
            return Err(Error::Meaning(format!("there are two structures {}", structure.name)));
        }
        self.offsets.insert(structure.name.clone(), offsets);
        Ok(())
    }

    /// The size of a structure in bytes.
    pub fn bytes(&self, structure: &Structure) -> u64 {
        self.extents[&structure.name].bytes
    }

    /// The offsets of a structure's fields, in order.
    pub fn offsets(&self, structure: &Structure) -> &[u64] {
        &self.offsets[&structure.name]
    }
}
