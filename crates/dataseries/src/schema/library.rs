//! The types of one file.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::{ExtentType, INDEX_TYPE_NAME, XML_TYPE_NAME};
use crate::{Error, Result};

/// The types of a file in its order, which can be found by name.
#[derive(Debug, Clone, Default)]
pub struct TypeLibrary {
    types: Vec<Arc<ExtentType>>,
    numbers: HashMap<String, usize>,
}

impl TypeLibrary {
    /// Makes a library of these types.
    ///
    /// # Errors
    /// [`Error::Schema`] if two types have the same name, or one has the name of a built-in type.
    pub fn new(types: Vec<Arc<ExtentType>>) -> Result<Self> {
        let mut library = Self::default();
        for extent_type in types {
            let number = library.types.len();
            if extent_type.is_built_in() {
                return Err(Error::schema(extent_type.name(), "this name belongs to the format"));
            }
            if library.numbers.insert(extent_type.name().to_owned(), number).is_some() {
                return Err(Error::schema(extent_type.name(), "described twice"));
            }
            library.types.push(extent_type);
        }
        Ok(library)
    }

    /// All types, in the file's order.
    pub fn types(&self) -> &[Arc<ExtentType>] {
        &self.types
    }

    /// The number of the type with exactly this name.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The type with exactly this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ExtentType>> {
        self.number(name).map(|number| &self.types[number])
    }

    /// Returns the type with exactly this name.
    ///
    /// # Errors
    /// [`Error::UnknownType`] if there is none.
    pub fn require(&self, name: &str) -> Result<&Arc<ExtentType>> {
        self.get(name).ok_or_else(|| Error::UnknownType { name: name.to_owned() })
    }

    /// Returns the types that a pattern selects, by the first of these rules that finds any: the
    /// type with that name; the types that match it as a glob with `*` and `?`; those with it as
    /// their last part, after `::`; those that start with it; those that contain it.
    pub fn matching(&self, pattern: &str) -> Vec<&Arc<ExtentType>> {
        if let Some(exact) = self.get(pattern) {
            return vec![exact];
        }
        let rules: [&dyn Fn(&str) -> bool; 4] = [
            &|name| crate::tools::glob(pattern.as_bytes(), name.as_bytes()),
            &|name| name.rsplit_once("::").is_some_and(|(_, last)| last == pattern),
            &|name| name.starts_with(pattern),
            &|name| name.contains(pattern),
        ];
        for rule in rules {
            let found: Vec<_> =
                self.types.iter().filter(|extent_type| rule(extent_type.name())).collect();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }
}

/// The type of the extent that describes all other types.
pub(crate) static XML_TYPE: LazyLock<Arc<ExtentType>> = LazyLock::new(|| {
    let xml = format!(
        "<ExtentType name=\"{XML_TYPE_NAME}\">\n  <field type=\"variable32\" name=\"xmltype\" \
        />\n</ExtentType>\n"
    );
    ExtentType::parse(&xml).expect("the built-in description is right")
});

/// The type of the index extent.
pub(crate) static INDEX_TYPE: LazyLock<Arc<ExtentType>> = LazyLock::new(|| {
    let xml = format!(
        "<ExtentType name=\"{INDEX_TYPE_NAME}\">\n  <field type=\"int64\" name=\"offset\" />\n  \
         <field type=\"variable32\" name=\"extenttype\" />\n</ExtentType>\n"
    );
    ExtentType::parse(&xml).expect("the built-in description is right")
});
