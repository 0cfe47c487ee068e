//! The rows that are not calls.

use retake_dataseries::Value;

use super::{Rows, cut};
use crate::error::Result;
use crate::schema::{SCHEMA, other};
use crate::{DescriptorKind, MappedPages, ProcessStart, StartKind};

/// The version of the types.
pub(crate) const FORMAT_VERSION: i32 = 1;

/// Adds a row with a value for every field. Null values are left out.
fn write_row(rows: &mut impl Rows, plain: usize, values: &[Value<'_>]) -> Result<()> {
    let mut row = rows.builder(SCHEMA.plain_position(plain)).row()?;
    for (field, value) in values.iter().enumerate().filter(|(_, value)| **value != Value::Null) {
        row.set_value(field, *value)?;
    }
    row.finish();
    Ok(())
}

fn i32_of(value: u32) -> Value<'static> {
    Value::Int32(value as i32)
}

fn i64_of(value: u64) -> Value<'static> {
    Value::Int64(value as i64)
}

/// Adds the record about the file.
pub(crate) fn write_header(rows: &mut impl Rows, producer: &str) -> Result<()> {
    let values = [
        Value::Int32(FORMAT_VERSION),
        i64_of(retake_model::TABLE_HASH),
        Value::Bytes(producer.as_bytes()),
    ];
    write_row(rows, other::HEADER, &values)
}

/// Adds the record that says that the trace was written to its end.
pub(crate) fn write_end(rows: &mut impl Rows, records: u64, last_id: Option<u64>) -> Result<()> {
    write_row(rows, other::END, &[i64_of(records), last_id.map_or(Value::Null, i64_of)])
}

/// Adds the record that says that others are missing.
pub(crate) fn write_incomplete(
    rows: &mut impl Rows,
    after_id: Option<u64>,
    reason: &str,
) -> Result<()> {
    write_row(
        rows,
        other::INCOMPLETE,
        &[after_id.map_or(Value::Null, i64_of), Value::Bytes(cut(reason.as_bytes()))],
    )
}

/// Returns the word for how a process began.
pub(crate) fn start_word(how: StartKind) -> &'static str {
    match how {
        StartKind::Exec => "exec",
        StartKind::Fork => "fork",
        StartKind::Attach => "attach",
    }
}

/// Words for what descriptors refer to.
pub(crate) const DESCRIPTOR_WORDS: [(DescriptorKind, &str); 9] = [
    (DescriptorKind::File, "file"),
    (DescriptorKind::Directory, "directory"),
    (DescriptorKind::CharacterDevice, "character-device"),
    (DescriptorKind::BlockDevice, "block-device"),
    (DescriptorKind::Pipe, "pipe"),
    (DescriptorKind::Socket, "socket"),
    (DescriptorKind::SymbolicLink, "symbolic-link"),
    (DescriptorKind::Anonymous, "anonymous"),
    (DescriptorKind::Unknown, "unknown"),
];

fn descriptor_word(kind: DescriptorKind) -> &'static str {
    DESCRIPTOR_WORDS.iter().find(|(other, _)| *other == kind).map_or("unknown", |(_, word)| word)
}

/// Adds the start of a process with its descriptors and limits.
pub(crate) fn write_start(rows: &mut impl Rows, start: &ProcessStart) -> Result<()> {
    let credentials = &start.credentials;
    let groups: Vec<String> = credentials.groups.iter().map(u32::to_string).collect();
    let groups = groups.join(" ");
    let mut arguments = Vec::new();
    for argument in &start.arguments {
        arguments.extend_from_slice(argument);
        arguments.push(0);
    }
    let values = [
        i64_of(start.id),
        i64_of(start.time_ns),
        i32_of(start.process),
        i32_of(start.thread),
        i32_of(start.parent),
        i32_of(start.session),
        i32_of(start.process_group),
        Value::Bytes(start_word(start.how).as_bytes()),
        Value::Bytes(&start.working_directory),
        Value::Bytes(&start.root),
        i32_of(start.umask),
        i32_of(credentials.uid),
        i32_of(credentials.effective_uid),
        i32_of(credentials.saved_uid),
        i32_of(credentials.filesystem_uid),
        i32_of(credentials.gid),
        i32_of(credentials.effective_gid),
        i32_of(credentials.saved_gid),
        i32_of(credentials.filesystem_gid),
        Value::Bytes(groups.as_bytes()),
        Value::Bytes(&start.executable),
        Value::Bytes(cut(&arguments)),
    ];
    write_row(rows, other::PROCESS_START, &values)?;
    for descriptor in &start.descriptors {
        let values = [
            i64_of(start.id),
            i32_of(descriptor.number),
            Value::Bytes(&descriptor.path),
            Value::Bytes(descriptor_word(descriptor.kind).as_bytes()),
            i64_of(descriptor.offset),
            i32_of(descriptor.flags),
        ];
        write_row(rows, other::DESCRIPTOR, &values)?;
    }
    for limit in &start.limits {
        write_row(
            rows,
            other::LIMIT,
            &[i64_of(start.id), i32_of(limit.resource), i64_of(limit.soft), i64_of(limit.hard)],
        )?;
    }
    Ok(())
}

/// Adds pages that were read or written through a mapping.
pub(crate) fn write_mapped(rows: &mut impl Rows, pages: &MappedPages) -> Result<()> {
    let plain = if pages.write { other::MAPPED_WRITE } else { other::MAPPED_READ };
    let (data, address) =
        if pages.write { ("data_written", "retake_address") } else { ("data_read", "address") };
    let extent_type = &SCHEMA.plain[plain];
    let mut row = rows.builder(SCHEMA.plain_position(plain)).row()?;
    let is_cut = cut(&pages.data).len() < pages.data.len();
    let values = [
        ("unique_id", i64_of(pages.id)),
        ("executing_pid", i32_of(pages.process)),
        ("executing_tid", i32_of(pages.thread)),
        ("time_called", i64_of(pages.time_ns)),
        ("time_returned", i64_of(pages.time_ns)),
        ("return_value", i64_of(pages.data.len() as u64)),
        ("errno_number", Value::Int32(0)),
        ("buffer_not_captured", Value::Bool(is_cut)),
        ("bytes_requested", i64_of(pages.data.len() as u64)),
        ("descriptor", Value::Int32(-1)),
        ("offset", i64_of(pages.file_offset)),
        ("retake_path", Value::Bytes(&pages.path)),
        (data, Value::Bytes(cut(&pages.data))),
        (address, i64_of(pages.address)),
    ];
    for (name, value) in values {
        row.set_value(extent_type.require_field(name)?, value)?;
    }
    row.finish();
    Ok(())
}
