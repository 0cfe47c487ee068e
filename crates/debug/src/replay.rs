//! The replay of a recording of which one process is debugged: running that process, and putting it
//! where a checkpoint was made.

use crate::checkpoint::Checkpoint;
use crate::console::Console;
use crate::error::{DebugError, Result};
use crate::executed::Executed;
use crate::history::alone::{wanted, wanted_first};
use crate::history::one_core::keep_on_one_core;
use crate::history::{Consumed, History};
use crate::inferior::{Ending, GiveUp, Inferior, Stop};
use crate::place::{Mark, Place};
use crate::program::Program;
use crate::stretch::{Past, Unhit};
use retake_kernel::shared::OPTION_ALONE;
use retake_model::StreamId;
use retake_model::event::Console as Which;
use retake_replay::{Purpose, Request, Running};
use retake_snapshot::{Process, Snapshot, slot_of, writes};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long a thread may take to reach the place where it will wait, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How often threads may report something before all of them wait.
const MOST_NEWS: usize = 100;

/// A replay, stopped somewhere.
pub(crate) struct Replay {
    pub inferior: Inferior,
    pub program: Program,
    /// What the recording says about the process.
    pub history: History,
    pub console: Console,
    /// Remarks for the user besides the place where the program stopped, a line each.
    pub remarks: String,
    /// Counts every change of the process's place.
    pub moves: u64,
    /// The last stop, if the runtime announced it.
    pub announced: Option<Stop>,
    /// What happened since the base, the last checkpoint that is certainly not after this place.
    /// The writes are known up to the last copy.
    pub since: Past,
    /// How long the process has gone on since the last checkpoint was due, including all stops on
    /// the way.
    pub went_on: Duration,
    /// All processes of the replay; `None` if it has ended.
    pub running: Option<Running>,
    folder: PathBuf,
}

impl Replay {
    /// Replays a recording up to where the program of a process has executed nothing yet. `folder`
    /// is for files of this replay.
    ///
    /// # Errors
    /// See [`DebugError`].
    pub fn start(history: History, folder: &Path) -> Result<Self> {
        let (console, output) = Console::new(folder)?;
        let (running, inferior) = begin(&history, output, folder)?;
        Ok(Self {
            program: Program::of_new(&inferior, &history.path),
            inferior,
            history,
            console,
            remarks: String::new(),
            moves: 0,
            announced: None,
            since: Past::default(),
            went_on: Duration::ZERO,
            running: Some(running),
            folder: folder.to_owned(),
        })
    }

    /// Lets the process, which is about to execute its next program, do that. The new program has
    /// executed nothing yet. No copies of the process may exist any more.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn follow_exec(&mut self) -> Result<()> {
        let next = self.history.with_program(self.history.target.program + 1)?;
        let (Some(history), Some(running)) = (next, &self.running) else {
            return Err(DebugError::NeverBegan(self.history.target.pid));
        };
        running.want(wanted(&history.recording, &history.target)?);
        self.inferior.process.let_all_go()?;
        let inferior = hold(running, &history)?;
        self.enter(history, inferior);
        Ok(())
    }

    /// The process is an image of a process that makes the debugged one, or one of its makers. Goes
    /// on until the debugged process is there and has executed nothing yet. `others` are processes
    /// that share memory with the image's.
    ///
    /// # Errors
    /// As [`Replay::start`].
    pub fn follow_makers(&mut self, mut others: Vec<Process>) -> Result<()> {
        let (history, Some(running)) = (&self.history, &self.running) else { return Ok(()) };
        running.want(wanted(&history.recording, &history.target)?);
        self.inferior.process.let_all_go()?;
        others.iter_mut().try_for_each(Process::let_all_go)?;
        self.inferior = hold(running, history)?;
        self.program = Program::of_new(&self.inferior, &history.path);
        Ok(())
    }

    /// Replays the recording anew, up to the beginning of another program of the process. No copies
    /// of the process may exist any more.
    ///
    /// # Errors
    /// As [`Replay::start`].
    pub fn restart(&mut self, history: History) -> Result<()> {
        self.end();
        let (running, inferior) = begin(&history, Console::again(&self.folder)?, &self.folder)?;
        self.running = Some(running);
        self.enter(history, inferior);
        Ok(())
    }

    /// Switches to this program. The user's catchpoints and passed signals stay; what has addresses
    /// goes.
    fn enter(&mut self, history: History, inferior: Inferior) {
        let before = std::mem::replace(&mut self.inferior, inferior);
        self.inferior.stops.catches = before.stops.catches;
        self.inferior.passed = before.passed;
        self.program = Program::of_new(&self.inferior, &history.path);
        self.history = history;
        self.moves = 0;
        self.announced = None;
        self.since = Past::default();
        self.went_on = Duration::ZERO;
    }

    /// Ends all processes of the replay.
    pub fn end(&mut self) {
        self.inferior.process.end();
        if let Some(running) = self.running.take() {
            running.end();
        }
    }

    // ---- forwards ----

    /// Goes on until something happens.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn resume(&mut self, give_up: GiveUp) -> Result<Stop> {
        let counted = self.inferior.planting.remaining;
        let stop = self.with_divergence(give_up, Inferior::resume)?;
        // If breakpoints are counted instead of stopping, it is unknown which of them were hit.
        let is_known = self.inferior.planting.remaining == counted;
        self.note(if is_known { Unhit::of_run(&self.inferior) } else { Unhit::default() });
        self.checked(stop)
    }

    /// Executes one instruction of a thread.
    ///
    /// # Errors
    /// As [`Replay::resume`].
    pub fn step(&mut self, tid: Option<i32>, give_up: GiveUp) -> Result<Stop> {
        self.inferior.current = tid.unwrap_or(self.inferior.current);
        let stop = self.with_divergence(give_up, Inferior::step)?;
        self.note(Unhit::default());
        self.checked(stop)
    }

    /// Records that the process ran.
    fn note(&mut self, unhit: Unhit) {
        let ran = Past {
            unhit,
            signals: std::mem::take(&mut self.inferior.delivered),
            executed: Executed::default(),
            ..Past::nothing()
        };
        self.since = self.since.and(&ran);
    }

    fn with_divergence(
        &mut self,
        give_up: GiveUp,
        act: impl FnOnce(&mut Inferior, GiveUp) -> Result<Stop>,
    ) -> Result<Stop> {
        let running = self.running.as_ref();
        act(&mut self.inferior, &mut || {
            running.is_some_and(|running| running.divergence().is_some()) || give_up()
        })
    }

    fn checked(&self, stop: Stop) -> Result<Stop> {
        match self.running.as_ref().and_then(Running::divergence) {
            Some(report) => Err(DebugError::Diverged(Box::new(report))),
            None => Ok(stop),
        }
    }

    // ---- where it is ----

    /// Records that the process is at another place.
    pub fn moved(&mut self) {
        self.moves += 1;
    }

    /// Where the process is, in the order of events.
    pub fn mark(&self) -> Mark {
        let context = self.inferior.context();
        Mark { turn: context.turn, events: context.event_count }
    }

    /// Whether its shared memory is its own (`history/alone.rs`).
    pub fn is_alone(&self) -> bool {
        let header = self.running.as_ref().map(Running::header);
        header.is_some_and(|header| header.options.load(Relaxed) & OPTION_ALONE != 0)
    }

    /// The CPU time of the process.
    pub fn computed(&self) -> Duration {
        retake_kernel::process::computed(self.inferior.process.pid)
    }

    /// The stream of a live thread.
    fn stream_of(&self, tid: i32) -> Option<StreamId> {
        let slot = slot_of(&self.inferior.process, tid)?;
        let header = self.running.as_ref()?.header();
        Some(StreamId(header.slots[slot].stream.load(Relaxed)))
    }

    /// The current thread's stream, and the number of events that it has consumed.
    pub fn here(&self) -> Option<Consumed> {
        let stream = self.stream_of(self.inferior.current)?;
        Some((stream, self.inferior.context().event_count))
    }

    /// The stream of any thread, by the kernel's ID, and the number of events that it has consumed.
    pub fn consumed(&self, tid: i32) -> Option<Consumed> {
        Some((self.stream_of(tid)?, self.inferior.process.context(tid)?.event_count))
    }

    /// The streams of all live threads, and the numbers of events that they have consumed.
    fn living(&self) -> Vec<Consumed> {
        let threads = self.inferior.threads().into_iter();
        threads
            .filter_map(|(tid, _)| {
                Some((self.stream_of(tid)?, self.inferior.process.context(tid)?.event_count))
            })
            .collect()
    }

    /// Hands over what the process and its ancestors printed up to here.
    ///
    /// # Errors
    /// The output cannot be read.
    pub fn printed(&mut self, which: Option<Which>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.console.collect()?;
        let turn = self.inferior.context().turn;
        let living = self.living();
        let Some(last) = self.history.last_output(&living, turn)? else { return Ok(()) };
        Ok(self.console.printed(last, which, take)?)
    }

    // ---- checkpoints ----

    /// Makes a checkpoint here, if a copy can be made.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn checkpoint(&mut self) -> Result<Option<Checkpoint>> {
        self.checkpoint_within(PATIENCE)
    }

    /// As [`Replay::checkpoint`], if the threads come to rest within this time.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn checkpoint_within(&mut self, patience: Duration) -> Result<Option<Checkpoint>> {
        let writes = writes::since_copy(self.inferior.process.pid);
        let Some(snapshot) = self.snapshot(patience)? else { return Ok(None) };
        let snapshot = Rc::new(snapshot);
        self.since = self.since.and(&Past { writes, ..Past::nothing() });
        Ok(Some(Checkpoint {
            place: Place::here(&self.inferior, Some(Rc::clone(&snapshot)))?,
            snapshot,
            is_at_event: false,
            announced: self.announced,
            fate: self.inferior.ending.fate,
            counts: self.inferior.counts(),
            since: self.since.clone(),
        }))
    }

    fn snapshot(&mut self, patience: Duration) -> Result<Option<Snapshot>> {
        let Some(running) = &self.running else { return Ok(None) };
        for _ in 0..MOST_NEWS {
            let current = self.inferior.current;
            let taken =
                Snapshot::take(&mut self.inferior.process, running.header(), current, patience)?;
            if taken.is_some() || !self.inferior.process.has_news() {
                return Ok(taken);
            }
            self.inferior.hear_others()?;
        }
        Ok(None)
    }

    /// Puts the process where a checkpoint was made. The caller knows which checkpoint of the time
    /// line is the last before it.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn revive(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        let (process, current) =
            checkpoint.snapshot.revive(running.header(), &mut self.inferior.process)?;
        self.inferior.process = process;
        self.inferior.current = current;
        self.inferior.ending = Ending { fate: checkpoint.fate, is_told: true };
        self.inferior.text.refresh(self.inferior.process.pid);
        self.announced = checkpoint.announced;
        self.since = Past::default();
        self.went_on = Duration::ZERO;
        self.moved();
        Ok(())
    }
}

fn begin(history: &History, output: File, folder: &Path) -> Result<(Running, Inferior)> {
    let request = Request { quiet: false, check_off: true };
    let purpose = Purpose {
        wanted: Some(wanted_first(&history.recording, &history.target)?),
        output: Some(output),
        ..Purpose::default()
    };
    let running = Running::start(history.recording.clone(), request, purpose, folder)?;
    match hold(&running, history) {
        Ok(inferior) => Ok((running, inferior)),
        Err(error) => {
            running.end();
            Err(error)
        }
    }
}

/// Attaches to the process at the beginning of its program.
fn hold(running: &Running, history: &History) -> Result<Inferior> {
    let target = &history.target;
    let Some(held) = running.wait_for_wanted() else {
        let report = running.divergence().map(|report| DebugError::Diverged(Box::new(report)));
        return Err(report.unwrap_or(DebugError::NeverBegan(target.pid)));
    };
    let process = Process::attach(held.pid).map_err(DebugError::Trace)?;
    process.pause_after(held.pid, Some(0))?;
    keep_on_one_core(running.header(), &history.recording, target, held.pid)?;
    running.release(held);
    let mut inferior = Inferior::new(process);
    match inferior.run(&mut || running.divergence().is_some())? {
        Stop::Step => Ok(inferior),
        _ => Err(running.divergence().map_or(DebugError::NeverBegan(target.pid), |report| {
            DebugError::Diverged(Box::new(report))
        })),
    }
}

/// Something that runs a process.
pub(crate) trait Runs {
    /// The process.
    fn inferior_mut(&mut self) -> &mut Inferior;

    /// Runs `act` without the user's breakpoints, watchpoints and catchpoints.
    ///
    /// # Errors
    /// Those of `act`.
    fn quietly<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let users = std::mem::take(&mut self.inferior_mut().stops);
        let result = act(self);
        self.inferior_mut().stops = users;
        result
    }
}

impl Runs for Replay {
    fn inferior_mut(&mut self) -> &mut Inferior {
        &mut self.inferior
    }
}
