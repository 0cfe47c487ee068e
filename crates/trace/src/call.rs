//! Converts between the CALL events of the runtime and the records of a trace.

use crate::look;
use retake_model::table::{self, ArgumentKind, LengthRule, Shape};
use retake_model::{CallRef, ItemDirection, ItemRef};
use retake_trace_format::{BufferDirection, TracedBuffer, TracedCall};

/// Supplies the bytes of inputs that an event has only in part, and of files to which it refers.
pub(crate) type Supply<'a> = &'a mut dyn FnMut(&ItemRef<'_>) -> Option<Vec<u8>>;

/// Makes the record of a call. Times and processor come from the event if it has them.
pub(crate) fn from_event(
    call: &CallRef<'_>,
    process: u32,
    thread: u32,
    supply: Supply<'_>,
) -> TracedCall {
    let mut traced = TracedCall {
        process,
        thread,
        number: u32::from(call.number()),
        result: call.result(),
        ..TracedCall::default()
    };
    for (to, from) in traced.arguments.iter_mut().zip(call.arguments()) {
        *to = from;
    }
    let shapes = shapes(call.number(), &traced.arguments);
    let mut moved = Vec::new();
    for item in call.items() {
        match item.direction() {
            ItemDirection::Times => {
                if let Some((entered, returned, processor)) = item.times() {
                    (traced.entered_ns, traced.returned_ns, traced.processor) =
                        (entered, returned, processor as u32);
                }
            }
            ItemDirection::Moved => moved.extend(item.inline_bytes()),
            ItemDirection::Input | ItemDirection::Output | ItemDirection::Reference
                if !item.faulted() =>
            {
                let argument = item.argument();
                let is_part = item.direction() == ItemDirection::Input
                    && item.inline_bytes().len() < item.total_bytes() as usize;
                let data = if is_part || item.direction() == ItemDirection::Reference {
                    supply(&item)
                } else {
                    None
                };
                let buffer = buffer(
                    &item,
                    data,
                    shapes.get(argument).copied().flatten(),
                    traced.arguments[argument],
                );
                traced.buffers.push(buffer);
            }
            _ => {}
        }
    }
    add_empty_strings(&mut traced, call, &shapes);
    traced.buffers.sort_by_key(|buffer| (buffer.argument, buffer.direction));
    look::add_moved(&mut traced, moved);
    traced
}

fn buffer(
    item: &ItemRef<'_>,
    data: Option<Vec<u8>>,
    shape: Option<Shape>,
    pointer: u64,
) -> TracedBuffer {
    let direction = if item.direction() == ItemDirection::Input {
        BufferDirection::Input
    } else {
        BufferDirection::Output
    };
    let mut data = data.unwrap_or_else(|| item.inline_bytes().to_vec());
    let mut total_bytes = u64::from(item.total_bytes());
    // The runtime keeps the NUL of each string in a list.
    if shape == Some(Shape::Strings) && item.address() != pointer && total_bytes > 0 {
        total_bytes -= 1;
        data.truncate(total_bytes as usize);
    }
    TracedBuffer {
        argument: item.argument() as u8,
        direction,
        address: item.address(),
        total_bytes,
        data: data.into(),
    }
}

/// Adds the empty strings, which have no item of their own.
fn add_empty_strings(traced: &mut TracedCall, call: &CallRef<'_>, shapes: &[Option<Shape>]) {
    for (index, shape) in shapes.iter().enumerate() {
        let address = traced.arguments[index];
        let is_there = || call.items_of(index, ItemDirection::Input).next().is_some();
        if *shape == Some(Shape::String) && address != 0 && !is_there() {
            let argument = index as u8;
            traced.buffers.push(TracedBuffer {
                argument,
                direction: BufferDirection::Input,
                address,
                total_bytes: 0,
                data: Vec::new().into(),
            });
        }
    }
}

/// Returns the shape of each argument that points to memory.
fn shapes(number: u16, arguments: &[u64]) -> Vec<Option<Shape>> {
    let Some(row) = table::call(number) else { return Vec::new() };
    let shape = |argument: &table::Argument| match &argument.kind {
        ArgumentKind::Pointer(pointer) => Some(pointer.shape),
        ArgumentKind::Value(_) => None,
    };
    row.resolve(arguments).0.arguments.iter().map(shape).collect()
}

const CALL: u8 = 1;

/// Keeps at most `limit` bytes of each buffer of data. Buffers that the kernel interprets, such as
/// paths and structures, stay whole.
pub fn limit_data(call: &mut TracedCall, limit: u64) {
    let Some(row) = u16::try_from(call.number).ok().and_then(table::call) else { return };
    let row = row.resolve(&call.arguments).0;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    for buffer in &mut call.buffers {
        let index = usize::from(buffer.argument);
        let Some(ArgumentKind::Pointer(pointer)) =
            row.arguments.get(index).map(|argument| &argument.kind)
        else {
            continue;
        };
        let is_data = match pointer.shape {
            Shape::Plain => pointer.element_bytes == 1 && pointer.length != LengthRule::Constant,
            Shape::Iovec => buffer.address != call.arguments[index],
            _ => false,
        };
        if is_data {
            buffer.data.truncate(limit);
        }
    }
}

/// Clears the registers beyond the arguments of a call. They hold arbitrary values.
pub(crate) fn forget_unused_arguments(call: &mut TracedCall) {
    let count = argument_count(call);
    call.arguments[count..].fill(0);
}

fn argument_count(call: &TracedCall) -> usize {
    let row = u16::try_from(call.number).ok().and_then(table::call);
    row.map_or(0, |row| row.resolve(&call.arguments).0.arguments.len())
}

/// Makes the event that the runtime would have written.
pub(crate) fn to_event(call: &TracedCall) -> Vec<u8> {
    let number = u16::try_from(call.number).unwrap_or(u16::MAX);
    let count = argument_count(call);
    let shapes = shapes(number, &call.arguments);
    let mut bytes = vec![0, 0, 0, 0, CALL, 0];
    bytes.extend(number.to_le_bytes());
    bytes.extend(call.result.to_le_bytes());
    for argument in &call.arguments[..count] {
        bytes.extend(argument.to_le_bytes());
    }
    bytes.extend([0, ItemDirection::Times as u8, 0, 0, 24, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0]);
    for word in [0, call.entered_ns, call.returned_ns, u64::from(call.processor)] {
        bytes.extend(word.to_le_bytes());
    }
    let inputs_first =
        |direction| call.buffers.iter().filter(move |buffer| buffer.direction == direction);
    for buffer in inputs_first(BufferDirection::Input).chain(inputs_first(BufferDirection::Output))
    {
        if usize::from(buffer.argument) >= count {
            continue;
        }
        bytes.extend([
            buffer.argument,
            u8::from(buffer.direction == BufferDirection::Output),
            0,
            0,
        ]);
        let argument = usize::from(buffer.argument);
        // The runtime keeps the NUL of each string in a list.
        let nul = usize::from(
            shapes.get(argument) == Some(&Some(Shape::Strings))
                && buffer.address != call.arguments[argument],
        );
        bytes.extend(((buffer.data.len() + nul) as u32).to_le_bytes());
        bytes.extend(
            (buffer.total_bytes.saturating_add(nul as u64).min(u64::from(u32::MAX)) as u32)
                .to_le_bytes(),
        );
        bytes.extend([0; 4]);
        bytes.extend(buffer.address.to_le_bytes());
        bytes.extend(&*buffer.data);
        bytes.resize(bytes.len() + nul, 0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let size = bytes.len() as u32;
    bytes[..4].copy_from_slice(&size.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::parse_event;

    #[test]
    fn calls_survive_the_way_there_and_back() {
        let input = |argument, address, data: &[u8]| TracedBuffer {
            argument,
            direction: BufferDirection::Input,
            address,
            total_bytes: data.len() as u64,
            data: data.into(),
        };
        let openat = TracedCall {
            process: 7,
            thread: 8,
            number: table::number::OPENAT.into(),
            result: 3,
            arguments: [0xffff_ff9c, 0x1000, 0, 0, 0, 0],
            buffers: vec![input(1, 0x1000, b"/etc/passwd")],
            ..TracedCall::default()
        };
        let empty =
            TracedCall { buffers: vec![input(1, 0x1000, b"")], result: -2, ..openat.clone() };
        let execve = TracedCall {
            number: table::number::EXECVE.into(),
            result: -2,
            arguments: [0x1000, 0x2000, 0, 0, 0, 0],
            buffers: vec![
                input(0, 0x1000, b"/bin/echo"),
                input(1, 0x2000, &[0x30, 0x40, 0, 0].map(u64::to_le_bytes).concat()[..24]),
                input(1, 0x30, b"echo"),
                input(1, 0x40, b"x"),
            ],
            ..openat.clone()
        };
        for call in [openat, empty, execve] {
            let bytes = to_event(&call);
            let (event, size) = parse_event(&bytes).unwrap();
            assert_eq!(size, bytes.len());
            assert_eq!(from_event(&event.as_call().unwrap(), 7, 8, &mut |_| None), call);
        }
    }

    #[test]
    fn unknown_numbers_have_no_arguments() {
        let call = TracedCall { number: 60_000, arguments: [1; 6], ..TracedCall::default() };
        assert_eq!(to_event(&call).len(), 16 + 48);
    }
}
