//! The rows of a call.

use retake_dataseries::{RowBuilder, Value};
use retake_model::table;

use super::held::Held;
use super::values::{buffer, counted_bytes, errno_name, holds, number, to_value};
use super::{Rows, cut, set_optional};
use crate::error::Result;
use crate::processes::{Process, Processes};
use crate::schema::rule::{FieldRule, Kind, Side, Source};
use crate::schema::{CallSchema, Rows as RowKind, SCHEMA, other};
use crate::{BufferDirection, TracedBuffer, TracedCall};

/// The numbers of the common fields, which all types of calls have in the same places.
mod common {
    pub const BUFFER_NOT_CAPTURED: usize = 0;
    pub const ERRNO_NUMBER: usize = 1;
    pub const ERRNO_STRING: usize = 2;
    pub const PGID: usize = 3;
    pub const PID: usize = 4;
    pub const PPID: usize = 5;
    pub const SID: usize = 6;
    pub const TID: usize = 7;
    pub const UID: usize = 8;
    pub const RETURN_VALUE: usize = 9;
    pub const TIME_CALLED: usize = 10;
    pub const TIME_RETURNED: usize = 12;
    pub const UNIQUE_ID: usize = 13;
}

/// Which row of a call is written.
#[derive(Debug, Clone, Copy)]
enum RowOf<'a> {
    /// The only one.
    Whole,
    /// The first of a vector: the call itself.
    First,
    /// An element of a vector.
    Element { index: usize, address: u64, bytes: u64, buffer: Option<&'a TracedBuffer> },
    /// The path of a new program.
    Path,
    /// A string of a new program.
    Text { index: usize, is_environment: bool, buffer: &'a TracedBuffer },
    /// The result of starting a new program.
    ExecResult,
}

impl RowOf<'_> {
    fn has_call_time(self) -> bool {
        !matches!(self, Self::ExecResult)
    }

    fn has_result(self) -> bool {
        !matches!(self, Self::Path | Self::Text { .. })
    }

    /// Returns whether the row has the call's own fields, not only those of a piece.
    fn has_fields(self) -> bool {
        !matches!(self, Self::Text { .. } | Self::ExecResult)
    }

    fn is_first(self) -> bool {
        matches!(self, Self::Whole | Self::First | Self::Path)
    }
}

/// Makes rows of calls. It keeps only memory for reuse between calls.
#[derive(Debug, Default)]
pub(crate) struct CallRows {
    held: Held,
    text: Vec<u8>,
}

impl CallRows {
    /// Adds the rows of a call.
    pub fn write(
        &mut self,
        rows: &mut impl Rows,
        call: &TracedCall,
        processes: &Processes,
    ) -> Result<()> {
        let position = SCHEMA.position(call.number);
        let schema = &SCHEMA.calls[position];
        let mut held = std::mem::take(&mut self.held);
        held.plan(schema, call);
        let mut writer =
            RowWriter { schema, position, call, held: &held, processes, text: &mut self.text };
        let written = writer.write_all(rows).and_then(|()| write_buffers(rows, call, &held));
        self.held = held;
        written
    }
}

struct RowWriter<'a> {
    schema: &'static CallSchema,
    position: usize,
    call: &'a TracedCall,
    held: &'a Held,
    processes: &'a Processes,
    text: &'a mut Vec<u8>,
}

impl RowWriter<'_> {
    fn write_all(&mut self, rows: &mut impl Rows) -> Result<()> {
        let (call, held) = (self.call, self.held);
        match self.schema.call.rows {
            RowKind::One => self.write(rows, RowOf::Whole),
            RowKind::Vector { .. } => {
                self.write(rows, RowOf::First)?;
                for (index, &(address, bytes, buffer)) in held.elements.iter().enumerate() {
                    let buffer = buffer.map(|buffer| &call.buffers[buffer]);
                    self.write(rows, RowOf::Element { index, address, bytes, buffer })?;
                }
                Ok(())
            }
            RowKind::Exec { path } => {
                self.write(rows, RowOf::Path)?;
                for (index, piece) in held.strings.iter().enumerate() {
                    let is_environment = piece.argument == path + 2;
                    self.write(
                        rows,
                        RowOf::Text {
                            index: index + 1,
                            is_environment,
                            buffer: &call.buffers[piece.buffer],
                        },
                    )?;
                }
                self.write(rows, RowOf::ExecResult)
            }
        }
    }

    fn write(&mut self, rows: &mut impl Rows, of: RowOf<'_>) -> Result<()> {
        let (schema, call) = (self.schema, self.call);
        let mut row = rows.builder(self.position).row()?;
        self.write_common(&mut row, of)?;
        for (index, rule) in schema.call.fields.iter().enumerate() {
            self.write_rule(&mut row, index, rule, of)?;
        }
        if let Some(field) = schema.call_name_field {
            let row_of_table =
                u16::try_from(call.number).ok().and_then(table::call).filter(|row| row.named);
            let name = row_of_table
                .map_or_else(|| format!("call_{}", call.number), |row| row.name.to_owned());
            row.set_value(field, Value::Bytes(name.as_bytes()))?;
        }
        for index in 0..schema.argument_count {
            row.set_value(
                schema.argument_field + index,
                Value::Int64(call.arguments[index] as i64),
            )?;
        }
        row.set_value(schema.number_field, Value::Int32(call.number as i32))?;
        row.set_value(schema.processor_field, Value::Int32(call.processor as i32))?;
        if let (Some(field), Some(address)) = (schema.address_field, piece_address(of)) {
            row.set_value(field, Value::Int64(address as i64))?;
        }
        row.finish();
        Ok(())
    }

    fn write_common(&self, row: &mut RowBuilder<'_>, of: RowOf<'_>) -> Result<()> {
        let call = self.call;
        row.set_value(common::UNIQUE_ID, Value::Int64(call.id as i64))?;
        row.set_value(common::PID, Value::Int32(call.process as i32))?;
        row.set_value(common::TID, Value::Int32(call.thread as i32))?;
        let process = self.processes.get(call.process);
        let known = |id: fn(&Process) -> Option<u32>| {
            process.and_then(id).map(|id| Value::Int32(id as i32))
        };
        set_optional(row, common::PPID, known(|process| process.parent))?;
        set_optional(row, common::UID, known(|process| process.uid))?;
        set_optional(row, common::SID, known(|process| process.session))?;
        set_optional(row, common::PGID, known(|process| process.group))?;
        row.set_value(common::BUFFER_NOT_CAPTURED, Value::Bool(self.lacks_data()))?;
        if of.has_call_time() {
            row.set_value(common::TIME_CALLED, Value::Int64(call.entered_ns as i64))?;
        }
        let has_returned = call.returned_ns != 0;
        if of.has_result() && (has_returned || call.result != 0) {
            row.set_value(
                common::RETURN_VALUE,
                Value::Int64(if call.failed() { -1 } else { call.result }),
            )?;
            row.set_value(common::ERRNO_NUMBER, Value::Int32(call.errno().unwrap_or(0) as i32))?;
            set_optional(
                row,
                common::ERRNO_STRING,
                errno_name(call).map(|name| Value::Bytes(name.as_bytes())),
            )?;
        }
        if of.has_result() && has_returned {
            row.set_value(common::TIME_RETURNED, Value::Int64(call.returned_ns as i64))?;
        }
        Ok(())
    }

    /// Returns whether data of the call are missing: cut short, or absent although a field wants
    /// them.
    fn lacks_data(&self) -> bool {
        let call = self.call;
        let kept = call.buffers.iter().zip(&self.held.kept_bytes);
        let is_cut = kept.into_iter().any(|(buffer, kept)| (*kept as u64) < buffer.total_bytes);
        let lacks = |&rule: &usize| {
            let rule = &self.schema.call.fields[rule];
            let (argument, side, wanted) = match rule.source {
                Source::Text(argument) => (argument, Side::Input, 1),
                Source::Data { argument, direction, counted: Some(size) } => {
                    (argument, side_of(direction), counted_bytes(call, size).unwrap_or(0))
                }
                _ => return false,
            };
            wanted > 0
                && call.arguments[usize::from(argument)] != 0
                && holds(rule.when, call, true)
                && buffer(call, argument, side).is_none()
        };
        is_cut || self.schema.holders.iter().any(lacks)
    }

    fn write_rule(
        &mut self,
        row: &mut RowBuilder<'_>,
        index: usize,
        rule: &FieldRule,
        of: RowOf<'_>,
    ) -> Result<()> {
        let field = self.schema.rule_fields[index];
        if let Some(number) = piece_number(rule.source, of, self.call) {
            return Ok(row.set_value(field, to_value(rule.kind, number))?);
        }
        if !of.has_fields() && !is_piece_text(rule.source)
            || !holds(rule.when, self.call, of.is_first())
        {
            return Ok(());
        }
        if rule.kind == Kind::Bytes {
            return self.write_bytes(row, field, index, rule, of);
        }
        match number(&rule.source, self.call) {
            // Bits that cannot be null are clear to begin with.
            Some(0) if rule.kind == Kind::Bool && !rule.nullable => Ok(()),
            Some(number) => Ok(row.set_value(field, to_value(rule.kind, number))?),
            None => Ok(()),
        }
    }

    fn write_bytes(
        &mut self,
        row: &mut RowBuilder<'_>,
        field: usize,
        index: usize,
        rule: &FieldRule,
        of: RowOf<'_>,
    ) -> Result<()> {
        let call = self.call;
        self.text.clear();
        let value: Option<&[u8]> = match rule.source {
            Source::Text(argument) => {
                buffer(call, argument, Side::Input).filter(|text| is_complete(text)).map(|text| {
                    self.text.extend_from_slice(&text.data);
                    self.text.push(0);
                    self.text.as_slice()
                })
            }
            Source::FullPath { directory, path } => {
                self.processes.full_path(call, directory, path).map(|path| {
                    self.text.extend_from_slice(&path);
                    self.text.push(0);
                    self.text.as_slice()
                })
            }
            Source::Data { argument, direction, counted } => match self.held.by_rule[index] {
                Some(held) => Some(&call.buffers[held].data),
                None => loose_data(call, argument, direction, counted),
            },
            Source::Copy(argument) => {
                buffer(call, argument, Side::Either).map(|buffer| cut(&buffer.data))
            }
            Source::VectorData => match of {
                RowOf::Element { buffer, .. } => buffer.map(|buffer| buffer.data.as_slice()),
                _ => None,
            },
            Source::ExecArgument | Source::ExecEnvironment => match of {
                RowOf::Text { is_environment, buffer, .. }
                    if is_environment == (rule.source == Source::ExecEnvironment) =>
                {
                    self.text.extend_from_slice(&buffer.data);
                    self.text.push(0);
                    Some(self.text.as_slice())
                }
                _ => None,
            },
            _ => None,
        };
        set_optional(row, field, value.map(Value::Bytes))
    }
}

fn side_of(direction: BufferDirection) -> Side {
    match direction {
        BufferDirection::Input => Side::Input,
        BufferDirection::Output => Side::Output,
    }
}

/// Returns whether a buffer is complete, and small enough for a row.
fn is_complete(buffer: &TracedBuffer) -> bool {
    buffer.data.len() as u64 == buffer.total_bytes && buffer.data.len() <= super::DATA_BYTES_MAX
}

/// Returns what a field says about data that it does not hold: as many bytes as were counted, if
/// the buffer has them.
fn loose_data(
    call: &TracedCall,
    argument: u8,
    direction: BufferDirection,
    counted: Option<u8>,
) -> Option<&[u8]> {
    let found = buffer(call, argument, side_of(direction));
    match counted {
        Some(size) => match counted_bytes(call, size)? {
            0 => Some(&[]),
            wanted => found?.data.get(..wanted).filter(|data| data.len() <= super::DATA_BYTES_MAX),
        },
        None => found.filter(|buffer| is_complete(buffer)).map(|buffer| buffer.data.as_slice()),
    }
}

fn is_piece_text(source: Source) -> bool {
    matches!(source, Source::ExecArgument | Source::ExecEnvironment)
}

/// Returns the number in a field that depends on the row.
fn piece_number(source: Source, of: RowOf<'_>, call: &TracedCall) -> Option<i64> {
    match (source, of) {
        (Source::VectorIndex, RowOf::Element { index, .. }) => Some(index as i64),
        (Source::VectorIndex | Source::ExecIndex, RowOf::First | RowOf::ExecResult) => Some(-1),
        (Source::VectorBytes, RowOf::Element { bytes, .. }) => Some(bytes as i64),
        (Source::VectorBytes, RowOf::First) => Some(if call.failed() { -1 } else { call.result }),
        (Source::ExecIndex, RowOf::Text { index, .. }) => Some(index as i64),
        (Source::ExecIndex, RowOf::Path) => Some(0),
        _ => None,
    }
}

/// Returns the address of the buffer that a row holds.
fn piece_address(of: RowOf<'_>) -> Option<u64> {
    match of {
        RowOf::Element { address, buffer: Some(_), .. } => Some(address),
        RowOf::Text { buffer, .. } => Some(buffer.address),
        _ => None,
    }
}

/// Adds records for the buffers that no row of the call holds.
fn write_buffers(rows: &mut impl Rows, call: &TracedCall, held: &Held) -> Result<()> {
    for (position, buffer) in
        call.buffers.iter().enumerate().filter(|(position, _)| !held.buffers[*position])
    {
        let builder = rows.builder(SCHEMA.plain_position(other::BUFFER));
        let mut row = builder.row()?;
        let values = [
            Value::Int64(call.id as i64),
            Value::Int32(position as i32),
            Value::Byte(buffer.argument),
            Value::Bool(buffer.direction == BufferDirection::Output),
            Value::Int64(buffer.address as i64),
            Value::Int64(buffer.total_bytes as i64),
            Value::Bytes(&buffer.data[..held.kept_bytes[position]]),
        ];
        for (field, value) in values.into_iter().enumerate() {
            row.set_value(field, value)?;
        }
        row.finish();
    }
    Ok(())
}
