//! The values of fields, computed from a call.

use retake_model::errno;

use crate::schema::rule::{Kind, Member, Part, Side, Source, When};
use crate::{BufferDirection, TracedBuffer, TracedCall};

/// The value of a descriptor argument that means the working directory.
const AT_FDCWD: i32 = -100;

/// Returns whether a rule's condition holds. `first_row` is for types with several rows.
pub(crate) fn holds(when: When, call: &TracedCall, first_row: bool) -> bool {
    match when {
        When::Always => true,
        When::AnyBit(argument, mask) => register(call, argument) & mask != 0,
        When::OneOf(argument, values) => values.contains(&(register(call, argument) as u32)),
        When::FirstRow => first_row,
    }
}

fn register(call: &TracedCall, argument: u8) -> u64 {
    call.arguments[usize::from(argument)]
}

/// Returns the value of a source that is a number. `None` if it is unknown, or not a number.
pub(crate) fn number(source: &Source, call: &TracedCall) -> Option<i64> {
    match *source {
        Source::Argument(argument) => Some(register(call, argument) as i64),
        Source::Bits { argument, mask, value } => {
            Some(i64::from(register(call, argument) & mask == value))
        }
        Source::OneOf(argument, values) => {
            Some(i64::from(values.contains(&(register(call, argument) as u32))))
        }
        Source::CurrentDirectory(argument) => {
            Some(i64::from(register(call, argument) as i32 == AT_FDCWD))
        }
        Source::FileKind(argument) => Some(file_kind(register(call, argument))),
        Source::CopyBytes(argument) => {
            Some(buffer(call, argument, Side::Either).map_or(0, |buffer| buffer.data.len() as i64))
        }
        Source::Member(member) => self::member(call, &member),
        Source::MemberBits { member, mask, value } => {
            self::member(call, &member).map(|bits| i64::from(bits as u64 & mask == value))
        }
        Source::TimesHave(argument, value) => times_have(call, argument, value),
        Source::Result => Some(call.result).filter(|_| !call.failed()),
        _ => None,
    }
}

/// Returns the kind of file in the type bits of a mode: 0 regular, 1 character device, 2 block
/// device, 3 FIFO, 4 socket.
fn file_kind(mode: u64) -> i64 {
    match mode & 0o170_000 {
        0o020_000 => 1,
        0o060_000 => 2,
        0o010_000 => 3,
        0o140_000 => 4,
        _ => 0,
    }
}

/// Returns the buffer of an argument. If it has both directions, the output.
pub(crate) fn buffer(call: &TracedCall, argument: u8, side: Side) -> Option<&TracedBuffer> {
    let of = |direction| call.buffers_of(argument, direction).next();
    match side {
        Side::Input => of(BufferDirection::Input),
        Side::Output => of(BufferDirection::Output),
        Side::Either => of(BufferDirection::Output).or_else(|| of(BufferDirection::Input)),
    }
}

fn member(call: &TracedCall, member: &Member) -> Option<i64> {
    // The contents of a failed call's outputs mean nothing.
    if member.side == Side::Output && call.failed() {
        return None;
    }
    let data = &buffer(call, member.argument, member.side)?.data;
    part(data, usize::from(member.offset), member.part)
}

fn array<const BYTES: usize>(data: &[u8], offset: usize) -> Option<[u8; BYTES]> {
    data.get(offset..)?.first_chunk().copied()
}

/// Returns a number in a structure. `None` if the structure ends before it, or a time is invalid.
pub(crate) fn part(data: &[u8], offset: usize, part: Part) -> Option<i64> {
    let seconds = || array(data, offset).map(i64::from_le_bytes);
    // Nanoseconds have 32 bits in some structures and 64 in others, where the upper half is zero.
    let fraction = || array(data, offset + 8).map(u32::from_le_bytes);
    match part {
        Part::I16 => array(data, offset).map(|bytes| i64::from(i16::from_le_bytes(bytes))),
        Part::U16 => array(data, offset).map(|bytes| i64::from(u16::from_le_bytes(bytes))),
        Part::I32 => array(data, offset).map(|bytes| i64::from(i32::from_le_bytes(bytes))),
        Part::U32 => array(data, offset).map(|bytes| i64::from(u32::from_le_bytes(bytes))),
        Part::I64 => seconds(),
        Part::Timespec => fixed_point(seconds()?, fraction()?, 1_000_000_000),
        Part::Timeval => fixed_point(seconds()?, fraction()?, 1_000_000),
        Part::Seconds => fixed_point(seconds()?, 0, 1),
    }
}

/// Returns a time in units of 2⁻³² seconds. `None` if it does not fit, or the fraction is a code
/// such as `UTIME_NOW`.
fn fixed_point(seconds: i64, fraction: u32, per_second: u64) -> Option<i64> {
    let fraction = u64::from(fraction);
    if fraction >= per_second && fraction > 0 {
        return None;
    }
    // It is rounded up, so that rounding down gives the fraction back.
    let scaled = (fraction << 32).div_ceil(per_second);
    seconds.checked_mul(1 << 32)?.checked_add(scaled as i64)
}

fn times_have(call: &TracedCall, argument: u8, value: u32) -> Option<i64> {
    let data = &buffer(call, argument, Side::Input)?.data;
    let has = |offset| array(data, offset).map(u32::from_le_bytes) == Some(value);
    Some(i64::from(has(8) || has(24)))
}

/// Returns how many bytes a counted buffer of a call must have. `None` if there is no such number.
pub(crate) fn counted_bytes(call: &TracedCall, size_argument: u8) -> Option<usize> {
    if call.failed() || call.returned_ns == 0 {
        return None;
    }
    let result = usize::try_from(call.result).ok()?;
    let size = usize::try_from(register(call, size_argument)).unwrap_or(usize::MAX);
    Some(result.min(size))
}

/// Returns the name of a call's error.
pub(crate) fn errno_name(call: &TracedCall) -> Option<&'static str> {
    call.errno().and_then(|number| errno::name(number as u16))
}

/// Returns a number as a value of a field.
pub(crate) fn to_value(kind: Kind, number: i64) -> retake_dataseries::Value<'static> {
    use retake_dataseries::Value;
    match kind {
        Kind::Bool => Value::Bool(number != 0),
        Kind::Byte => Value::Byte(number as u8),
        Kind::Int32 => Value::Int32(number as i32),
        Kind::Int64 | Kind::Bytes => Value::Int64(number),
    }
}
