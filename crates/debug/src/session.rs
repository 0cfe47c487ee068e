//! A debugging session: a replay of one recording, stopped somewhere, and the actions of its user.

use crate::destination::Destination;
use crate::diversion::Changes;
use crate::error::Result;
use crate::history::History;
use crate::history::target::Target;
use crate::inferior::{Fate, GiveUp, Inferior, Stop, signal_here};
use crate::kept::{Keeping, Kept, Summary};
use crate::lines::loops::GoneOver;
use crate::replay::{Replay, Runs};
use crate::scripts::{Known, Scripts};
use crate::timeline::Timeline;
use crate::tls::Locals;
use crate::travel::Travel;
use retake_model::event::Console;
use retake_model::signal::SIGINFO_BYTES;
use retake_recording::{Checkpoints, KeptCheckpoint, Location, Recording};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process that was killed may take to come to a call. If it takes longer, it was
/// computing.
const LONGEST_TO_CALL: Duration = Duration::from_secs(5);

/// A process of a recording, under our control.
pub struct DebugSession {
    /// The user's changes, until the program goes on.
    pub(crate) changes: Changes,
    pub(crate) gone_over: GoneOver,
    known: Known,
    pub(crate) travel: Travel,
}

impl DebugSession {
    /// Replays the recording up to where the program of `target` has executed nothing yet. `folder`
    /// is for files of this session. Meanwhile, other threads of this process may do nothing but
    /// wait.
    ///
    /// # Errors
    /// See [`DebugError`](crate::DebugError).
    pub fn start(recording: &Recording, target: Target, folder: &Path) -> Result<Self> {
        let mut replay = Replay::start(History::of(recording, target)?, folder)?;
        let location = Location::from_environment().ok();
        let kept = Kept::new(Checkpoints::of(recording, location.as_ref()));
        kept.begin_late(&mut replay)?;
        Ok(Self {
            changes: Changes::default(),
            gone_over: GoneOver::default(),
            known: Known::default(),
            travel: Travel::new(Timeline::new(replay), kept),
        })
    }

    /// Sets how the session uses kept checkpoints from here on. By default it does not, and neither
    /// does one that begins at an image.
    #[must_use]
    pub fn with_kept(mut self, keeping: Keeping) -> Self {
        let begins_late = self.replay().history.target.begins_late;
        self.travel.kept.keeping = if begins_late { Keeping::NONE } else { keeping };
        self
    }

    pub(crate) fn timeline(&mut self) -> &mut Timeline {
        &mut self.travel.timeline
    }

    pub(crate) fn replay(&self) -> &Replay {
        &self.travel.timeline.replay
    }

    pub(crate) fn replay_mut(&mut self) -> &mut Replay {
        &mut self.travel.timeline.replay
    }

    pub(crate) fn inferior(&self) -> &Inferior {
        &self.replay().inferior
    }

    // ---- information ----

    /// The path by which the program was executed in the recording.
    pub fn program_path(&self) -> &str {
        &self.replay().program.path
    }

    /// The stored files that the program has loaded, with the program's names for them.
    pub fn loaded_files(&self) -> HashMap<PathBuf, String> {
        self.replay().program.names(self.inferior())
    }

    /// Takes the remarks for the user, a line each.
    pub fn take_remarks(&mut self) -> String {
        std::mem::take(&mut self.replay_mut().remarks)
    }

    /// Writes what the program and its ancestors wrote to standard output and error up to here.
    ///
    /// # Errors
    /// The output cannot be read or written.
    pub fn write_output(&mut self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let mut result = Ok(());
        let replay = self.replay_mut();
        replay.printed(Some(Console::Out), &mut |bytes| {
            keep_first(&mut result, out.write_all(bytes))
        })?;
        replay.printed(Some(Console::Err), &mut |bytes| {
            keep_first(&mut result, err.write_all(bytes))
        })?;
        Ok(result.and_then(|()| out.flush()).and_then(|()| err.flush())?)
    }

    /// Describes where the process is: the thread, and its next event.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn describe_place(&self) -> Result<String> {
        let context = self.inferior().context();
        let next = self.events_around(0, 1)?.lines().last().unwrap_or_default().trim().to_owned();
        let is_open = self.inferior().ending.fate == Fate::Open;
        let where_to = if is_open { "" } else { ", the end" };
        Ok(format!("thread {}, event {}{where_to}: {next}", context.tid, context.event_count))
    }

    /// Describes the events of the current thread before and after this place.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(crate) fn events_around(&self, before: u64, after: u64) -> Result<String> {
        let Some(here) = self.replay().here() else {
            return Ok("the thread has no events".to_owned());
        };
        self.replay().history.events_around(here, before, after)
    }

    /// The kernel's information about the signal that the program is about to get; `None` if it
    /// gets none here.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(crate) fn siginfo(&self) -> Result<Option<[u8; SIGINFO_BYTES]>> {
        let replay = self.replay();
        let number = signal_here(&replay.inferior)?.and_then(|number| u16::try_from(number).ok());
        match (number, replay.here()) {
            (Some(number), Some(here)) => replay.history.siginfo(here, number),
            _ => Ok(None),
        }
    }

    /// The name here of a thread, by the program's ID.
    pub(crate) fn thread_name(&self, thread: u32) -> &str {
        let inferior = self.inferior();
        let tid = inferior.thread(thread);
        let context = tid.and_then(|tid| inferior.process.context(tid));
        let events = context.map_or(u64::MAX, |context| context.event_count);
        self.replay().history.thread_name(thread, events)
    }

    /// Finds thread-local variables.
    pub(crate) fn locals(&self) -> Locals<'_> {
        let replay = self.replay();
        Locals { program: &replay.program, inferior: &replay.inferior, changes: &self.changes }
    }

    /// Finds frames of languages that are not native.
    pub(crate) fn scripts(&self) -> Scripts<'_> {
        let replay = self.replay();
        Scripts {
            known: &self.known,
            program: &replay.program,
            inferior: &replay.inferior,
            changes: &self.changes,
        }
    }

    // ---- going to places ----

    /// Moves the process to where the user wants it, before a debugger connects.
    ///
    /// # Errors
    /// There is no such place, the replay diverged, or the process cannot be controlled.
    pub fn go(&mut self, destination: Destination) -> Result<()> {
        let destination = self.exact(destination)?;
        let since = Instant::now();
        self.travel.kept.used = None;
        let Travel { kept, timeline, .. } = &mut self.travel;
        if kept.arrive_at(timeline, destination)?.is_some() {
            kept.remark_begin(&mut timeline.replay);
            return Ok(());
        }
        self.go_to(destination, &mut || false)?;
        let Travel { kept, timeline, .. } = &mut self.travel;
        kept.remark_begin(&mut timeline.replay);
        kept.leave(timeline, destination, since.elapsed())
    }

    /// Converts a place to one in terms of events.
    ///
    /// # Errors
    /// There is no such place.
    pub(crate) fn exact(&self, destination: Destination) -> Result<Destination> {
        self.travel.bookmarks.check(destination)?;
        if let Destination::Event(None, events) = destination {
            self.replay().history.check_place(self.inferior().context().tid, events)?;
        }
        self.replay().history.exact(destination)
    }

    /// Goes to a place that [`DebugSession::exact`] returned.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub(crate) fn go_to(&mut self, destination: Destination, give_up: GiveUp) -> Result<Stop> {
        let Travel { kept, timeline, .. } = &mut self.travel;
        if let Destination::Event(..) | Destination::End | Destination::Crash = destination
            && timeline.replay.moves > 0
            && let Some(stop) = kept.arrive_at(timeline, destination)?
        {
            return Ok(stop);
        }
        match destination {
            Destination::Event(thread, events) => {
                let thread = thread.unwrap_or_else(|| self.inferior().context().tid);
                self.travel.seek(thread, events, give_up)
            }
            Destination::Time(_) | Destination::End | Destination::Crash => {
                match self.replay().history.last_event()? {
                    Some(last) => self.go_on_from_last_event(last, give_up),
                    None => self.travel.go_to_end(give_up),
                }
            }
            Destination::Begin => self.timeline().go_to_begin(),
            Destination::Checkpoint(number) => {
                self.travel.bookmarks.go_to(number, &mut self.travel.timeline)
            }
        }
    }

    /// Goes to the last event of a process that was killed. Then goes on to the call in which it
    /// was killed, if it soon comes to one: it may have been killed while it computed.
    fn go_on_from_last_event(
        &mut self,
        (thread, events): (u32, u64),
        give_up: GiveUp,
    ) -> Result<Stop> {
        let stop = self.travel.seek(thread, events, give_up)?;
        if stop == Stop::Interrupted || self.inferior().ending.fate != Fate::Open {
            return Ok(stop);
        }
        let Some(here) = self.replay_mut().checkpoint()? else { return Ok(stop) };
        let since = Instant::now();
        self.timeline().quietly(|timeline| {
            loop {
                let stop = timeline.forward(&mut || since.elapsed() >= LONGEST_TO_CALL)?;
                if timeline.replay.inferior.ending.fate != Fate::Open {
                    return Ok(stop);
                }
                if stop.if_announced().is_none() {
                    break;
                }
            }
            timeline.replay.revive(&here)?;
            timeline.rebase_before(timeline.replay.mark());
            Ok(stop)
        })
    }

    /// Goes on for about this long, unless the program ends before. Returns whether it ends.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn go_on_for(&mut self, time: Duration) -> Result<bool> {
        let since = Instant::now();
        self.timeline().quietly(|timeline| {
            loop {
                let stop = timeline.forward(&mut || since.elapsed() >= time)?;
                if timeline.replay.inferior.ending.fate != Fate::Open {
                    return Ok(false);
                }
                if stop.if_announced().is_none() {
                    return Ok(matches!(stop, Stop::Interrupted));
                }
            }
        })
    }

    // ---- from one program of the process to another ----

    /// Lets the process, which is about to execute its next program, do that. The new program has
    /// executed nothing yet.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub(crate) fn follow_exec(&mut self) -> Result<()> {
        let history = &self.replay().history;
        if !history.target.is_replaced() {
            return Err(crate::DebugError::NeverBegan(history.target.pid));
        }
        // The copies are of a program that is gone.
        self.travel.clear();
        self.replay_mut().follow_exec()?;
        self.forget();
        Ok(())
    }

    /// Goes back to the end of the program before this one, where the process is about to execute
    /// this one. Replays the recording anew up to there.
    ///
    /// # Errors
    /// As [`DebugSession::start`].
    pub(crate) fn return_before_exec(&mut self, give_up: GiveUp) -> Result<()> {
        let history = &self.replay().history;
        let before = history.target.program.checked_sub(1);
        let before = before.map(|program| history.with_program(program)).transpose()?.flatten();
        let Some(history) = before else { return Ok(()) };
        self.travel.clear();
        self.replay_mut().restart(history)?;
        self.travel.kept.begin_late(&mut self.travel.timeline.replay)?;
        self.forget();
        self.travel.go_to_end(give_up)?;
        Ok(self.replay_mut().console.collect()?)
    }

    /// Forgets what has addresses of another program.
    fn forget(&mut self) {
        self.gone_over = GoneOver::default();
        self.travel.kept.forget();
    }

    // ---- kept checkpoints ----

    /// Keeps a checkpoint where the process is, for the user. `after` is how long replay took to
    /// come here. If the user has kept one for this very place before, returns that one.
    ///
    /// # Errors
    /// `CannotKeep` if no copy can be made here, or if another session could not restore it. There
    /// is no space.
    pub fn keep_here(
        &mut self,
        destination: Option<Destination>,
        after: Duration,
    ) -> Result<(KeptCheckpoint, Summary)> {
        let destination = destination.map(|destination| self.exact(destination)).transpose()?;
        let Travel { kept, timeline, .. } = &mut self.travel;
        kept.keep_here(&mut timeline.replay, destination, after)
    }

    /// Writes what is known about the ways to the checkpoints that this session has left.
    ///
    /// # Errors
    /// There is no space.
    pub(crate) fn keep_past(&mut self) -> Result<()> {
        let Travel { kept, timeline, .. } = &mut self.travel;
        kept.keep_past(timeline)
    }
}

impl Drop for DebugSession {
    fn drop(&mut self) {
        self.changes.end();
        self.travel.clear();
        self.replay_mut().end();
    }
}

fn keep_first(result: &mut io::Result<()>, next: io::Result<()>) {
    if result.is_ok() {
        *result = next;
    }
}
