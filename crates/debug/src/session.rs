//! A debugging session: a replay of one recording, stopped somewhere.

use crate::clock::Clock;
use crate::console::Console;
use crate::crash::Crash;
use crate::debuggee::{Debuggee, GiveUp, Stop};
use crate::diversion::Diversion;
use crate::error::{DebugError, Result};
use crate::executed::Executed;
use crate::kept::{Keeping, Kept};
use crate::loops::GoneOver;
use crate::one_core::keep_on_one_core;
use crate::program::Program;
use crate::stretch::{Past, Unhit};
use crate::target::Target;
use crate::thread_names::ThreadNames;
use crate::timeline::Timeline;
use retake_recording::{Checkpoints, Location, Recording};
use retake_replay::{Purpose, Request, Running};
use retake_snapshot::Process;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A process of a recording, under our control.
pub struct Session {
    pub(crate) debuggee: Debuggee,
    pub(crate) program: Program,
    pub(crate) timeline: Timeline,
    pub(crate) gone_over: GoneOver,
    /// What users are to be told beside where the program stopped, a line each.
    pub(crate) remarks: String,
    /// Which recording this is, for people.
    pub(crate) about: String,
    pub(crate) running: Option<Running>,
    pub(crate) recording: Recording,
    pub(crate) target: Target,
    /// How the process died, if it did.
    pub(crate) crash: Option<Crash>,
    pub(crate) console: Console,
    folder: PathBuf,
    /// Made when somebody asks for a time.
    pub(crate) clock: Option<Clock>,
    names: OnceCell<ThreadNames>,
    /// What other sessions have left.
    pub(crate) kept: Kept,
    /// Where registers and memory were changed, until the program goes on.
    pub(crate) diversion: Option<Diversion>,
}

impl Session {
    /// What the program was executed by, as it was called while recording.
    pub fn program_path(&self) -> &str {
        &self.program.path
    }

    /// The stored files that the program has loaded, and what it knew them by.
    pub fn loaded_files(&self) -> HashMap<PathBuf, String> {
        self.program.names(&self.debuggee)
    }

    /// What it does with kept checkpoints, from here on: nothing, unless told otherwise.
    #[must_use]
    pub fn with_kept(mut self, keeping: Keeping) -> Self {
        self.kept.keeping = keeping;
        self
    }

    /// What users are to be told, a line each; it is not told again.
    pub fn take_remarks(&mut self) -> String {
        std::mem::take(&mut self.remarks)
    }

    /// Replays the recording up to where the program of `target` has executed nothing yet. `folder`
    /// is for files of this session. Other threads of this process may do nothing but wait
    /// meanwhile.
    ///
    /// # Errors
    /// See [`DebugError`].
    pub fn start(recording: &Recording, target: Target, folder: &Path) -> Result<Self> {
        let crash = target.crash(recording)?;
        let (console, output) = Console::new(folder)?;
        let (running, debuggee) = Self::replay(recording, &target, output, folder)?;
        let program = Program::of_new(&debuggee, recording, &target);
        Ok(Self {
            about: about(recording, &target, &program),
            debuggee,
            program,
            timeline: Timeline::default(),
            gone_over: GoneOver::default(),
            remarks: String::new(),
            running: Some(running),
            recording: recording.clone(),
            target,
            crash,
            console,
            folder: folder.to_owned(),
            clock: None,
            names: OnceCell::new(),
            kept: Kept::new(Checkpoints::of(recording, Location::from_environment().ok().as_ref())),
            diversion: None,
        })
    }

    fn replay(
        recording: &Recording,
        target: &Target,
        output: File,
        folder: &Path,
    ) -> Result<(Running, Debuggee)> {
        let request = Request { quiet: false, check_off: true };
        let purpose = Purpose {
            wanted: Some(target.wanted(recording)?),
            output: Some(output),
            ..Purpose::default()
        };
        let running = Running::start(recording.clone(), request, purpose, folder)?;
        match Self::begin(&running, recording, target) {
            Ok(debuggee) => Ok((running, debuggee)),
            Err(error) => {
                running.end();
                Err(error)
            }
        }
    }

    fn begin(running: &Running, recording: &Recording, target: &Target) -> Result<Debuggee> {
        let Some(held) = running.wait_for_wanted() else {
            let report = running.divergence().map(|report| DebugError::Diverged(Box::new(report)));
            return Err(report.unwrap_or(DebugError::NeverBegan(target.pid)));
        };
        let process = Process::attach(held.pid).map_err(DebugError::Trace)?;
        process.pause_after(held.pid, Some(0))?;
        keep_on_one_core(running.header(), recording, target, held.pid)?;
        running.release(held);
        let mut debuggee = Debuggee::new(process);
        match debuggee.run(&mut || running.divergence().is_some())? {
            Stop::Step => Ok(debuggee),
            _ => Err(running.divergence().map_or(DebugError::NeverBegan(target.pid), |report| {
                DebugError::Diverged(Box::new(report))
            })),
        }
    }

    // ---- from one program of the process to another ----

    /// The process, which is about to execute its next program, does that: nothing of it has been
    /// executed then.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub(crate) fn follow_exec(&mut self) -> Result<()> {
        let next = self.target.with_program(&self.recording, self.target.program + 1);
        let (Some(target), Some(running)) = (next, &self.running) else {
            return Err(DebugError::NeverBegan(self.target.pid));
        };
        // Copies are of a program that is gone.
        self.timeline = Timeline::default();
        running.want(target.wanted(&self.recording)?);
        self.debuggee.process.let_all_go()?;
        let debuggee = Self::begin(running, &self.recording, &target)?;
        self.enter(target, debuggee)
    }

    /// Goes back to the end of the program before this one: where the process is about to execute
    /// this. The recording is replayed anew up to there.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub(crate) fn return_before_exec(&mut self, give_up: GiveUp) -> Result<()> {
        let before = self
            .target
            .program
            .checked_sub(1)
            .and_then(|program| self.target.with_program(&self.recording, program));
        let Some(target) = before else { return Ok(()) };
        self.end_replay();
        let (running, debuggee) =
            Self::replay(&self.recording, &target, Console::again(&self.folder)?, &self.folder)?;
        self.running = Some(running);
        self.enter(target, debuggee)?;
        self.go_to_end(give_up)?;
        Ok(self.console.collect()?)
    }

    /// From here on the session is about this program. What users want to be told of stays, but for
    /// what has addresses.
    fn enter(&mut self, target: Target, debuggee: Debuggee) -> Result<()> {
        let before = std::mem::replace(&mut self.debuggee, debuggee);
        (self.debuggee.catches, self.debuggee.passed) = (before.catches, before.passed);
        self.program = Program::of_new(&self.debuggee, &self.recording, &target);
        self.about = about(&self.recording, &target, &self.program);
        self.crash = target.crash(&self.recording)?;
        self.gone_over = GoneOver::default();
        self.names = OnceCell::new();
        self.kept.forget();
        self.target = target;
        Ok(())
    }

    fn end_replay(&mut self) {
        self.timeline = Timeline::default();
        self.debuggee.process.end();
        if let Some(running) = self.running.take() {
            running.end();
        }
    }

    /// What a thread, by the program's number, is called here.
    pub(crate) fn thread_name(&self, thread: u32) -> &str {
        let names = self
            .names
            .get_or_init(|| ThreadNames::of(&self.recording, &self.target, &self.program.path));
        let tid = self.debuggee.thread(thread);
        let events = tid
            .and_then(|tid| self.debuggee.process.context(tid))
            .map_or(u64::MAX, |context| context.event_count);
        names.name(thread, events)
    }

    /// Goes on until something happens.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub(crate) fn resume(&mut self, give_up: GiveUp) -> Result<Stop> {
        let counted = self.debuggee.remaining;
        let stop = self.with_divergence(give_up, Debuggee::resume)?;
        // Where breakpoints are counted instead of stopping, it is not known which were hit.
        let is_known = self.debuggee.remaining == counted;
        self.note(if is_known { Unhit::of_run(&self.debuggee) } else { Unhit::default() });
        self.checked(stop)
    }

    /// Executes one instruction of a thread.
    ///
    /// # Errors
    /// As [`Session::resume`].
    pub(crate) fn step(&mut self, tid: Option<i32>, give_up: GiveUp) -> Result<Stop> {
        self.debuggee.current = tid.unwrap_or(self.debuggee.current);
        let stop = self.with_divergence(give_up, Debuggee::step)?;
        self.note(Unhit::default());
        self.checked(stop)
    }

    /// The process ran.
    fn note(&mut self, unhit: Unhit) {
        let ran = Past {
            unhit,
            signals: self.debuggee.take_signals(),
            executed: Executed::default(),
            ..Past::nothing()
        };
        self.timeline.since_base = self.timeline.since_base.and(&ran);
    }

    fn with_divergence(
        &mut self,
        give_up: GiveUp,
        act: impl FnOnce(&mut Debuggee, GiveUp) -> Result<Stop>,
    ) -> Result<Stop> {
        let running = self.running.as_ref();
        act(&mut self.debuggee, &mut || {
            running.is_some_and(|running| running.divergence().is_some()) || give_up()
        })
    }

    fn checked(&self, stop: Stop) -> Result<Stop> {
        match self.running.as_ref().and_then(Running::divergence) {
            Some(report) => Err(DebugError::Diverged(Box::new(report))),
            None => Ok(stop),
        }
    }
}

fn about(recording: &Recording, target: &Target, program: &Program) -> String {
    let metadata = recording.metadata();
    let words: Vec<String> =
        metadata.arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let events: u64 = recording
        .streams()
        .filter(|stream| stream.info.pid == target.pid)
        .map(|stream| stream.event_count)
        .sum();
    let path = recording.path().display();
    format!(
        "recording {path}\ncommand   {}\nprocess   {} ({events} events), {}",
        words.join(" "),
        target.pid,
        program.path
    )
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_diversion();
        self.end_replay();
    }
}
