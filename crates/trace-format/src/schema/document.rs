//! The schema as a page for people. `docs/TRACE.md` holds it, and a test compares the two.

use std::fmt::Write;

use retake_dataseries::Field;
use retake_model::table::{self, CallRow};

use super::other::{COMMON, NUMBER, PLAIN, PROCESSOR, PlainField};
use super::rule::{FieldRule, Kind, Member, Part, Side, Source, When};
use super::{CallSchema, OTHER_NAME, SCHEMA};
use crate::BufferDirection;

/// The greatest length of a line, in columns.
const COLUMNS: usize = 120;

/// Returns every type and field as Markdown.
pub fn document() -> String {
    let mut text = String::new();
    text.push_str("### Fields of every call\n\n");
    for field in COMMON.iter().chain([&NUMBER, &PROCESSOR]) {
        push_plain_field(&mut text, field);
    }
    push_field(
        &mut text,
        "retake_argument_N",
        "int64, nullable",
        "argument register N of the call, from 0",
    );
    text.push_str("\n### Calls\n");
    for schema in &SCHEMA.calls {
        push_call(&mut text, schema);
    }
    text.push_str("\n### What is not a call\n");
    for plain in &PLAIN {
        write_line(
            &mut text,
            &format!("\n#### `{}`\n\n{}\n", plain.name, plain.meaning.replace(". ", ".\n")),
        );
        plain.fields.iter().for_each(|field| push_plain_field(&mut text, field));
    }
    text
}

fn write_line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}

fn push_plain_field(text: &mut String, field: &PlainField) {
    push_field(text, field.name, &type_text(field.kind, field.nullable), field.meaning);
}

/// Appends a bullet, broken into lines.
fn push_field(text: &mut String, name: &str, type_text: &str, meaning: &str) {
    let mut line = "*".to_owned();
    for word in format!("`{name}` ({type_text}): {meaning}").split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            write_line(text, &line);
            line = " ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    write_line(text, &line);
}

fn type_text(kind: Kind, nullable: bool) -> String {
    let name = match kind {
        Kind::Bool => "bool",
        Kind::Byte => "byte",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Bytes => "variable32",
    };
    format!("{name}{}", if nullable { ", nullable" } else { "" })
}

fn push_call(text: &mut String, schema: &CallSchema) {
    let row = schema.call.calls.first().and_then(|name| table::call_by_name(name));
    write_line(text, &format!("\n#### `{}`\n", schema.name()));
    if schema.call.name == OTHER_NAME {
        text.push_str(
            "Every call without a type of its own. Its memory is in `Retake::Trace::Buffer`.\n\n",
        );
        let meaning = "name of the call, or `call_N` without one";
        push_field(text, "call_name", "variable32", meaning);
        return;
    }
    let signature = row.map_or("No call of x86-64; never written here.".to_owned(), |row| {
        format!("`{}`", signature(row))
    });
    write_line(text, &signature);
    if schema.call.fields.is_empty() {
        return;
    }
    text.push('\n');
    for rule in &schema.call.fields {
        let type_text = type_text(rule.kind, rule.nullable);
        push_field(text, rule.name, &type_text, &meaning(rule, row));
    }
    if let Some(number) = schema.address_field {
        let field: &Field = &schema.extent_type.fields()[number];
        push_field(text, &field.name, "int64, nullable", super::other::ADDRESS.meaning);
    }
}

fn signature(row: &CallRow) -> String {
    let names: Vec<&str> = row.row.arguments.iter().map(|argument| argument.name).collect();
    format!("{}({})", row.name, names.join(", "))
}

fn argument_text(argument: u8, row: Option<&CallRow>) -> String {
    let name = row
        .and_then(|row| row.row.arguments.get(usize::from(argument)))
        .map(|argument| argument.name);
    name.map_or_else(|| format!("argument {argument}"), |name| format!("argument `{name}`"))
}

fn meaning(rule: &FieldRule, row: Option<&CallRow>) -> String {
    let source = source_text(&rule.source, row);
    match rule.when {
        When::Always => source,
        When::AnyBit(argument, mask) => {
            format!("{source}; only if {} has a bit of {mask:#x}", argument_text(argument, row))
        }
        When::OneOf(argument, values) => {
            format!("{source}; only if {} is {}", argument_text(argument, row), list(values))
        }
        When::FirstRow => format!("{source}; only in the first row of a call"),
    }
}

fn list(values: &[u32]) -> String {
    let texts: Vec<String> = values.iter().map(u32::to_string).collect();
    texts.join(", ")
}

fn bits_text(what: &str, mask: u64, value: u64) -> String {
    match mask == value {
        true => format!("whether {what} has bit {mask:#x}"),
        false => format!("whether {what} & {mask:#x} is {value:#x}"),
    }
}

fn member_text(member: &Member, row: Option<&CallRow>) -> String {
    let place = argument_text(member.argument, row);
    let whose = match member.side {
        Side::Input => "the call read at",
        Side::Output => "the kernel wrote to",
        Side::Either => "was read or written at",
    };
    let unit = match member.part {
        Part::Timespec | Part::Timeval | Part::Seconds => ", in units of 2⁻³² seconds since 1970",
        _ => "",
    };
    format!("{} bytes at {} of what {whose} {place}{unit}", member.part.bytes(), member.offset)
}

fn source_text(source: &Source, row: Option<&CallRow>) -> String {
    let argument_text = |argument: u8| argument_text(argument, row);
    match *source {
        Source::Argument(argument) => argument_text(argument),
        Source::Bits { argument, mask, value } => bits_text(&argument_text(argument), mask, value),
        Source::OneOf(argument, values) => {
            format!("whether {} is one of {}", argument_text(argument), list(values))
        }
        Source::CurrentDirectory(argument) => {
            format!("whether {} is `AT_FDCWD`", argument_text(argument))
        }
        Source::FileKind(argument) => {
            format!(
                "what {} makes: 0 file, 1 character device, 2 block device, 3 FIFO, 4 socket",
                argument_text(argument)
            )
        }
        Source::Text(argument) => format!("{} with its NUL", argument_text(argument)),
        Source::FullPath { directory, path } => {
            let below = directory.map_or("the working directory".to_owned(), argument_text);
            format!(
                "{} as an absolute path, joined to that of {below}; links are not followed; \
            null if unknown",
                argument_text(path)
            )
        }
        Source::Data { argument, counted: Some(size), .. } if argument == size => {
            "what the call moved inside the kernel, as long as the result; null if that is not \
            known"
                .to_owned()
        }
        Source::Data { argument, direction, counted } => {
            let whose = if direction == BufferDirection::Input {
                "what the call read at"
            } else {
                "what the kernel wrote to"
            };
            let size = if counted.is_some() {
                ", as long as the result; null if the call failed"
            } else {
                ""
            };
            format!("{whose} {}{size}", argument_text(argument))
        }
        Source::Copy(argument) => format!("what is at {}", argument_text(argument)),
        Source::CopyBytes(argument) => format!("how many bytes are at {}", argument_text(argument)),
        Source::Member(member) => member_text(&member, row),
        Source::MemberBits { member, mask, value } => {
            bits_text(&member_text(&member, row), mask, value)
        }
        Source::TimesHave(argument, value) => {
            format!("whether a time at {} has {value:#x} nanoseconds", argument_text(argument))
        }
        Source::Result => "the result".to_owned(),
        Source::VectorIndex => "number of the vector element of this row; -1 in the first row, \
        which is about the whole call"
            .to_owned(),
        Source::VectorBytes => {
            "length of the vector element; in the first row the result".to_owned()
        }
        Source::VectorData => "what was transferred through the vector element".to_owned(),
        Source::ExecIndex => "0 in the row with the path, then one more in each row; -1 in the \
        last, which has the result"
            .to_owned(),
        Source::ExecArgument => "an argument of the program with its NUL".to_owned(),
        Source::ExecEnvironment => "a string of the environment with its NUL".to_owned(),
        Source::Unknown => "null or false: not known to the kernel's call".to_owned(),
    }
}
