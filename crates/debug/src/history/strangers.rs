//! Which processes a replay from images makes, and which others take turns with them. All processes
//! that share memory with any other take their turns in one order.

use super::scan::{Header, Scan};
use retake_contract::events::TURN_SHARED;
use retake_model::EventKind;
use retake_model::table::number;
use retake_recording::{Recording, Result, StreamId, StreamKind, StreamSummary};
use retake_snapshot::image::Summary;
use std::collections::HashSet;

const MAKING: [u16; 4] = [number::FORK, number::VFORK, number::CLONE, number::CLONE3];

/// Where processes begin in a replay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun<'a> {
    /// The images. Those of processes that share turns were made at the same time.
    pub images: &'a [&'a Summary],
    /// Whether the first process begins at its start.
    pub has_start: bool,
}

/// The streams of a recording, in a replay from images.
struct Cast {
    /// The streams of processes that begin at images.
    from_images: Vec<StreamSummary>,
    /// Those of other processes that replay makes.
    made: Vec<StreamSummary>,
    /// Those that are not replayed.
    others: Vec<StreamSummary>,
    /// The last turn, of all that share memory, before the images.
    before: u64,
}

impl Begun<'_> {
    /// Where the process shares no memory yet, replay counts the turns from the first one.
    fn turns_before(&self) -> u64 {
        let sharing = self.images.iter().filter(|image| image.shares_turns);
        sharing.map(|image| image.turn).max().unwrap_or(0)
    }

    fn cast(&self, recording: &Recording) -> Result<Cast> {
        let recorded = |one: &StreamSummary| one.info.kind != StreamKind::Supervisor;
        let streams: Vec<StreamSummary> = recording.streams().filter(recorded).collect();
        let its_image = |pid: i32| self.images.iter().find(|image| image.pid == pid);
        let mut cast = Cast {
            from_images: Vec::new(),
            made: Vec::new(),
            others: Vec::new(),
            before: self.turns_before(),
        };
        let mut children: HashSet<i32> = HashSet::new();
        let (mut made_streams, mut made_pids) = (HashSet::new(), HashSet::new());
        for image in self.images {
            children.extend(children_after(recording, image)?);
        }
        // Processes have larger numbers than their makers.
        for stream in streams {
            let (info, parent) = (&stream.info, stream.info.parent.map(|parent| parent.0));
            if its_image(info.pid).is_some() {
                cast.from_images.push(stream);
                continue;
            }
            let is_made = match info.kind {
                StreamKind::Initial => self.has_start,
                StreamKind::Thread => made_pids.contains(&info.pid),
                _ => {
                    children.contains(&info.pid)
                        || parent.is_some_and(|one| made_streams.contains(&one))
                }
            };
            if is_made && stream.left_out.bytes == 0 {
                made_streams.insert(info.id.0);
                made_pids.insert(info.pid);
                cast.made.push(stream);
            } else {
                cast.others.push(stream);
            }
        }
        Ok(cast)
    }
}

/// The processes that the process of an image made afterwards.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn children_after(recording: &Recording, image: &Summary) -> Result<HashSet<i32>> {
    let mut children = HashSet::new();
    for stream in recording.streams().filter(|one| one.info.pid == image.pid) {
        let after = image.count(stream.info.tid.unsigned_abs()).unwrap_or(0);
        children.extend(events(recording, &stream)?.filter_map(|event| made(&event, after)));
    }
    Ok(children)
}

/// A process that takes turns between those of the replayed processes, and is none of them. Reads
/// all events.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn stranger(recording: &Recording, begun: &Begun<'_>) -> Result<Option<i32>> {
    let Some(image) = begun.images.first() else { return Ok(None) };
    let recorded = |one: &StreamSummary| one.info.kind != StreamKind::Supervisor;
    if recording.streams().filter(recorded).all(|stream| stream.info.pid == image.pid) {
        return Ok(None);
    }
    let Cast { from_images, made, others, before } = begun.cast(recording)?;
    let mut last = before;
    for stream in from_images.iter().chain(&made) {
        last = events(recording, stream)?.filter_map(|event| turn(&event)).fold(last, u64::max);
    }
    if last == before {
        return Ok(None);
    }
    for stream in others {
        let disturbs = |turn: u64| before < turn && turn < last;
        if events(recording, &stream)?.filter_map(|event| turn(&event)).any(disturbs) {
            return Ok(Some(stream.info.pid));
        }
    }
    Ok(None)
}

/// Whether replay makes the process with this stream.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn makes(recording: &Recording, begun: &Begun<'_>, stream: StreamId) -> Result<bool> {
    Ok(begun.cast(recording)?.made.iter().any(|one| one.info.id == stream))
}

/// Whether a process that replay makes took turns before the images. Replay from there has no such
/// turns.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn takes_early_turns(recording: &Recording, begun: &Begun<'_>) -> Result<bool> {
    if begun.turns_before() == 0 {
        return Ok(false);
    }
    let Cast { made, before, .. } = begun.cast(recording)?;
    for stream in &made {
        if events(recording, stream)?.filter_map(|event| turn(&event)).any(|turn| turn <= before) {
            return Ok(true);
        }
    }
    Ok(false)
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
