//! The effects of calls on a table of descriptors, independent of what the table keeps of them.

use retake_model::table::number;
use retake_model::table::{DescriptorEffect, Row};
use retake_trace_format::{BufferDirection, TracedCall};
use std::collections::BTreeMap;

pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
const F_SETFD: u32 = 2;
const F_DUPFD_CLOEXEC: u64 = 1030;
const CLOSE_RANGE_CLOEXEC: u64 = 4;
const FCNTL: u32 = number::FCNTL as u32;

/// An entry of a table of descriptors.
pub(crate) trait Descriptor: Clone {
    /// Returns whether exec closes it.
    fn closes_on_exec(&self) -> bool;

    /// Sets whether exec closes it.
    fn set_closes_on_exec(&mut self, closes: bool);

    /// Tells the entry its number.
    fn renumber(&mut self, _number: u32) {}
}

/// Descriptors by number.
pub(crate) type Table<T> = BTreeMap<u32, T>;

/// Applies the effect of a successful call to a table. `made` returns the entry for a descriptor
/// that the call made, if it is known. For a pair it is called with 0 and with 1.
pub(crate) fn change<T: Descriptor>(
    table: &mut Table<T>,
    call: &TracedCall,
    row: &Row,
    mut made: impl FnMut(usize) -> Option<T>,
) {
    let (first, second, result) =
        (call.arguments[0] as u32, call.arguments[1] as u32, call.result as u32);
    if call.number == FCNTL && second == F_SETFD {
        table
            .get_mut(&first)
            .into_iter()
            .for_each(|descriptor| descriptor.set_closes_on_exec(call.arguments[2] & 1 != 0));
    }
    match row.descriptors {
        DescriptorEffect::Unchanged | DescriptorEffect::Receives => {}
        DescriptorEffect::Makes => put(table, result, made(0)),
        DescriptorEffect::MakesPair => {
            for (index, number) in pair(call).into_iter().flatten().enumerate() {
                let mut descriptor = made(index);
                descriptor.iter_mut().for_each(|descriptor| {
                    descriptor.set_closes_on_exec(open_flags(call, row) & O_CLOEXEC != 0)
                });
                put(table, number, descriptor);
            }
        }
        DescriptorEffect::Closes => put(table, first, None),
        DescriptorEffect::ClosesRange if call.arguments[2] & CLOSE_RANGE_CLOEXEC != 0 => {
            table
                .range_mut(first..=second.max(first))
                .for_each(|(_, descriptor)| descriptor.set_closes_on_exec(true));
        }
        DescriptorEffect::ClosesRange => {
            table.retain(|number, _| !(first..=second).contains(number))
        }
        DescriptorEffect::Dups => duplicate(table, first, result, closes_copy(call, row)),
        DescriptorEffect::DupsOnto if first != second => {
            duplicate(table, first, second, closes_copy(call, row))
        }
        DescriptorEffect::DupsOnto => {}
    }
}

/// Sets an entry. An unknown one removes the old entry.
fn put<T: Descriptor>(table: &mut Table<T>, number: u32, descriptor: Option<T>) {
    match descriptor {
        Some(mut descriptor) => {
            descriptor.renumber(number);
            table.insert(number, descriptor);
        }
        None => {
            table.remove(&number);
        }
    }
}

fn duplicate<T: Descriptor>(table: &mut Table<T>, from: u32, to: u32, closes_on_exec: bool) {
    let mut copy = table.get(&from).cloned();
    copy.iter_mut().for_each(|copy| copy.set_closes_on_exec(closes_on_exec));
    put(table, to, copy);
}

/// Returns the two numbers that the kernel wrote.
fn pair(call: &TracedCall) -> Option<[u32; 2]> {
    let written = |buffer: &&retake_trace_format::TracedBuffer| {
        buffer.direction == BufferDirection::Output && buffer.data.len() >= 8
    };
    let bytes = call.buffers.iter().find(written)?.data.first_chunk::<8>()?;
    let [a, b, c, d, e, f, g, h] = *bytes;
    Some([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])])
}

/// Returns the flags that the call asked for on the new descriptor. The flags of `accept4`, `pipe2`
/// and others have the values of those of `open`.
pub(crate) fn open_flags(call: &TracedCall, row: &Row) -> u32 {
    let flags = row.arguments.iter().position(|argument| argument.name == "flags");
    let kind = row
        .arguments
        .iter()
        .position(|argument| argument.name == "type")
        .filter(|_| call.number != FCNTL);
    flags.or(kind).map_or(0, |index| call.arguments[index] as u32)
}

fn closes_copy(call: &TracedCall, row: &Row) -> bool {
    if call.number == FCNTL {
        call.arguments[1] == F_DUPFD_CLOEXEC
    } else {
        open_flags(call, row) & O_CLOEXEC != 0
    }
}
