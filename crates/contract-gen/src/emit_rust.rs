//! Generates Rust: a module for each file.

use std::fmt::Write as _;

use crate::Contract;
use crate::layout::Layouts;
use crate::parse::{Constant, Enumeration, File, Item, Sight, Structure, Type};

/// All modules, and what tells this contract from others: its hash, its version and its revision.
pub fn modules(
    contract: &Contract,
    layouts: &Layouts,
    hash: u64,
    (version, revision): (u64, usize),
) -> String {
    let mut text = format!(
        "/// Of all that the contract says: another one means other layouts, numbers or \
        addresses.\n\
         pub const HASH: u64 = {hash:#x};\n\
         /// The version whose layouts and numbers this build has; 0 if they are no version's.\n\
         pub const VERSION: u32 = {version};\n\
         /// How often something was added to this version.\n\
         pub const REVISION: u32 = {revision};\n"
    );
    for file in &contract.files {
        module(&mut text, file, layouts);
    }
    text
}

fn module(text: &mut String, file: &File, layouts: &Layouts) {
    document(text, &file.docs, "");
    let _ = writeln!(text, "pub mod {} {{", file.name);
    let is_shared =
        |item: &Item| matches!(item, Item::Structure(one) if one.sight == Sight::Shared);
    if file.items.iter().any(is_shared) {
        text.push_str(
            "#[allow(unused_imports)] use \
        std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64};\n",
        );
    }
    for used in &file.uses {
        let _ = writeln!(text, "#[allow(unused_imports)] use super::{used}::*;");
    }
    for item in &file.items {
        match item {
            Item::Constant(one) => constant(text, one, ""),
            Item::Enumeration(one) => enumeration(text, one),
            Item::Structure(one) if one.sight == Sight::Shared => shared(text, one, layouts),
            Item::Structure(one) => offsets(text, one, layouts),
        }
    }
    text.push_str("}\n");
}

fn document(text: &mut String, docs: &[String], indent: &str) {
    for line in docs {
        let _ = writeln!(text, "{indent}/// {line}");
    }
}

fn constant(text: &mut String, constant: &Constant, prefix: &str) {
    let kind = match constant.kind.as_str() {
        "bytes" | "count" => "usize",
        kind => kind,
    };
    document(text, &constant.docs, "");
    let _ = writeln!(text, "pub const {prefix}{}: {kind} = {};", constant.name, constant.value);
}

fn enumeration(text: &mut String, enumeration: &Enumeration) {
    for value in &enumeration.values {
        constant(text, value, &enumeration.prefix);
    }
    let Some(name) = &enumeration.rust else { return };
    document(text, &enumeration.docs, "");
    let kind = &enumeration.kind;
    let _ = writeln!(
        text,
        "#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]\n#[repr({kind})]\npub enum {name} {{"
    );
    for value in &enumeration.values {
        document(text, &value.docs, "    ");
        let _ = writeln!(text, "    {} = {},", camel(&value.name), value.value);
    }
    let variants =
        |of: &dyn Fn(&Constant) -> String| enumeration.values.iter().map(of).collect::<String>();
    let all = variants(&|value| format!("Self::{}, ", camel(&value.name)));
    let numbers =
        variants(&|value| format!("{} => Some(Self::{}), ", value.value, camel(&value.name)));
    let names = variants(&|value| format!("Self::{} => \"{}\", ", camel(&value.name), value.name));
    let count = enumeration.values.len();
    let _ = writeln!(
        text,
        "}}\nimpl {name} {{\n\
         /// All of them.\n\
         pub const ALL: [Self; {count}] = [{all}];\n\
         /// The one with that number.\n\
         pub fn from_number(number: {kind}) -> Option<Self> {{ match number {{ {numbers} _ => None }} }}\n\
         /// Its name in the documents.\n\
         pub fn name(self) -> &'static str {{ match self {{ {names} }} }}\n}}"
    );
}

/// Writes a shared structure, whose fields are atomics.
fn shared(text: &mut String, structure: &Structure, layouts: &Layouts) {
    document(text, &structure.docs, "");
    let align = match structure.align {
        1 => String::new(),
        align => format!(", align({align})"),
    };
    let _ = writeln!(text, "#[repr(C{align})]\npub struct {} {{", camel(&structure.name));
    for field in &structure.fields {
        document(text, &field.docs, "    ");
        let _ = writeln!(text, "    pub r#{}: {},", field.name, atomic(&field.kind));
    }
    text.push_str("}\n");
    let (name, bytes) = (camel(&structure.name), layouts.bytes(structure));
    let _ = writeln!(text, "const _: () = assert!(size_of::<{name}>() == {bytes});");
    for (field, offset) in structure.fields.iter().zip(layouts.offsets(structure)) {
        let field = &field.name;
        let _ = writeln!(
            text,
            "const _: () = assert!(std::mem::offset_of!({name}, r#{field}) == {offset});"
        );
    }
}

fn atomic(kind: &Type) -> String {
    let element = match kind.name.as_str() {
        "u8" | "char" => "AtomicU8".to_owned(),
        "u32" | "u64" | "i32" | "i64" => format!("Atomic{}", kind.name.to_uppercase()),
        structure => camel(structure),
    };
    match &kind.count {
        // A constant used as a length has the kind `count` or `bytes`, and so the type `usize`.
        Some(count) => format!("[{element}; {count}]"),
        None => element,
    }
}

/// Writes the offsets of a structure's fields.
fn offsets(text: &mut String, structure: &Structure, layouts: &Layouts) {
    document(text, &structure.docs, "");
    // Formats are read from slices, private structures from another process.
    let kind = if structure.sight == Sight::Format { "usize" } else { "u64" };
    let _ = writeln!(text, "pub mod {} {{\n    /// Of the whole.", structure.name);
    let _ = writeln!(text, "    pub const LAYOUT_BYTES: {kind} = {};", layouts.bytes(structure));
    for (field, offset) in structure.fields.iter().zip(layouts.offsets(structure)) {
        document(text, &field.docs, "    ");
        let _ = writeln!(text, "    pub const {}: {kind} = {offset};", field.name.to_uppercase());
    }
    text.push_str("}\n");
}

fn camel(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + &rest.to_lowercase()
    };
    name.split('_').map(word).collect()
}
