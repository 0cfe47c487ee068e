//! The language of the contract, line by line.
//!
//! ```text
//! # Lines like this one directly above something say what it means.
//! use addresses                       all of another file
//! const RING_BYTES: bytes = 0x100000  a number
//! enum file_calls CALLS_: u32         names for numbers; `as Name` makes a Rust enumeration, too
//!     UNKNOWN = 0
//! struct event                        a layout
//!     size: u32
//!     names: char[32]
//!     next: *event
//! ```
//!
//! Indented lines belong to the line above. `struct` may follow a word. `shared`: the structure is
//! in memory that several processes change at the same time. `format`: it is in files, so that the
//! order of its fields must never change. `align N` may follow the name.
//!
//! Types are `u8`, `u16`, `u32`, `u64`, `i32`, `i64`, `char`, the name of a structure, `*TYPE` for
//! an address, `*const TYPE`, and `TYPE[COUNT]`. A constant may also be of the kind `bytes` (a
//! size) or `count`.

use crate::Error;

/// A file of the contract.
#[derive(Debug, Clone)]
pub struct File {
    pub name: String,
    pub docs: Vec<String>,
    pub uses: Vec<String>,
    pub items: Vec<Item>,
}

/// An item of a file.
#[derive(Debug, Clone)]
pub enum Item {
    Constant(Constant),
    Enumeration(Enumeration),
    Structure(Structure),
}

/// A named number.
#[derive(Debug, Clone)]
pub struct Constant {
    pub name: String,
    pub docs: Vec<String>,
    /// An integer type, `bytes`, or `count`.
    pub kind: String,
    /// The value as written.
    pub value: String,
}

/// An enumeration: named numbers that belong together.
#[derive(Debug, Clone)]
pub struct Enumeration {
    pub name: String,
    pub docs: Vec<String>,
    /// The prefix of each name.
    pub prefix: String,
    pub kind: String,
    /// The name of the Rust enumeration, if there is one.
    pub rust: Option<String>,
    pub values: Vec<Constant>,
}

/// Where a structure is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// In the runtime; others only know the offsets of its fields.
    Private,
    /// In several processes at once.
    Shared,
    /// In files.
    Format,
}

/// A structure.
#[derive(Debug, Clone)]
pub struct Structure {
    pub name: String,
    pub docs: Vec<String>,
    pub sight: Sight,
    /// The least alignment; 1 by default.
    pub align: u64,
    pub fields: Vec<Field>,
}

/// A field of a structure.
#[derive(Debug, Clone)]
pub struct Field {
    pub name: String,
    pub docs: Vec<String>,
    pub kind: Type,
}

/// The type of a field.
#[derive(Debug, Clone)]
pub struct Type {
    /// The name of the element type.
    pub name: String,
    pub is_pointer: bool,
    pub is_constant: bool,
    /// The number of elements as written: a number or a constant.
    pub count: Option<String>,
}

/// Parses the text of a file.
///
/// # Errors
/// A line has no meaning.
pub fn parse(name: &str, text: &str) -> Result<File, Error> {
    let mut file =
        File { name: name.to_owned(), docs: Vec::new(), uses: Vec::new(), items: Vec::new() };
    let mut docs: Vec<String> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let error = |what: &str| Error::Line {
            file: format!("{name}.contract"),
            line: index + 1,
            what: what.to_owned(),
        };
        let trimmed = line.trim();
        if let Some(words) = trimmed.strip_prefix('#') {
            docs.push(words.trim().to_owned());
        } else if trimmed.is_empty() {
            // A paragraph before an empty line is about the file.
            file.docs.append(&mut docs);
        } else if line.starts_with(' ') {
            let item = file.items.last_mut().ok_or_else(|| error("indented below nothing"))?;
            member(item, trimmed, std::mem::take(&mut docs))
                .ok_or_else(|| error("this is no member"))?;
        } else if let Some(used) = trimmed.strip_prefix("use ") {
            file.uses.push(used.trim().to_owned());
        } else {
            let item = item(trimmed, std::mem::take(&mut docs));
            file.items.push(item.ok_or_else(|| error("neither const, enum nor struct"))?);
        }
    }
    Ok(file)
}

fn item(line: &str, docs: Vec<String>) -> Option<Item> {
    if let Some(rest) = line.strip_prefix("const ") {
        let (name, rest) = rest.split_once(':')?;
        let (kind, value) = rest.split_once('=')?;
        return Some(Item::Constant(constant(name, docs, kind, value)));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    match *words.as_slice() {
        ["enum", name, prefix, kind, ref rust @ ..] => {
            let rust = match *rust {
                [] => None,
                ["as", rust] => Some(rust.to_owned()),
                _ => return None,
            };
            let (name, prefix) = (name.to_owned(), prefix.strip_suffix(':')?.to_owned());
            Some(Item::Enumeration(Enumeration {
                name,
                docs,
                prefix,
                kind: kind.to_owned(),
                rust,
                values: Vec::new(),
            }))
        }
        ["shared", "struct", name, ref rest @ ..] => structure(name, docs, Sight::Shared, rest),
        ["format", "struct", name, ref rest @ ..] => structure(name, docs, Sight::Format, rest),
        ["struct", name, ref rest @ ..] => structure(name, docs, Sight::Private, rest),
        _ => None,
    }
}

fn structure(name: &str, docs: Vec<String>, sight: Sight, rest: &[&str]) -> Option<Item> {
    let align = match rest {
        [] => 1,
        ["align", bytes] => bytes.parse().ok()?,
        _ => return None,
    };
    Some(Item::Structure(Structure {
        name: name.to_owned(),
        docs,
        sight,
        align,
        fields: Vec::new(),
    }))
}

fn constant(name: &str, docs: Vec<String>, kind: &str, value: &str) -> Constant {
    let [name, kind, value] = [name, kind, value].map(|text| text.trim().to_owned());
    Constant { name, docs, kind, value }
}

/// Adds an indented line to its item.
fn member(item: &mut Item, line: &str, docs: Vec<String>) -> Option<()> {
    match item {
        Item::Constant(_) => return None,
        Item::Enumeration(enumeration) => {
            let (name, value) = line.split_once('=')?;
            enumeration.values.push(constant(name, docs, &enumeration.kind, value));
        }
        Item::Structure(structure) => {
            let (name, kind) = line.split_once(':')?;
            structure.fields.push(Field {
                name: name.trim().to_owned(),
                docs,
                kind: field_type(kind.trim())?,
            });
        }
    }
    Some(())
}

fn field_type(text: &str) -> Option<Type> {
    let (is_pointer, text) = text.strip_prefix('*').map_or((false, text), |rest| (true, rest));
    let (is_constant, text) =
        text.strip_prefix("const ").map_or((false, text), |rest| (true, rest));
    let (name, count) = match text.split_once('[') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(']')?.to_owned())),
        None => (text, None),
    };
    let is_name = !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then(|| Type { name: name.to_owned(), is_pointer, is_constant, count })
}

/// The number that a text stands for. A negative number is in two's complement.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok().or_else(|| Some(text.parse::<i64>().ok()? as u64)),
    }
}
