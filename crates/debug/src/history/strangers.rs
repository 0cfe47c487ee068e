//! Processes that take turns with those of images although replay from there does not make
//! them. All processes that share memory with any other take their turns in one order.

use super::scan::{Header, Scan};
use super::target::makers;
use retake_contract::events::TURN_SHARED;
use retake_model::EventKind;
use retake_model::table::number;
use retake_recording::{Recording, Result, StreamKind, StreamSummary};
use retake_snapshot::image::Summary;
use std::collections::HashSet;

const MAKING: [u16; 4] = [number::FORK, number::VFORK, number::CLONE, number::CLONE3];

/// A process that takes turns between those of the images' processes and their later children, and
/// is none of them. The images were made at the same time. Reads all events.
///
/// # Errors
/// The recording cannot be read.
pub fn stranger(recording: &Recording, images: &[&Summary]) -> Result<Option<i32>> {
    let recorded = |one: &StreamSummary| one.info.kind != StreamKind::Supervisor;
    let streams: Vec<StreamSummary> = recording.streams().filter(recorded).collect();
    let Some(image) = images.first() else { return Ok(None) };
    if streams.iter().all(|stream| stream.info.pid == image.pid) {
        return Ok(None);
    }
    // Where the process shares no memory yet, replay counts the turns from the first one.
    let before = if image.shares_turns { image.turn } else { 0 };
    let its_image = |pid: i32| images.iter().find(|image| image.pid == pid);
    let mut children = HashSet::new();
    for stream in &streams {
        let Some(image) = its_image(stream.info.pid) else { continue };
        let after = image.count(stream.info.tid.unsigned_abs()).unwrap_or(0);
        children.extend(events(recording, stream)?.filter_map(|event| made(&event, after)));
    }
    let is_replayed = |stream: &StreamSummary| {
        let mut chain = std::iter::once(stream).chain(makers(&streams, stream.info.id));
        its_image(stream.info.pid).is_some() || chain.any(|one| children.contains(&one.info.pid))
    };
    let (replayed, others): (Vec<_>, Vec<_>) = streams.iter().partition(|one| is_replayed(one));
    let mut last = before;
    for stream in replayed {
        last = events(recording, stream)?.filter_map(|event| turn(&event)).fold(last, u64::max);
    }
    if last == before {
        return Ok(None);
    }
    for stream in others {
        let disturbs = |turn: u64| before < turn && turn < last;
        if events(recording, stream)?.filter_map(|event| turn(&event)).any(disturbs) {
            return Ok(Some(stream.info.pid));
        }
    }
    Ok(None)
}

/// The number of a turn among all that share memory.
fn turn(event: &Header) -> Option<u64> {
    let is_turn = event.kind == Some(EventKind::Turn) && event.number == TURN_SHARED;
    is_turn.then_some(event.value as u64)
}

fn events(recording: &Recording, stream: &StreamSummary) -> Result<impl Iterator<Item = Header>> {
    let mut scan = Scan::new(recording, stream.info.id)?;
    Ok(std::iter::from_fn(move || scan.next()))
}

/// The process that an event made, after the first `after` events of its thread.
fn made(event: &Header, after: u64) -> Option<i32> {
    let makes = event.kind == Some(EventKind::Call) && MAKING.contains(&event.number);
    let pid = i32::try_from(event.value).ok()?;
    (makes && event.index >= after && pid > 0).then_some(pid)
}
