//! Rows that are not calls.

use std::io::{Read, Seek};

use retake_dataseries::{ExtentType, Row};

use super::cursor::{Cursor, Extents};
use super::merge_buffers::PlacedBuffer;
use crate::data::SharedRow;
use crate::encode::DESCRIPTOR_WORDS;
use crate::error::{Result, TraceError};
use crate::{
    BufferDirection, Credentials, DescriptorKind, MappedPages, ProcessStart, ResourceLimit,
    StartDescriptor, StartKind, TracedBuffer,
};

/// Reads fields by name. Only for types with few rows.
struct Named<'a, 'row>(&'a Row<'row>);

impl<'row> Named<'_, 'row> {
    fn number(&self, name: &str) -> Option<i64> {
        let field = self.0.extent_type().field_number(name)?;
        self.0.value(field).as_i64()
    }

    fn u32(&self, name: &str) -> u32 {
        self.number(name).unwrap_or(0) as u32
    }

    fn u64(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0) as u64
    }

    fn bytes(&self, name: &str) -> &'row [u8] {
        let field = self.0.extent_type().field_number(name);
        field.and_then(|field| self.0.value(field).as_bytes()).unwrap_or_default()
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }
}

/// Returns the version, the hash of the system-call table, and the producer.
pub(crate) fn header_of(row: &Row<'_>) -> (i32, u64, String) {
    let named = Named(row);
    (named.u32("format_version") as i32, named.u64("table_hash"), named.text("producer"))
}

/// Returns the number of records, and the last id.
pub(crate) fn end_of(row: &Row<'_>) -> (u64, Option<u64>) {
    let named = Named(row);
    (named.u64("records"), named.number("last_id").map(|id| id as u64))
}

/// Returns the id of the record after which others are missing, and why.
pub(crate) fn incomplete_of(row: &Row<'_>) -> (Option<u64>, String) {
    let named = Named(row);
    (named.number("after_id").map(|id| id as u64), named.text("reason"))
}

/// Reads pages of a file. `write` tells which of the two types the row has.
pub(crate) fn mapped_of(row: &Row<'_>, write: bool) -> MappedPages {
    let named = Named(row);
    MappedPages {
        id: named.u64("unique_id"),
        time_ns: named.u64("time_called"),
        process: named.u32("executing_pid"),
        thread: named.u32("executing_tid"),
        write,
        path: named.bytes("retake_path").to_vec(),
        file_offset: named.u64("offset"),
        address: named.u64(if write { "retake_address" } else { "address" }),
        data: named.bytes(if write { "data_written" } else { "data_read" }).to_vec(),
    }
}

/// Reads the start of a process, without descriptors and limits.
pub(crate) fn start_of(row: &Row<'_>) -> ProcessStart {
    let named = Named(row);
    let groups = named.text("groups");
    let arguments = named.bytes("arguments");
    let arguments = arguments
        .strip_suffix(&[0])
        .map(|arguments| arguments.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect());
    ProcessStart {
        id: named.u64("unique_id"),
        time_ns: named.u64("time_ns"),
        process: named.u32("executing_pid"),
        thread: named.u32("executing_tid"),
        parent: named.u32("parent_pid"),
        session: named.u32("session"),
        process_group: named.u32("process_group"),
        how: match named.bytes("how") {
            b"fork" => StartKind::Fork,
            b"attach" => StartKind::Attach,
            _ => StartKind::Exec,
        },
        working_directory: named.bytes("working_directory").to_vec(),
        root: named.bytes("root").to_vec(),
        umask: named.u32("umask"),
        descriptors: Vec::new(),
        limits: Vec::new(),
        credentials: Credentials {
            uid: named.u32("uid"),
            effective_uid: named.u32("effective_uid"),
            saved_uid: named.u32("saved_uid"),
            filesystem_uid: named.u32("filesystem_uid"),
            gid: named.u32("gid"),
            effective_gid: named.u32("effective_gid"),
            saved_gid: named.u32("saved_gid"),
            filesystem_gid: named.u32("filesystem_gid"),
            groups: groups.split(' ').filter_map(|group| group.parse().ok()).collect(),
        },
        executable: named.bytes("executable").to_vec(),
        arguments: arguments.unwrap_or_default(),
    }
}

fn descriptor_of(row: &Row<'_>) -> StartDescriptor {
    let named = Named(row);
    let word = named.bytes("kind");
    let kind = DESCRIPTOR_WORDS.iter().find(|(_, other)| other.as_bytes() == word);
    StartDescriptor {
        number: named.u32("descriptor"),
        path: named.bytes("path").to_vec(),
        kind: kind.map_or(DescriptorKind::Unknown, |(kind, _)| *kind),
        offset: named.u64("offset"),
        flags: named.u32("flags_value"),
    }
}

fn limit_of(row: &Row<'_>) -> ResourceLimit {
    let named = Named(row);
    ResourceLimit {
        resource: named.u32("resource"),
        soft: named.u64("soft_limit"),
        hard: named.u64("hard_limit"),
    }
}

fn buffer_of(row: &SharedRow<'_>, fields: &[Option<usize>; 6]) -> PlacedBuffer {
    let number =
        |index: usize| fields[index].and_then(|field| row.value(field).as_i64()).unwrap_or(0);
    let data = fields[5].and_then(|field| row.value(field).as_bytes()).unwrap_or_default();
    PlacedBuffer {
        position: usize::try_from(number(0)).unwrap_or(usize::MAX),
        buffer: TracedBuffer {
            argument: number(1) as u8,
            direction: if number(2) != 0 {
                BufferDirection::Output
            } else {
                BufferDirection::Input
            },
            address: number(3) as u64,
            total_bytes: number(4) as u64,
            data: row.data(data),
        },
    }
}

/// Rows that belong to other records, taken in the order of their ids.
#[derive(Debug)]
struct SideRows {
    cursor: Option<Cursor>,
    id_field: Option<usize>,
}

impl SideRows {
    /// Gives `each` the rows that belong to `id`. Rows of earlier ids belong to no record and are
    /// skipped.
    fn take<R: Read + Seek>(
        &mut self,
        id: u64,
        extents: &mut Extents<R>,
        mut each: impl FnMut(&SharedRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let (Some(cursor), Some(id_field)) = (&mut self.cursor, self.id_field) else {
            return Ok(());
        };
        loop {
            cursor.fill(extents)?;
            let Some(row) = cursor.row() else { return Ok(()) };
            let row_id = row.value(id_field).as_i64().unwrap_or(0) as u64;
            if row_id > id {
                return Ok(());
            }
            if row_id == id {
                each(&row)?;
            }
            cursor.advance();
        }
    }
}

/// The records for buffers.
#[derive(Debug)]
pub(crate) struct BufferRows {
    rows: SideRows,
    fields: [Option<usize>; 6],
}

impl BufferRows {
    pub fn new(cursor: Option<Cursor>, extent_type: Option<&ExtentType>) -> Self {
        let names = ["position", "argument", "is_output", "address", "total_bytes", "data"];
        let field = |name: &str| extent_type.and_then(|extent_type| extent_type.field_number(name));
        Self { rows: SideRows { cursor, id_field: field("unique_id") }, fields: names.map(field) }
    }

    /// Takes the buffers of a call.
    pub fn take<R: Read + Seek>(
        &mut self,
        id: u64,
        extents: &mut Extents<R>,
    ) -> Result<Vec<PlacedBuffer>> {
        let mut buffers = Vec::new();
        let mut bytes = 0;
        let (limit, fields) = (extents.limit_bytes, &self.fields);
        self.rows.take(id, extents, |row| {
            let placed = buffer_of(row, fields);
            bytes += placed.buffer.data.len() as u64 + 64;
            if bytes > limit {
                return Err(TraceError::Memory { limit });
            }
            // A call has six arguments.
            if placed.buffer.argument < 6 {
                buffers.push(placed);
            }
            Ok(())
        })?;
        Ok(buffers)
    }
}

/// The descriptors of processes.
#[derive(Debug)]
pub(crate) struct DescriptorRows(SideRows);

impl DescriptorRows {
    pub fn new(cursor: Option<Cursor>, id_field: Option<usize>) -> Self {
        Self(SideRows { cursor, id_field })
    }

    /// Takes the descriptors of a start.
    pub fn take<R: Read + Seek>(
        &mut self,
        id: u64,
        extents: &mut Extents<R>,
    ) -> Result<Vec<StartDescriptor>> {
        let mut descriptors = Vec::new();
        self.0.take(id, extents, |row| {
            descriptors.push(descriptor_of(row));
            Ok(())
        })?;
        Ok(descriptors)
    }
}

/// The limits of processes.
#[derive(Debug)]
pub(crate) struct LimitRows(SideRows);

impl LimitRows {
    pub fn new(cursor: Option<Cursor>, id_field: Option<usize>) -> Self {
        Self(SideRows { cursor, id_field })
    }

    /// Takes the limits of a start.
    pub fn take<R: Read + Seek>(
        &mut self,
        id: u64,
        extents: &mut Extents<R>,
    ) -> Result<Vec<ResourceLimit>> {
        let mut limits = Vec::new();
        self.0.take(id, extents, |row| {
            limits.push(limit_of(row));
            Ok(())
        })?;
        Ok(limits)
    }
}
