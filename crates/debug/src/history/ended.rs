//! Processes that did not end by themselves: something outside of the recording ended them, or
//! recording ended before.

use crate::error::Result;
use crate::history::crash::Crash;
use crate::history::scan::{Header, Scan};
use retake_model::table::number::{EXIT_GROUP, KILL, PIDFD_SEND_SIGNAL, TGKILL, TKILL};
use retake_model::{Event, EventKind};
use retake_recording::{EventReader, Recording, StreamId, StreamKind, StreamSummary};
use retake_supervisor::dropped;
use std::collections::BTreeMap;

/// A process that did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedOutside {
    /// The process ID in the recording.
    pub pid: i32,
    /// The signal that ended it; `None` if the recording does not contain its end.
    pub signal: Option<u16>,
}

/// All such processes of a recording, in the order in which they began. A process that never began,
/// or whose end was dropped, is not among them.
///
/// # Errors
/// The recording cannot be read.
pub fn from_outside(recording: &Recording) -> Result<Vec<EndedOutside>> {
    let mut ends: BTreeMap<StreamId, (i32, Vec<End>)> = BTreeMap::new();
    let mut first: BTreeMap<i32, StreamId> = BTreeMap::new();
    let dropped = dropped::of_recording(recording)?;
    for stream in recording.streams() {
        let is_of_supervisor = stream.info.kind == StreamKind::Supervisor || stream.info.pid <= 0;
        if is_of_supervisor || dropped.has_cut(stream.info.id) {
            continue;
        }
        let pid = stream.info.pid;
        if stream.info.kind != StreamKind::Thread {
            first.insert(pid, stream.info.id);
        }
        let process = *first.entry(pid).or_insert(stream.info.id);
        ends.entry(process).or_insert((pid, Vec::new())).1.push(End::of(recording, &stream)?);
    }
    let (mut found, mut sent) = (Vec::new(), None);
    for (pid, ends) in ends.into_values() {
        if let Some(signal) = signal_from_outside(recording, pid, &ends, &mut sent)? {
            found.push(EndedOutside { pid, signal });
        }
    }
    Ok(found)
}

/// How a thread ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    ExitOfProcess,
    ExitOfThread,
    Signal(Box<Crash>),
    /// The wait status that the recorder noted.
    Died(u64),
    Open,
}

impl End {
    fn of(recording: &Recording, stream: &StreamSummary) -> Result<Self> {
        if let Some(crash) = Crash::at_end_of(recording, stream)? {
            return Ok(Self::Signal(Box::new(crash)));
        }
        let mut reader = EventReader::new(recording, stream.info.id)?;
        reader.seek_before(stream.event_count.saturating_sub(1))?;
        let mut end = Self::Open;
        while let Ok(Some(numbered)) = reader.next() {
            let Ok(event) = numbered.event else { continue };
            end = match event.decode() {
                Event::Exit { call: EXIT_GROUP, .. } => Self::ExitOfProcess,
                Event::Exit { .. } => Self::ExitOfThread,
                // The end of the thread is known already. The recorder only adds the time.
                Event::End { .. } if end != Self::Open => end,
                Event::End { status } => Self::Died(status),
                _ => Self::Open,
            };
        }
        Ok(end)
    }
}

/// Returns the signal that ended a process from outside, or `Some(None)` if its end was not
/// recorded. Returns `None` if the process ended by itself, or another recorded process ended it.
fn signal_from_outside(
    recording: &Recording,
    pid: i32,
    ends: &[End],
    known: &mut Option<Vec<Sent>>,
) -> Result<Option<Option<u16>>> {
    let crash = ends.iter().find_map(|end| match end {
        End::Signal(crash) => Some(crash),
        _ => None,
    });
    if let Some(crash) = crash {
        return Ok(crash.is_from_outside(recording).then_some(Some(crash.signal)));
    }
    if ends.contains(&End::ExitOfProcess) || ends.iter().all(|end| *end == End::ExitOfThread) {
        return Ok(None);
    }
    let killed = ends.iter().find_map(|end| match end {
        End::Died(status) => Some((*status & 0x7f) as u16).filter(|signal| *signal != 0),
        _ => None,
    });
    match killed {
        Some(signal) => {
            // The signals are read once, and only if needed.
            let sent = match known.take() {
                Some(sent) => sent,
                None => sent(recording)?,
            };
            let is_sent = sent
                .iter()
                .any(|one| one.signal == i32::from(signal) && one.to.is_none_or(|to| to == pid));
            *known = Some(sent);
            Ok((!is_sent).then_some(Some(signal)))
        }
        None if ends.contains(&End::Open) => Ok(Some(None)),
        None => Ok(None),
    }
}

/// A signal that a recorded thread sent.
#[derive(Debug)]
struct Sent {
    /// The process; `None` if the signal went to a group or through a descriptor, so that the
    /// receiver is unknown.
    to: Option<i32>,
    signal: i32,
}

/// Returns all signals that recorded threads sent with system calls.
fn sent(recording: &Recording) -> Result<Vec<Sent>> {
    let is_sending = |header: &Header| {
        header.kind == Some(EventKind::Call)
            && matches!(header.number, KILL | TKILL | TGKILL | PIDFD_SEND_SIGNAL)
    };
    let mut all = Vec::new();
    for stream in recording.streams().filter(|one| one.info.kind != StreamKind::Supervisor) {
        let mut scan = Scan::new(recording, stream.info.id)?;
        let mut body = Vec::new();
        while let Some(header) = scan.next_with(&mut body, is_sending) {
            if !is_sending(&header) || header.value != 0 {
                continue;
            }
            let Ok((event, _)) = retake_model::parse_event(&body) else { continue };
            let Some(call) = event.as_call() else { continue };
            let argument = |index| call.argument(index).unwrap_or(0) as i32;
            let (to, signal) = match header.number {
                TGKILL => (Some(argument(0)), argument(2)),
                PIDFD_SEND_SIGNAL => (None, argument(1)),
                _ => (Some(argument(0)).filter(|pid| *pid > 0), argument(1)),
            };
            all.push(Sent { to, signal });
        }
    }
    Ok(all)
}
