//! Describes a CALL event for people: names, values, texts, and the data to which they refer.
//! `print` makes lines from the description; other programs may make JSON from it.

use crate::bytes::{read_u32, read_u64};
use crate::call::CallRef;
use crate::description::{ArgumentDescription, CallDescription};
use crate::errno;
use crate::flags;
use crate::forms;
use crate::habits;
use crate::item::{Direction as ItemDirection, ItemRef};
use crate::layout::{element_text, socket_address};
use crate::signal;
use crate::table::{
    Argument, ArgumentKind, CallRow, Direction, LengthRule, Pointer, Row, Shape, SubRow, ValueType,
};
use crate::text::{TextOptions, quote};

/// Describes a call.
pub fn describe_call<'log>(call: &CallRef<'log>, options: &TextOptions) -> CallDescription<'log> {
    let result = call.result();
    let error = errno::of_result(result).map(|number| errno::name(number).unwrap_or("error"));
    let Some((row, sub_row)) = call.row() else {
        let name = format!("syscall_{}", call.number());
        let result_text = result_text(ValueType::Long, result);
        return CallDescription {
            name,
            command: None,
            arguments: Vec::new(),
            shown: None,
            result,
            error,
            result_text,
        };
    };
    let call_row = call.call_row().expect("a call with a row has a call row");
    let options = &habits::text_options(call_row.name, options);
    let describe = |(index, (value, argument))| {
        let argument: &Argument = argument;
        let inputs: Vec<_> = call.items_of(index, ItemDirection::Input).collect();
        let outputs: Vec<_> = call.items_of(index, ItemDirection::Output).collect();
        let text = match &argument.kind {
            ArgumentKind::Value(ValueType::Command) => command_text(call_row, sub_row, value),
            // The data of a mapped descriptor belong to this argument, but are not its value.
            ArgumentKind::Value(value_type @ ValueType::Descriptor) => {
                value_text(*value_type, value)
            }
            ArgumentKind::Value(value_type) if inputs.is_empty() && outputs.is_empty() => {
                habits::register_text(call_row.name, argument.name, value)
                    .unwrap_or_else(|| value_text(*value_type, value))
            }
            // A command without a row: the bits of its number told what to record.
            ArgumentKind::Value(_) => both(&UNKNOWN, value, &inputs, &outputs, options),
            ArgumentKind::Pointer(pointer) => {
                habits::memory_text(call_row.name, argument.name, value, &inputs, &outputs, options)
                    .unwrap_or_else(|| {
                        let is_empty = result == 0
                            && value != 0
                            && returns_bytes(pointer)
                            && outputs.is_empty()
                            && !asks_for_size(call, pointer);
                        if is_empty {
                            quote(&[], 0, options)
                        } else {
                            both(pointer, value, &inputs, &outputs, options)
                        }
                    })
            }
        };
        ArgumentDescription { name: argument.name, value, text, inputs, outputs }
    };
    let row: &'static Row = row;
    let mut description = CallDescription {
        name: call_row.name.to_string(),
        command: sub_row.map(|sub| sub.name),
        arguments: call.arguments().zip(row.arguments).enumerate().map(describe).collect(),
        shown: None,
        result,
        error,
        result_text: result_text(row.result, result),
    };
    forms::apply(&mut description, options);
    description
}

/// Describes memory of which the table says nothing.
static UNKNOWN: Pointer = Pointer {
    direction: Direction::InOut,
    shape: Shape::Plain,
    element: "u8",
    element_bytes: 1,
    length: LengthRule::Constant,
    count: 0,
    always: false,
};

fn command_text(call: &CallRow, sub_row: Option<&SubRow>, value: u64) -> String {
    let command = value as u32;
    match (sub_row, call.refused_range(command)) {
        (Some(sub), _) => sub.name.to_string(),
        (None, Some(range)) => format!("{command:#x} /* {} */", range.name),
        (None, None) if call.name == "ioctl" => ioctl_text(command),
        (None, None) => format!("{command:#x}"),
    }
}

/// Formats an ioctl command by direction, type, number and size: `_IOC(_IOC_READ, 0x54, 0x30,
/// 0x4)`.
fn ioctl_text(command: u32) -> String {
    let direction =
        ["_IOC_NONE", "_IOC_WRITE", "_IOC_READ", "_IOC_READ|_IOC_WRITE"][(command >> 30) as usize];
    let (kind, number, size) = (command >> 8 & 0xff, command & 0xff, command >> 16 & 0x3fff);
    format!("_IOC({direction}, {kind:#x}, {number:#x}, {size:#x})")
}

/// Formats a register.
pub fn value_text(value_type: ValueType, value: u64) -> String {
    match value_type {
        ValueType::DirectoryDescriptor if value as i32 == -100 => "AT_FDCWD".to_string(),
        ValueType::Descriptor
        | ValueType::DirectoryDescriptor
        | ValueType::Int
        | ValueType::Pid
        | ValueType::Uid
        | ValueType::Gid => (value as i32).to_string(),
        ValueType::Uint => (value as u32).to_string(),
        ValueType::Long | ValueType::Offset | ValueType::Time => (value as i64).to_string(),
        // Sizes are small; addresses and bit sets are not.
        ValueType::Ulong if value > 0xffff_ffff => format!("{value:#x}"),
        ValueType::Ulong | ValueType::Size => value.to_string(),
        ValueType::Mode => format!("0{:o}", value as u32),
        ValueType::Device => format!(
            "makedev({:#x}, {:#x})",
            value >> 8 & 0xfff,
            value & 0xff | value >> 12 & 0xfff00
        ),
        ValueType::Signal => signal::name(u16::try_from(value).unwrap_or(0)).into_owned(),
        ValueType::Address | ValueType::None if value == 0 => "NULL".to_string(),
        ValueType::Address | ValueType::None => format!("{value:#x}"),
        ValueType::Clock => flags::CLOCK.format(value as u32),
        ValueType::Command => format!("{:#x}", value as u32),
        ValueType::Flags(set) => set.format(value as u32),
    }
}

fn result_text(value_type: ValueType, result: i64) -> String {
    if let Some(number) = errno::of_result(result) {
        let name = errno::name(number).unwrap_or("error");
        let description = errno::description(number).unwrap_or("not in the table");
        return format!("-1 {name} ({description})");
    }
    match value_type {
        ValueType::None | ValueType::Size | ValueType::Int => result.to_string(),
        ValueType::Address => format!("{:#x}", result as u64),
        other => value_text(other, result as u64),
    }
}

/// Shows what was read, what was written, or both with `=>` between them.
fn both(
    pointer: &Pointer,
    address: u64,
    inputs: &[ItemRef<'_>],
    outputs: &[ItemRef<'_>],
    options: &TextOptions,
) -> String {
    let plain_address = || value_text(ValueType::Address, address);
    // For a receive, only the structure that says where to put the data has been read.
    let inputs = if pointer.direction == Direction::Out { &[] } else { inputs };
    let text = |items: &[ItemRef<'_>]| items_text(pointer, address, items, options);
    match (text(inputs), text(outputs)) {
        (None, None) => plain_address(),
        (Some(text), None) | (None, Some(text)) => text,
        (Some(read), Some(written)) if read == written => read,
        (Some(read), Some(written)) if is_length(pointer) => {
            format!("{} => {}", read.trim_end_matches(']'), written.trim_start_matches('['))
        }
        (Some(read), Some(written)) => format!("{read} => {written}"),
    }
}

/// Whether a call for extended attributes has a zero size and so asks only for the size of the
/// data.
fn asks_for_size(call: &CallRef<'_>, pointer: &Pointer) -> bool {
    let is_nothing = |index: u8| call.arguments().nth(usize::from(index)) == Some(0);
    let concerns_attributes = call.call_row().is_some_and(|row| row.name.contains("xattr"));
    concerns_attributes
        && matches!(pointer.length, LengthRule::ResultMaxArgument(index) if is_nothing(index))
}

fn is_single(pointer: &Pointer) -> bool {
    pointer.length == LengthRule::Constant && pointer.count == 1
}

/// Whether it points to a length that the kernel replaces with another one.
fn is_length(pointer: &Pointer) -> bool {
    is_single(pointer) && pointer.element == "u32"
}

/// Whether the result is the number of bytes written.
fn returns_bytes(pointer: &Pointer) -> bool {
    pointer.shape == Shape::Plain
        && pointer.element == "u8"
        && matches!(pointer.length, LengthRule::Result | LengthRule::ResultMaxArgument(_))
}

/// Formats the items of an argument; `None` if nothing readable was recorded.
fn items_text(
    pointer: &Pointer,
    address: u64,
    items: &[ItemRef<'_>],
    options: &TextOptions,
) -> Option<String> {
    let first = items.first()?;
    if first.faulted() {
        return None;
    }
    match pointer.shape {
        Shape::String => {
            let bytes = first.inline_bytes();
            let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
            let total = first.total_bytes() as usize
                - (bytes.len() - text.len()).min(first.total_bytes() as usize);
            // Paths are always shown in full.
            let string_bytes =
                if pointer.element == "path" { usize::MAX } else { options.string_bytes };
            Some(quote(text, total, &TextOptions { string_bytes, ..options.clone() }))
        }
        Shape::Strings | Shape::Iovec => Some(pieces_text(address, items, options)),
        Shape::Msghdr => message_text(address, items, options),
        Shape::Mmsghdr => {
            let messages = (0..)
                .map_while(|index| message_text(address.checked_add(index * 64)?, items, options));
            Some(list(messages, options))
        }
        _ => plain_text(pointer, first, options),
    }
}

/// Formats strings, or the buffers of a vector, without the array of pointers to them.
fn pieces_text(address: u64, items: &[ItemRef<'_>], options: &TextOptions) -> String {
    let pieces = items.iter().filter(|item| item.address() != address);
    list(pieces.map(|item| piece_text(item, options)), options)
}

fn piece_text(item: &ItemRef<'_>, options: &TextOptions) -> String {
    let bytes = item.inline_bytes();
    if item.faulted() || (bytes.is_empty() && item.total_bytes() > 0) {
        return format!("{:#x}", item.address());
    }
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    quote(
        text,
        item.total_bytes() as usize - (bytes.len() - text.len()).min(item.total_bytes() as usize),
        options,
    )
}

/// Formats a `struct msghdr` with its name, vector and control data.
fn message_text(address: u64, items: &[ItemRef<'_>], options: &TextOptions) -> Option<String> {
    let header =
        items.iter().position(|item| item.address() == address && item.total_bytes() >= 56)?;
    let bytes = items[header].inline_bytes().get(..56)?;
    let (name, vector, control) = (read_u64(bytes, 0), read_u64(bytes, 16), read_u64(bytes, 32));
    let of_message = items[header + 1..]
        .iter()
        .take_while(|item| item.total_bytes() != 56 || item.address() < address);
    let mut data = Vec::new();
    let (mut name_text, mut control_text) = (value_text(ValueType::Address, name), None);
    for item in of_message {
        match item.address() {
            at if at == name => name_text = address_text(item, options),
            at if at == control => control_text = Some(piece_text(item, options)),
            at if at == vector => {}
            _ => data.push(piece_text(item, options)),
        }
    }
    let control_text = control_text.unwrap_or_else(|| value_text(ValueType::Address, control));
    let data = list(data.into_iter(), options);
    let flags = flags::MESSAGE.format(read_u32(bytes, 48));
    Some(format!(
        "{{msg_name={name_text}, msg_iov={data}, msg_control={control_text}, msg_flags={flags}}}"
    ))
}

fn address_text(item: &ItemRef<'_>, options: &TextOptions) -> String {
    socket_address(item.inline_bytes(), options).unwrap_or_else(|| piece_text(item, options))
}

/// Formats elements without pointers.
fn plain_text(pointer: &Pointer, item: &ItemRef<'_>, options: &TextOptions) -> Option<String> {
    let bytes = item.inline_bytes();
    let total = item.total_bytes() as usize;
    if bytes.is_empty() && total > 0 {
        return None;
    }
    if pointer.element == "sockaddr" {
        return Some(address_text(item, options));
    }
    let size = usize::from(pointer.element_bytes);
    let single = is_single(pointer);
    if pointer.element == "u8" && !single {
        return Some(quote(bytes, total, options));
    }
    let elements: Vec<_> = match pointer.element {
        "u8" => bytes.iter().map(|byte| Some(byte.to_string())).collect(),
        "sigmask" => vec![element_text("sigmask", bytes, options)],
        element => {
            bytes.chunks_exact(size).map(|bytes| element_text(element, bytes, options)).collect()
        }
    };
    // All elements have the same type, so either each has a text or none has.
    let elements: Option<Vec<String>> = elements.into_iter().collect();
    match elements {
        Some(elements) if !elements.is_empty() && (single || pointer.shape == Shape::Sigmask) => {
            let is_number =
                matches!(pointer.element, "u16" | "i16" | "u32" | "i32" | "u64" | "i64");
            elements
                .into_iter()
                .next()
                .map(|text| if is_number { format!("[{text}]") } else { text })
        }
        Some(elements) if elements.len() * size == total || !elements.is_empty() => {
            let missing = elements.len() * size < total;
            let more = missing.then(|| "...".to_string());
            Some(list(elements.into_iter().chain(more), options))
        }
        _ => Some(quote(bytes, total, options)),
    }
}

/// Formats a list: `[a, b, ...]`.
fn list(parts: impl Iterator<Item = String>, options: &TextOptions) -> String {
    let mut shown: Vec<String> = parts.take(options.element_count.saturating_add(1)).collect();
    if shown.len() > options.element_count {
        shown.truncate(options.element_count);
        shown.push("...".to_string());
    }
    format!("[{}]", shown.join(", "))
}
