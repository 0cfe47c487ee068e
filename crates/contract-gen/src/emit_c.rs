//! Generates the C headers, and one for the assembler.

use std::fmt::Write as _;

use crate::Contract;
use crate::layout::Layouts;
use crate::parse::{Constant, Enumeration, File, Item, Sight, Structure, Type};

/// The header for one file of the contract.
pub fn header(file: &File, layouts: &Layouts) -> String {
    let guard = format!("RETAKE_CONTRACT_{}_H", file.name.to_uppercase());
    let mut text = format!("/* Made of contract/{}.contract. */\n", file.name);
    let _ = writeln!(text, "#ifndef {guard}\n#define {guard}\n#include \"base/types.h\"");
    for used in &file.uses {
        let _ = writeln!(text, "#include \"contract/{used}.h\"");
    }
    for item in &file.items {
        text.push('\n');
        match item {
            Item::Constant(constant) => define(&mut text, constant),
            Item::Enumeration(enumeration) => enumerate(&mut text, enumeration),
            Item::Structure(structure) => lay_out(&mut text, structure, layouts),
        }
    }
    text += "\n#endif\n";
    text
}

fn comment(text: &mut String, docs: &[String], indent: &str) {
    if !docs.is_empty() {
        let _ = writeln!(text, "{indent}/* {} */", docs.join(&format!("\n{indent} * ")));
    }
}

fn define(text: &mut String, constant: &Constant) {
    let suffix = match constant.kind.as_str() {
        "u64" | "bytes" => "UL",
        "i64" => "L",
        "u32" => "U",
        _ => "",
    };
    comment(text, &constant.docs, "");
    let value = format!("{}{suffix}", constant.value);
    let value = if value.starts_with('-') { format!("({value})") } else { value };
    let _ = writeln!(text, "#define {} {value}", constant.name);
}

fn enumerate(text: &mut String, enumeration: &Enumeration) {
    comment(text, &enumeration.docs, "");
    let _ = writeln!(text, "enum {} {{", enumeration.name);
    for value in &enumeration.values {
        comment(text, &value.docs, "\t");
        let _ = writeln!(text, "\t{}{} = {},", enumeration.prefix, value.name, value.value);
    }
    text.push_str("};\n");
}

fn lay_out(text: &mut String, structure: &Structure, layouts: &Layouts) {
    comment(text, &structure.docs, "");
    let _ = writeln!(text, "struct {} {{", structure.name);
    for field in &structure.fields {
        comment(text, &field.docs, "\t");
        let _ = writeln!(text, "\t{};", declaration(&field.kind, &field.name));
    }
    let align = match structure.align {
        1 => String::new(),
        align => format!(" __attribute__((aligned({align})))"),
    };
    // Only a format may be initialised by the order of its fields.
    let named = if structure.sight == Sight::Format { "" } else { " FIELDS_BY_NAME" };
    let _ = writeln!(text, "}}{align}{named};");
    let name = &structure.name;
    for (field, offset) in structure.fields.iter().zip(layouts.offsets(structure)) {
        let field = &field.name;
        let _ = writeln!(
            text,
            "_Static_assert(__builtin_offsetof(struct {name}, {field}) == {offset}, \"{field}\");"
        );
    }
    let bytes = layouts.bytes(structure);
    let _ = writeln!(text, "_Static_assert(sizeof(struct {name}) == {bytes}, \"{name}\");");
}

fn declaration(kind: &Type, name: &str) -> String {
    let constant = if kind.is_constant { "const " } else { "" };
    let base = match kind.name.as_str() {
        "char" | "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => kind.name.clone(),
        structure => format!("struct {structure}"),
    };
    let star = if kind.is_pointer { "*" } else { "" };
    let count = kind.count.as_ref().map_or(String::new(), |count| format!("[{count}]"));
    format!("{constant}{base} {star}{name}{count}")
}

/// The items that the assembler needs: structures, enumerations and constants.
const FOR_ASSEMBLER: [&str; 17] = [
    "context",
    "clock",
    "quick",
    "in_object",
    "event",
    "event_kind",
    "progress",
    "turn_kind",
    "quick_way",
    "registers",
    "entry",
    "flag",
    "sections",
    "RUNTIME_TEXT",
    "REGIONS",
    "REGION_STRIDE",
    "REGION_STACK_TOP",
];

/// The header for the assembler. `STRUCTURE_FIELD` is the offset of a field.
pub fn offsets(contract: &Contract, layouts: &Layouts) -> String {
    let mut text = "/* Made of contract/, for the assembler. */\n".to_owned();
    for item in contract.files.iter().flat_map(|file| &file.items) {
        match item {
            Item::Structure(structure) if FOR_ASSEMBLER.contains(&&*structure.name) => {
                for (field, offset) in structure.fields.iter().zip(layouts.offsets(structure)) {
                    let name = format!("{}_{}", structure.name, field.name).to_uppercase();
                    let _ = writeln!(text, "#define {name} {offset:#x}");
                }
            }
            Item::Enumeration(enumeration) if FOR_ASSEMBLER.contains(&&*enumeration.name) => {
                for value in &enumeration.values {
                    let (prefix, name, value) = (&enumeration.prefix, &value.name, &value.value);
                    let _ = writeln!(text, "#define {prefix}{name} {value}");
                }
            }
            Item::Constant(constant) if FOR_ASSEMBLER.contains(&&*constant.name) => {
                let _ = writeln!(text, "#define {} {}", constant.name, constant.value);
            }
            _ => {}
        }
    }
    text
}
