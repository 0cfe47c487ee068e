//! A debugging session: a replay of one recording, stopped somewhere.

use crate::clock::Clock;
use crate::console::Console;
use crate::crash::Crash;
use crate::debuggee::{Debuggee, GiveUp, Stop};
use crate::diversion::Diversion;
use crate::error::{DebugError, Result};
use crate::loops::GoneOver;
use crate::one_core::keep_on_one_core;
use crate::process::Process;
use crate::program::Program;
use crate::stretch::{Past, Unhit};
use crate::target::Target;
use crate::thread_names::ThreadNames;
use crate::timeline::Timeline;
use retake_recording::Recording;
use retake_replay::{Purpose, Request, Running};
use std::cell::OnceCell;
use std::collections::HashMap;
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
    /// Made when somebody asks for a time.
    pub(crate) clock: Option<Clock>,
    names: OnceCell<ThreadNames>,
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

    /// Replays the recording up to where the program of `target` has executed nothing yet. `folder` is for files of this session. There must be
    /// no other thread in this process.
    ///
    /// # Errors
    /// See [`DebugError`].
    pub fn start(recording: &Recording, target: Target, folder: &Path) -> Result<Self> {
        let request = Request { quiet: false, check_off: true };
        let crash = Crash::find(recording, Some(target.pid))?;
        let (console, output) = Console::new(folder)?;
        let purpose = Purpose { wanted: Some(target.wanted(recording)?), output: Some(output), ..Purpose::default() };
        let running = Running::start(recording.clone(), request, purpose, folder)?;
        match Self::begin(&running, recording, &target) {
            Ok(debuggee) => {
                let program = Program::of_new(&debuggee, recording, &target);
                let about = about(recording, &target, &program);
                Ok(Self {
                    debuggee,
                    program,
                    timeline: Timeline::default(),
                    gone_over: GoneOver::default(),
                    remarks: String::new(),
                    about,
                    running: Some(running),
                    recording: recording.clone(),
                    target,
                    crash,
                    console,
                    clock: None,
                    names: OnceCell::new(),
                    diversion: None,
                })
            }
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
            _ => Err(running.divergence().map_or(DebugError::NeverBegan(target.pid), |report| DebugError::Diverged(Box::new(report)))),
        }
    }

    /// What a thread, by the program's number, is called here.
    pub(crate) fn thread_name(&self, thread: u32) -> &str {
        let names = self.names.get_or_init(|| ThreadNames::of(&self.recording, &self.target, &self.program.path));
        let tid = self.debuggee.thread(thread);
        let events = tid.and_then(|tid| self.debuggee.process.context(tid)).map_or(u64::MAX, |context| context.event_count);
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
        let ran = Past { unhit, signals: self.debuggee.take_signals(), ..Past::nothing() };
        self.timeline.since_base = self.timeline.since_base.and(&ran);
    }

    fn with_divergence(&mut self, give_up: GiveUp, act: impl FnOnce(&mut Debuggee, GiveUp) -> Result<Stop>) -> Result<Stop> {
        let running = self.running.as_ref();
        act(&mut self.debuggee, &mut || running.is_some_and(|running| running.divergence().is_some()) || give_up())
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
    let words: Vec<String> = metadata.arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let events: u64 = recording.streams().filter(|stream| stream.info.pid == target.pid).map(|stream| stream.event_count).sum();
    let path = recording.path().display();
    format!("recording {path}\ncommand   {}\nprocess   {} ({events} events), {}", words.join(" "), target.pid, program.path)
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_diversion();
        self.debuggee.process.end();
        if let Some(running) = self.running.take() {
            running.end();
        }
    }
}
