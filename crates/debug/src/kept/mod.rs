//! Checkpoints that outlive the session: a later one begins near the place at once.
//!
//! * `printed`: what the program had printed up to there.
//! * `choose`: which of them serves to go to a place.
//! * `past`: what is known of the ways between them.
//! * `leave`: which are left behind by a session that took long to get somewhere.
//!
//! A session always replays the recording up to the start of the program; there the process is
//! turned into the kept one. The first checkpoint of the time line is the program's start, so that
//! all that comes before the kept one can be gone back to.

mod choose;
mod leave;
mod past;
mod printed;

pub use retake_snapshot::image::Summary;

use crate::history::target::Target;
use crate::place::Mark;
use past::Twin;
use retake_kernel::clock;
use retake_recording::{Checkpoints, KeptCheckpoint, Recording};
use retake_snapshot::image::summary;
use std::collections::HashSet;
use std::time::Duration;

/// Getting somewhere that takes as long leaves a checkpoint there, unless told otherwise.
const LONG: Duration = Duration::from_secs(3);

/// One of no more bytes is read as soon as another one is copied.
const SMALL_BYTES: u64 = 8 << 20;

/// What a session does with kept checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// It begins at those that there are.
    pub uses: bool,
    /// It leaves one where it took as long to get to; `None`: it leaves none.
    pub after: Option<Duration>,
}

impl Default for Keeping {
    fn default() -> Self {
        Self { uses: true, after: Some(LONG) }
    }
}

impl Keeping {
    /// Neither uses any nor leaves one.
    pub const NONE: Self = Self { uses: false, after: None };
}

/// The kept checkpoints of the recording that a session is about.
#[derive(Debug)]
pub(crate) struct Kept {
    places: Checkpoints,
    pub keeping: Keeping,
    /// Those of the debugged program; `None`: nobody has looked yet.
    known: Option<Vec<(KeptCheckpoint, Summary)>>,
    /// Those that were of no use, or are on the time line already.
    done: HashSet<u64>,
    /// The last that the process was made of.
    pub used: Option<(u64, Summary)>,
    /// When the session began.
    began_unix_ms: u64,
    /// How long the replay to where the session began would have taken.
    spared: Duration,
    /// For so long, when the session ends, what was executed on the way may still be found out.
    patience: Duration,
    /// Those of the time line that this session has left,
    left: Vec<Twin>,
    /// and those that it has from other sessions.
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

    /// The session is about another program.
    pub fn forget(&mut self) {
        *self = Self { keeping: self.keeping, ..Self::new(self.places.clone()) };
    }
}

/// Where one is, in the order of events.
pub(crate) fn mark(of: &Summary) -> Mark {
    Mark { turn: of.turn, events: of.events }
}

/// What is to be known of a kept checkpoint: its number and size, and where it is, or why it cannot
/// be used.
pub type Listed = (KeptCheckpoint, std::result::Result<Summary, String>);

/// All kept checkpoints of a recording.
///
/// # Errors
/// Their folder cannot be listed.
pub fn list(places: &Checkpoints) -> retake_recording::Result<Vec<Listed>> {
    let read = |kept: &KeptCheckpoint| {
        let mut reader = places.open(kept).map_err(|error| error.to_string())?;
        summary::read(&mut reader).map_err(|error| error.to_string())
    };
    Ok(places.list()?.into_iter().map(|kept| (kept.clone(), read(&kept))).collect())
}

/// Those whose summaries can be read, of this process of a recording.
fn of_target(
    recording: &Recording,
    places: &Checkpoints,
    target: &Target,
) -> Vec<(KeptCheckpoint, Summary)> {
    debug_assert!(recording.streams().any(|stream| stream.info.id == target.stream));
    let all = list(places).unwrap_or_default().into_iter();
    let program = (target.stream.0, target.first_event);
    all.filter_map(|(kept, summary)| Some((kept, summary.ok()?)))
        .filter(|(_, summary)| summary.program == program)
        .collect()
}
