//! Rows of calls.

use retake_dataseries::{BytesPlace, ExtentType, NumberPlace, Row};
use retake_model::table::{self, ArgumentKind, LengthRule};

use super::field_number;
use crate::data::SharedRow;
use crate::encode::holder;
use crate::schema::rule::{Kind, Part, Side, Source};
use crate::schema::{CallSchema, Rows, other};
use crate::{BufferDirection, TracedBuffer, TracedCall};

/// The places of a call's parts in the rows of a file's type. Other programs' files lack some of
/// them.
#[derive(Debug)]
pub(crate) struct CallFields {
    pub schema: &'static CallSchema,
    /// Whether rows hold whole calls, as this crate writes them.
    pub is_own: bool,
    id_field: Option<usize>,
    common: Vec<Option<NumberPlace>>,
    rules: Vec<Option<usize>>,
    /// Fields that stand for buffers.
    held: Vec<Held>,
    arguments: Vec<Option<NumberPlace>>,
    number: Option<NumberPlace>,
    processor: Option<NumberPlace>,
    address: Option<NumberPlace>,
}

/// A field that stands for a buffer of a call.
#[derive(Debug)]
struct Held {
    place: BytesPlace,
    argument: u8,
    direction: BufferDirection,
    /// Whether the field ends with a NUL that is not part of the string.
    is_text: bool,
}

/// The position of the id in [`other::COMMON`].
const ID: usize = 13;

fn number(row: &Row<'_>, place: &Option<NumberPlace>) -> Option<i64> {
    row.number(place.as_ref()?)
}

/// A call that is being assembled.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartCall {
    pub call: TracedCall,
    /// Buffers that fields stand for, unless records of their own replace them.
    pub held: Vec<TracedBuffer>,
    /// Buffers that have rows of their own.
    pub pieces: Vec<TracedBuffer>,
    /// The lengths of the elements of a vector. Only for other programs' files.
    pub lengths: Vec<u64>,
    /// The size of all data.
    pub bytes: u64,
    pub is_own: bool,
}

impl CallFields {
    pub fn new(schema: &'static CallSchema, file: &ExtentType) -> Self {
        let of = |name: &str, kind| file.number_place(field_number(file, name, kind)?);
        let number = of(other::NUMBER.name, Kind::Int32);
        let id = &other::COMMON[ID];
        let held = |&rule: &usize| {
            let rule = &schema.call.fields[rule];
            let (direction, argument) = holder(&rule.source)?;
            let place = file.bytes_place(field_number(file, rule.name, rule.kind)?)?;
            Some(Held {
                place,
                argument,
                direction,
                is_text: matches!(rule.source, Source::Text(_)),
            })
        };
        Self {
            schema,
            is_own: number.is_some(),
            id_field: field_number(file, id.name, id.kind),
            common: other::COMMON.iter().map(|field| of(field.name, field.kind)).collect(),
            rules: schema
                .call
                .fields
                .iter()
                .map(|rule| field_number(file, rule.name, rule.kind))
                .collect(),
            held: schema.holders.iter().filter_map(held).collect(),
            arguments: other::ARGUMENTS.iter().map(|name| of(name, Kind::Int64)).collect(),
            number,
            processor: of(other::PROCESSOR.name, Kind::Int32),
            address: of(other::ADDRESS.name, Kind::Int64),
        }
    }

    /// Returns the number of the field with the id.
    pub fn id_field(&self) -> Option<usize> {
        self.id_field
    }

    fn common(&self, row: &Row<'_>, index: usize) -> Option<i64> {
        number(row, &self.common[index])
    }

    /// Returns the id of a row.
    pub fn id(&self, row: &Row<'_>) -> u64 {
        self.common(row, ID).unwrap_or(0) as u64
    }

    /// Returns the process of a row.
    pub fn process(&self, row: &Row<'_>) -> u32 {
        self.common(row, 4).unwrap_or(0) as u32
    }

    /// Returns whether the row was made only for other programs, and stands for no call.
    pub fn stands_for_nothing(&self, row: &Row<'_>) -> bool {
        self.is_own && number(row, &self.number).is_none()
    }

    /// Returns the value of the field whose rule has this source, if it is a number.
    pub fn rule_number(&self, row: &Row<'_>, source: Source) -> Option<i64> {
        let rule = self.schema.call.fields.iter().position(|rule| rule.source == source)?;
        self.rule(row, rule)
    }

    /// Begins a call with its first row.
    pub fn begin(&self, row: &Row<'_>) -> PartCall {
        let mut part = PartCall { is_own: self.is_own, held: self.room(), ..PartCall::default() };
        part.call.id = self.id(row);
        part.call.process = self.process(row);
        part.call.thread = self.common(row, 7).unwrap_or(0) as u32;
        part.call.number = match number(row, &self.number) {
            Some(number) => number as u32,
            None => foreign_number(self.schema),
        };
        part.call.processor = number(row, &self.processor).unwrap_or(0) as u32;
        match self.is_own {
            true => {
                for (argument, field) in part.call.arguments.iter_mut().zip(&self.arguments) {
                    *argument = number(row, field).unwrap_or(0) as u64;
                }
            }
            false => self.foreign_arguments(row, &mut part.call),
        }
        part
    }

    /// Adds a row's times, result and data to a call.
    pub fn add(&self, part: &mut PartCall, row: &SharedRow<'_>) {
        let time = |index: usize| {
            self.common(row, index)
                .map(|time| if self.is_own { time as u64 } else { foreign_time(time) })
        };
        if let Some(called) = time(10) {
            part.call.entered_ns = called;
        }
        if let Some(returned) = time(12) {
            part.call.returned_ns = returned;
        }
        if let Some(value) = self.common(row, 9) {
            let errno = self.common(row, 1).unwrap_or(0);
            let failed = value == -1 && (1..4096).contains(&errno);
            part.call.result = if failed { -errno } else { value };
        }
        for held in &self.held {
            add_held(part, row, held);
        }
        if self.schema.call.rows != Rows::One {
            self.add_piece(part, row);
        }
        if !self.is_own {
            self.add_members(part, row);
        }
    }

    fn rule(&self, row: &Row<'_>, rule: usize) -> Option<i64> {
        row.value(self.rules[rule]?).as_i64()
    }

    fn bytes<'row>(&self, row: &Row<'row>, rule: usize) -> Option<&'row [u8]> {
        row.value(self.rules[rule]?).as_bytes()
    }

    /// Returns an empty list with room for one buffer per field, which most calls fill.
    fn room(&self) -> Vec<TracedBuffer> {
        Vec::with_capacity(self.held.len())
    }

    fn add_piece(&self, part: &mut PartCall, row: &SharedRow<'_>) {
        let address = number(row, &self.address);
        if self.is_own && address.is_none() {
            return;
        }
        let (path, vector) = match self.schema.call.rows {
            Rows::One => return,
            Rows::Vector { argument, direction, .. } => (0, Some((argument, direction))),
            Rows::Exec { path } => (path, None),
        };
        if vector.is_some()
            && !self.is_own
            && self.rule_number(row, Source::VectorIndex).is_some_and(|index| index >= 0)
        {
            let length = self.rule_number(row, Source::VectorBytes).unwrap_or(0);
            part.lengths.push(length.max(0) as u64);
        }
        for (rule, field) in self.schema.call.fields.iter().enumerate() {
            let (argument, direction) = match (field.source, vector) {
                (Source::VectorData, Some(place)) => place,
                (Source::ExecArgument, None) => (path + 1, BufferDirection::Input),
                (Source::ExecEnvironment, None) => (path + 2, BufferDirection::Input),
                _ => continue,
            };
            let Some(bytes) = self.bytes(row, rule) else { continue };
            let is_text = vector.is_none();
            if bytes.is_empty() {
                continue;
            }
            let data = if is_text { bytes.strip_suffix(&[0]).unwrap_or(bytes) } else { bytes };
            part.bytes += data.len() as u64;
            let address = address.unwrap_or(0) as u64;
            part.pieces.push(TracedBuffer {
                argument,
                direction,
                address,
                total_bytes: data.len() as u64,
                data: row.data(data),
            });
        }
    }

    /// Sets the registers that fields tell. If several fields have one register, the widest counts.
    fn foreign_arguments(&self, row: &Row<'_>, call: &mut TracedCall) {
        for wanted in [Kind::Byte, Kind::Int32, Kind::Int64] {
            for (index, rule) in self.schema.call.fields.iter().enumerate() {
                if let (Source::Argument(argument), true) = (rule.source, rule.kind == wanted)
                    && let Some(value) = self.rule(row, index)
                {
                    call.arguments[usize::from(argument)] = value as u64;
                }
            }
        }
    }

    /// Puts structures together from their members, for files that do not have them whole.
    fn add_members(&self, part: &mut PartCall, row: &Row<'_>) {
        for (index, rule) in self.schema.call.fields.iter().enumerate() {
            let Source::Member(member) = rule.source else { continue };
            let Some(value) = self.rule(row, index) else { continue };
            let direction = if member.side == Side::Output {
                BufferDirection::Output
            } else {
                BufferDirection::Input
            };
            if direction == BufferDirection::Output && part.call.failed() {
                continue;
            }
            let end = usize::from(member.offset) + member.part.bytes();
            let argument = member.argument;
            let is_it = |buffer: &TracedBuffer| {
                buffer.argument == argument && buffer.direction == direction
            };
            let index = part.held.iter().position(is_it).unwrap_or_else(|| {
                let bytes = structure_bytes(&part.call, argument).max(end);
                let address = part.call.arguments[usize::from(argument)];
                part.held.push(TracedBuffer {
                    argument,
                    direction,
                    address,
                    total_bytes: bytes as u64,
                    data: vec![0; bytes].into(),
                });
                part.held.len() - 1
            });
            let place = part.held[index].data.to_mut().get_mut(usize::from(member.offset)..end);
            if let Some(place) = place {
                put(place, member.part, value);
            }
        }
    }
}

fn add_held(part: &mut PartCall, row: &SharedRow<'_>, held: &Held) {
    let Some(bytes) = row.bytes(&held.place).filter(|bytes| !bytes.is_empty()) else {
        // A field that cannot be null is empty, without even a NUL, if there was no string.
        return;
    };
    let data = if held.is_text { bytes.strip_suffix(&[0]).unwrap_or(bytes) } else { bytes };
    let address = part.call.arguments[usize::from(held.argument)];
    part.bytes += data.len() as u64;
    let (argument, direction, total_bytes) = (held.argument, held.direction, data.len() as u64);
    part.held.push(TracedBuffer {
        argument,
        direction,
        address,
        total_bytes,
        data: row.data(data),
    });
}

/// Writes a number to its place in a structure.
fn put(place: &mut [u8], part: Part, value: i64) {
    let seconds = (value >> 32).to_le_bytes();
    let fraction = (value & 0xffff_ffff) as u64;
    match part {
        Part::I16 | Part::U16 | Part::I32 | Part::U32 | Part::I64 => {
            place.copy_from_slice(&value.to_le_bytes()[..part.bytes()])
        }
        Part::Seconds => place.copy_from_slice(&seconds),
        Part::Timespec | Part::Timeval => {
            let per_second = if part == Part::Timespec { 1_000_000_000 } else { 1_000_000 };
            place[..8].copy_from_slice(&seconds);
            place[8..].copy_from_slice(&((fraction * per_second) >> 32).to_le_bytes());
        }
    }
}

/// Returns the size of the structure behind an argument, from the system-call table.
fn structure_bytes(call: &TracedCall, argument: u8) -> usize {
    let row = u16::try_from(call.number).ok().and_then(table::call);
    let argument =
        row.and_then(|row| row.resolve(&call.arguments).0.arguments.get(usize::from(argument)));
    match argument.map(|argument| &argument.kind) {
        Some(ArgumentKind::Pointer(pointer)) if pointer.length == LengthRule::Constant => {
            usize::from(pointer.element_bytes) * pointer.count as usize
        }
        _ => 0,
    }
}

/// Returns the system call that another program's type is for.
fn foreign_number(schema: &CallSchema) -> u32 {
    let name = match schema.call.name {
        "recv" => "recvfrom",
        "send" => "sendto",
        // Programs end with `exit_group`. Its record type is shared with `exit`, the end of a
        // thread.
        "exit" => "exit_group",
        _ => schema.call.calls.first().copied().unwrap_or_default(),
    };
    table::call_by_name(name).map_or(u32::MAX, |row| u32::from(row.number))
}

/// Returns a time in nanoseconds since 1970. Files have it in seconds, in nanoseconds, or in units
/// of 2⁻³² seconds. For times since 2005 these ranges do not overlap, so the number itself tells
/// the unit.
fn foreign_time(time: i64) -> u64 {
    const SECONDS_MAX: u64 = 100_000_000_000;
    const NANOSECONDS_MAX: u64 = 3_000_000_000_000_000_000;
    match time as u64 {
        seconds @ ..SECONDS_MAX => seconds * 1_000_000_000,
        nanoseconds @ ..NANOSECONDS_MAX => nanoseconds,
        fixed => ((u128::from(fixed) * 1_000_000_000) >> 32) as u64,
    }
}
