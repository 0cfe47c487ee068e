//! Whether shared mappings of a process are in fact used by it alone. Then replay need not share
//! them, and the process can be copied.
//!
//! Many programs map a file shared that other processes could read but hardly ever do. Java's
//! performance counters are an example.

use crate::error::Result;
use crate::history::scan::{Header, Scan};
use crate::history::target::{Target, makers};
use retake_contract::events::TURN_SHARED;
use retake_model::{CallRef, Event, EventKind, ItemDirection, parse_event};
use retake_recording::{EventReader, Recording, StreamKind, StreamSummary};
use retake_replay::Wanted;
use std::collections::{HashMap, HashSet};

const MMAP: u16 = libc::SYS_mmap as u16;
const MREMAP: u16 = libc::SYS_mremap as u16;
const SHMAT: u16 = libc::SYS_shmat as u16;
/// The size of the content in a mapping item, before the device and inode numbers.
const CONTENT_BYTES: usize = 32;

/// How a file was mapped in the whole recording.
#[derive(Debug, Default)]
struct Mapped {
    count: u32,
    shared_to_write: bool,
}

/// Whether no other process, no other mapping and no system call ever shows or changes the writable
/// shared memory of the process of `target`. Memory that the process inherited counts as another's.
/// If the process makes other processes, so does all memory, because they inherit it.
///
/// # Errors
/// The recording cannot be read.
fn is_alone(recording: &Recording, target: &Target) -> Result<bool> {
    Ok(maps_to_share(recording, target)? && is_seen_by_nobody(recording, target)?)
}

/// The process that a replay is to hold first. An image turns the first one into any other.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn wanted_first(recording: &Recording, target: &Target) -> Result<Wanted> {
    if target.is_made_late { Ok(Wanted::first_program()) } else { wanted(recording, target) }
}

/// The process that a replay is to hold for us. An image may have shared memory, too.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn wanted(recording: &Recording, target: &Target) -> Result<Wanted> {
    if target.begins_late {
        let is_alone = !has_company(recording, target)
            && has_shared_image(recording, target)?
            && !maps_to_share(recording, target)?
            && is_seen_by_nobody(recording, target)?;
        return Ok(Wanted { is_alone, ..Wanted::first_program() });
    }
    Ok(Wanted {
        stream: target.stream.0,
        events: target.first_event,
        path: target.path.clone(),
        is_alone: is_alone(recording, target)?,
    })
}

/// Whether recording began in other processes, too: those that share memory with it.
fn has_company(recording: &Recording, target: &Target) -> bool {
    let is_other = |one: &StreamSummary| {
        one.info.kind != StreamKind::Supervisor
            && one.info.parent.is_none()
            && one.info.pid != target.pid
    };
    recording.streams().any(|one| is_other(&one))
}

/// Whether the image at which the process begins has shared memory: then its turns are among all
/// that share memory. Reads the headers of events up to its first turn.
fn has_shared_image(recording: &Recording, target: &Target) -> Result<bool> {
    let mut scan = Scan::new(recording, target.stream)?;
    let turn = std::iter::from_fn(|| scan.next()).find(|one| one.kind == Some(EventKind::Turn));
    Ok(turn.is_some_and(|turn| turn.number == TURN_SHARED))
}

/// Whether the process maps anything shared and writable. Most processes do not, and then nothing
/// else matters. Reads few events.
fn maps_to_share(recording: &Recording, target: &Target) -> Result<bool> {
    let is_mapping =
        |header: &Header| header.kind == Some(EventKind::Call) && header.number == MMAP;
    let mut bytes = Vec::new();
    for stream in recording.streams().filter(|stream| stream.info.pid == target.pid) {
        let mut scan = Scan::new(recording, stream.info.id)?;
        while let Some(header) = scan.next_with(&mut bytes, is_mapping) {
            if is_mapping(&header)
                && let Ok((event, _)) = parse_event(&bytes)
                && let Event::Call(call) = event.decode()
                && is_shared_to_write(&call)
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn is_shared_to_write(call: &CallRef) -> bool {
    let has =
        |index, flag: i32| call.argument(index).is_some_and(|argument| argument & flag as u64 != 0);
    // MAP_SHARED is a bit of MAP_SHARED_VALIDATE too.
    call.number() == MMAP && has(3, libc::MAP_SHARED) && has(2, libc::PROT_WRITE)
}

fn is_seen_by_nobody(recording: &Recording, target: &Target) -> Result<bool> {
    let streams: Vec<StreamSummary> = recording.streams().collect();
    let is_targets = |stream: &StreamSummary| stream.info.pid == target.pid;
    let parents: HashSet<i32> =
        makers(&streams, target.stream).map(|maker| maker.info.pid).collect();
    let mut files: HashMap<(u64, u64), Mapped> = HashMap::new();
    for stream in streams.iter().filter(|stream| stream.info.kind != StreamKind::Supervisor) {
        let has_what_target_has = is_targets(stream) || parents.contains(&stream.info.pid);
        if !has_what_target_has && makers(&streams, stream.info.id).any(is_targets) {
            return Ok(false);
        }
        let mut reader = EventReader::new(recording, stream.info.id)?;
        while let Some(numbered) = reader.next()? {
            let Ok(event) = &numbered.event else { return Ok(false) };
            let Event::Call(call) = event.decode() else { continue };
            let may_write = is_shared_to_write(&call);
            let is_another_view = call.number() == MREMAP && call.argument(1).unwrap_or(0) == 0
                || call.number() == SHMAT;
            let is_shown =
                has_what_target_has && (is_another_view || may_write && !is_targets(stream));
            if is_shown || call.items().any(|item| item.direction() == ItemDirection::FileWrite) {
                return Ok(false);
            }
            let item = call
                .items()
                .find(|item| call.number() == MMAP && item.direction() == ItemDirection::Mapping);
            if let Some(file) = item.and_then(|item| identity(item.inline_bytes())) {
                let mapped = files.entry(file).or_default();
                mapped.count += 1;
                mapped.shared_to_write |= may_write && is_targets(stream);
            }
        }
    }
    Ok(files.values().all(|mapped| mapped.count == 1 || !mapped.shared_to_write))
}

fn identity(body: &[u8]) -> Option<(u64, u64)> {
    let word = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
    Some((word(CONTENT_BYTES)?, word(CONTENT_BYTES + 8)?))
}
