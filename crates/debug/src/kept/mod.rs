//! Checkpoints that outlive the session. A later session begins near the wanted place at once.
//!
//! * `printed`: the output of the program up to a checkpoint.
//! * `choose`: choosing the checkpoint to start from for a place.
//! * `begin`: where replay begins if the beginning is left out.
//! * `past`: what is known about the ways between checkpoints.
//! * `leave`: the checkpoints that a session leaves if it took long to get somewhere.
//!
//! A session always replays the recording up to the start of the program. There the process is
//! turned into the kept one. The first checkpoint of the time line is the program's start, so that
//! the user can go back to everything before the kept checkpoint.

pub(crate) mod begin;
mod choose;
mod leave;
mod past;
mod printed;

pub use retake_snapshot::image::Summary;

use crate::history::target::Target;
use crate::place::Mark;
use past::Twin;
use retake_kernel::clock;
use retake_recording::{Checkpoints, KeptCheckpoint, Recording, StreamId};
use retake_snapshot::image::summary;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// By default, a way that takes this long leaves a checkpoint at its end.
const LONG: Duration = Duration::from_secs(3);

/// A smaller checkpoint is read as quickly as another one is copied.
const SMALL_BYTES: u64 = 8 << 20;

/// How a session uses kept checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// Whether it begins at existing ones.
    pub uses: bool,
    /// It leaves one where it took this long to get to; `None` if it leaves none.
    pub after: Option<Duration>,
}

impl Default for Keeping {
    fn default() -> Self {
        Self { uses: true, after: Some(LONG) }
    }
}

impl Keeping {
    /// Neither uses nor leaves any.
    pub const NONE: Self = Self { uses: false, after: None };
}

/// The kept checkpoints of the recording that a session is about.
#[derive(Debug)]
pub(crate) struct Kept {
    places: Checkpoints,
    pub keeping: Keeping,
    /// The checkpoints of the debugged program; `None` before they are listed.
    known: Option<Vec<(KeptCheckpoint, Summary)>>,
    /// Checkpoints that were useless, or are on the time line already.
    done: HashSet<u64>,
    /// The last checkpoint from which the process was restored.
    pub used: Option<(u64, Summary)>,
    /// When the session began.
    began_unix_ms: u64,
    /// How long the replay to the session's beginning would have taken.
    spared: Duration,
    /// How long the session may go on finding out which instructions were executed when it ends.
    patience: Duration,
    /// Checkpoints of the time line that this session has left.
    left: Vec<Twin>,
    /// Checkpoints of the time line from other sessions.
    brought: Vec<Twin>,
}

impl Kept {
    pub fn new(places: Checkpoints) -> Self {
        let (left, brought) = (Vec::new(), Vec::new());
        Self {
            places,
            began_unix_ms: clock::unix_ms(),
            keeping: Keeping::NONE,
            known: None,
            done: HashSet::new(),
            used: None,
            spared: Duration::ZERO,
            patience: Duration::ZERO,
            left,
            brought,
        }
    }

    /// Forgets everything when the session switches to another program.
    pub fn forget(&mut self) {
        *self = Self { keeping: self.keeping, ..Self::new(self.places.clone()) };
    }
}

/// The place of a checkpoint in the order of events.
pub(crate) fn mark(of: &Summary) -> Mark {
    Mark { turn: of.turn, events: of.events }
}

/// A kept checkpoint, and its summary or the reason why it cannot be used.
pub type Listed = (KeptCheckpoint, std::result::Result<Summary, String>);

/// All kept checkpoints of a recording, without images whose events `--keep-last` left out: a
/// recorder removes these a moment later than the events, if it is not killed meanwhile.
///
/// # Errors
/// Their folder cannot be listed.
pub fn list(recording: &Recording, places: &Checkpoints) -> retake_recording::Result<Vec<Listed>> {
    let mut all = read_all(places)?;
    all.retain(|(_, summary)| !summary.as_ref().is_ok_and(|it| is_left_behind(recording, it)));
    Ok(all)
}

fn read_all(places: &Checkpoints) -> retake_recording::Result<Vec<Listed>> {
    let read = |kept: &KeptCheckpoint| {
        let mut reader = places.open(kept).map_err(|error| error.to_string())?;
        summary::read(&mut reader).map_err(|error| error.to_string())
    };
    Ok(places.list()?.into_iter().map(|kept| (kept.clone(), read(&kept))).collect())
}

/// Whether events that follow the checkpoint are left out.
fn is_left_behind(recording: &Recording, summary: &Summary) -> bool {
    // IDs of threads that ended are used again: the last stream is that of the checkpoint's thread,
    // or of one that began later.
    let left_out = recording.streams().filter(|stream| stream.info.pid == summary.pid).map(|one| {
        let tid = u32::try_from(one.info.tid).unwrap_or_default();
        (tid, one.left_out.events)
    });
    left_out
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .any(|(tid, left_out)| summary.count(tid).is_some_and(|consumed| consumed < left_out))
}

/// The checkpoints of this process whose summaries can be read.
fn of_target(
    recording: &Recording,
    places: &Checkpoints,
    target: &Target,
) -> Vec<(KeptCheckpoint, Summary)> {
    let mut all = of_stream(recording, places, target.stream);
    all.retain(|(_, summary)| summary.program.1 == target.first_event);
    all
}

/// As [`of_target`], of all programs of the process.
fn of_stream(
    recording: &Recording,
    places: &Checkpoints,
    stream: StreamId,
) -> Vec<(KeptCheckpoint, Summary)> {
    debug_assert!(recording.streams().any(|known| known.info.id == stream));
    let all = list(recording, places).unwrap_or_default().into_iter();
    all.filter_map(|(kept, summary)| Some((kept, summary.ok()?)))
        .filter(|(_, summary)| summary.program.0 == stream.0)
        .collect()
}
