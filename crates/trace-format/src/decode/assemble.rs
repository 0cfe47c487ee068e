//! Calls of one type, in the order of their ids as far as the file keeps that order.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Seek};

use retake_dataseries::IndexEntry;

use super::cursor::{Cursor, Extents, type_of};
use super::row::{CallFields, PartCall};
use crate::error::{Result, TraceError};
use crate::schema::rule::Source;
use crate::schema::{CallSchema, Rows};

/// Walks the calls of one type.
#[derive(Debug)]
pub(crate) struct CallCursor {
    cursor: Cursor,
    pub fields: CallFields,
    /// The next call, made from one or more rows.
    next: Option<PartCall>,
    /// Program starts whose last row was not seen yet, by process. In other programs' files the
    /// rows of several processes mix.
    open: BTreeMap<u32, PartCall>,
}

/// What to do with a row.
enum Step {
    /// Skip it: the row stands for no call.
    Skip,
    /// The row continues the call before it.
    Continue,
    /// The row begins a call.
    Begin,
}

impl CallCursor {
    /// Returns `None` if there are no extents. `skips_strings` leaves all values without a fixed
    /// size empty.
    pub fn new(
        schema: &'static CallSchema,
        entries: VecDeque<IndexEntry>,
        skips_strings: bool,
    ) -> Option<Self> {
        let fields = CallFields::new(schema, type_of(&entries)?);
        // The rows of one call lie together. Calls with several rows may be in the order in which
        // they returned.
        let sort_field =
            if schema.call.rows == Rows::One || fields.is_own { fields.id_field() } else { None };
        Some(Self {
            cursor: Cursor::new(entries, sort_field).skipping_strings(skips_strings),
            fields,
            next: None,
            open: BTreeMap::new(),
        })
    }

    /// The id of the next call.
    pub fn id(&self) -> Option<u64> {
        self.next.as_ref().map(|part| part.call.id)
    }

    /// Takes the next call. [`CallCursor::fill`] must be called afterwards.
    pub fn take(&mut self) -> Option<PartCall> {
        self.next.take()
    }

    /// Makes the next call from rows.
    pub fn fill<R: Read + Seek>(&mut self, extents: &mut Extents<R>) -> Result<()> {
        match self.fields.schema.call.rows {
            Rows::Exec { .. } if !self.fields.is_own => self.fill_program(extents),
            rows => self.fill_rows(extents, rows == Rows::One),
        }
    }

    fn fill_rows<R: Read + Seek>(&mut self, extents: &mut Extents<R>, is_one: bool) -> Result<()> {
        let mut part: Option<PartCall> = None;
        loop {
            self.cursor.fill(extents)?;
            let Some(row) = self.cursor.row() else { break };
            match self.step(part.as_ref()) {
                Step::Skip => {}
                Step::Begin if part.is_some() => break,
                Step::Begin => {
                    let mut begun = self.fields.begin(&row);
                    self.fields.add(&mut begun, &row);
                    part = Some(begun);
                }
                Step::Continue => {
                    if let Some(part) = part.as_mut() {
                        self.fields.add(part, &row);
                        check(part, extents.limit_bytes)?;
                    }
                }
            }
            self.cursor.advance();
            if is_one && part.is_some() {
                break;
            }
        }
        self.next = part;
        Ok(())
    }

    /// Returns how the current row relates to the call before it.
    fn step(&self, before: Option<&PartCall>) -> Step {
        let Some(row) = self.cursor.row() else { return Step::Skip };
        if self.fields.stands_for_nothing(&row) {
            return Step::Skip;
        }
        let Some(before) = before else { return Step::Begin };
        let continues = match (self.fields.is_own, self.fields.schema.call.rows) {
            (_, Rows::One) => false,
            (true, _) => self.fields.id(&row) == before.call.id,
            // In such files the ids of these rows are garbage.
            (false, _) => {
                self.fields.rule_number(&row, Source::VectorIndex).is_some_and(|index| index >= 0)
            }
        };
        if continues { Step::Continue } else { Step::Begin }
    }

    /// Makes the next program start from rows of another program's file. Every row there has an id
    /// of its own, and rows of several processes mix.
    fn fill_program<R: Read + Seek>(&mut self, extents: &mut Extents<R>) -> Result<()> {
        self.next = None;
        while self.next.is_none() {
            self.cursor.fill(extents)?;
            let Some(row) = self.cursor.row() else {
                self.next = self.open.pop_first().map(|(_, part)| part);
                return Ok(());
            };
            let process = self.fields.process(&row);
            let index = self.fields.rule_number(&row, Source::ExecIndex).unwrap_or(0);
            if index == 0 {
                // An unfinished start of the same process makes room.
                self.next = self.open.insert(process, self.fields.begin(&row));
            }
            let part = self.open.entry(process).or_insert_with(|| self.fields.begin(&row));
            self.fields.add(part, &row);
            check(part, extents.limit_bytes)?;
            if index == -1 {
                let done = self.open.remove(&process);
                self.next = done.or(self.next.take());
            }
            self.cursor.advance();
            self.check_open(extents.limit_bytes)?;
        }
        Ok(())
    }

    fn check_open(&self, limit: u64) -> Result<()> {
        const OPEN_MAX: usize = 1 << 16;
        let bytes: u64 =
            if self.open.len() > 64 { self.open.values().map(|part| part.bytes).sum() } else { 0 };
        if self.open.len() > OPEN_MAX || bytes > limit {
            Err(TraceError::Memory { limit })
        } else {
            Ok(())
        }
    }
}

/// Refuses a call whose data exceed the limit. Rows of a file can share data, so a call can be
/// larger than its file.
fn check(part: &PartCall, limit: u64) -> Result<()> {
    if part.bytes > limit { Err(TraceError::Memory { limit }) } else { Ok(()) }
}
