//! `retake record --in-memory`: records into memory, and saves what is there for a reason.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use regex_lite::Regex;
use retake_kernel::signals;
use retake_model::event::Console;
use retake_model::signal;
use retake_record::{Ended, Watcher};
use retake_recording::Location;

use super::{Recorder, end_as};
use crate::failure::Result;
use crate::in_memory::InMemory;
use crate::text;

/// After a reason to save, the recording may end within this time. Then it is saved whole.
const GRACE: Duration = Duration::from_millis(300);
/// How often signals to save are looked for.
const PERIOD: Duration = Duration::from_millis(50);
/// The signals by which crashes end processes.
const CRASHES: [&str; 7] =
    ["SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"];

/// When a recording in memory is saved.
#[derive(Debug, Clone)]
pub enum Rule {
    /// A process crashes.
    Crash,
    /// The program ends with another status than 0.
    ExitStatus,
    /// A signal ends a process.
    Signal,
    /// The recorder gets this signal.
    Request(i32),
    /// A line of standard error matches.
    Stderr(Regex),
}

/// Parses a rule: `crash`, `exit-status`, `signal`, `signal=USR1`, `stderr=REGEX`.
pub fn rule(text: &str) -> std::result::Result<Rule, String> {
    match text.split_once('=') {
        None if text == "crash" => Ok(Rule::Crash),
        None if text == "exit-status" => Ok(Rule::ExitStatus),
        None if text == "signal" => Ok(Rule::Signal),
        Some(("signal", name)) => requesting(name).map(Rule::Request),
        Some(("stderr", pattern)) => {
            Regex::new(pattern).map(Rule::Stderr).map_err(|error| error.to_string())
        }
        _ => Err("expected crash, exit-status, signal, signal=USR1 or stderr=REGEX".to_owned()),
    }
}

/// A signal that may ask the recorder to save. Others end a recorder, or have another use.
fn requesting(name: &str) -> std::result::Result<i32, String> {
    const REQUESTS: [&str; 4] = ["SIGUSR1", "SIGUSR2", "SIGURG", "SIGPWR"];
    let number = signal::by_name(name).filter(|&number| REQUESTS.contains(&&*signal::name(number)));
    number.map(i32::from).ok_or_else(|| "expected USR1, USR2, URG or PWR".to_owned())
}

/// What happens in the program, and whether that is a reason to save.
#[derive(Debug)]
struct Watch {
    rules: Vec<Rule>,
    /// Whether standard output is the same as standard error. Then its text counts, too.
    is_one_console: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The reason to save that has not been acted on.
    reason: Option<String>,
    /// How many signals have led to a save.
    asked: u32,
    /// The rules, by number, that have led to a reason. Each does so once while recording.
    used: Vec<usize>,
    /// The line of standard error that has no end yet.
    line: Vec<u8>,
    /// Whether recording has ended.
    has_ended: bool,
}

/// The longest line that is matched as one.
const LONGEST_LINE: usize = 4096;

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a reason of the first rule that fits and was not used yet.
    fn note(&self, state: &mut State, fits: impl Fn(&Rule) -> Option<String>) {
        let unused = self.rules.iter().enumerate().filter(|(at, _)| !state.used.contains(at));
        let found = unused.filter_map(|(at, rule)| Some((at, fits(rule)?))).next();
        if let Some((at, reason)) = found {
            state.used.push(at);
            state.reason.get_or_insert(reason);
            self.changed.notify_all();
        }
    }

    /// Why the end of the program is a reason to save.
    fn reason_of_end(&self, ended: Ended) -> Option<String> {
        let status = ExitStatus::from_raw(ended.status);
        let fits = |rule: &Rule| match rule {
            Rule::Crash | Rule::Signal => died(rule, status.signal()?),
            Rule::ExitStatus => status
                .code()
                .filter(|&code| code != 0)
                .map(|code| format!("the program ended with status {code}")),
            Rule::Request(_) | Rule::Stderr(_) => None,
        };
        self.rules.iter().find_map(fits)
    }

    /// Waits for a reason to save; `None` when recording has ended.
    fn wait(&self) -> Option<String> {
        let request = self.rules.iter().find_map(Rule::request);
        let mut state = self.lock();
        while !state.has_ended {
            let times = signals::kept_back_times();
            if times != state.asked {
                state.asked = times;
                return Some(format!("{} came", text::signal_name(request?)));
            }
            if state.reason.is_some() {
                // At the end of recording it is saved anyway, and then it is whole.
                state = self
                    .changed
                    .wait_timeout_while(state, GRACE, |state| !state.has_ended)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                if !state.has_ended {
                    return state.reason.take();
                }
                continue;
            }
            state =
                self.changed.wait_timeout(state, PERIOD).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

impl Rule {
    fn request(&self) -> Option<i32> {
        if let Self::Request(signal) = self { Some(*signal) } else { None }
    }
}

/// The reason to save, if this rule fits the end of a process by a signal.
fn died(rule: &Rule, signal: i32) -> Option<String> {
    let name = text::signal_name(signal);
    match rule {
        Rule::Crash if CRASHES.contains(&&*name) => Some(format!("a process crashed: {name}")),
        Rule::Signal => Some(format!("{name} ended a process")),
        _ => None,
    }
}

impl Watcher for Watch {
    fn died(&self, signal: i32) {
        self.note(&mut self.lock(), |rule| died(rule, signal));
    }

    fn wrote(&self, console: Console, bytes: &[u8]) {
        let is_wanted = self.rules.iter().any(|rule| matches!(rule, Rule::Stderr(_)));
        if !is_wanted || (console == Console::Out && !self.is_one_console) {
            return;
        }
        let mut state = self.lock();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            state.line.extend_from_slice(part);
            let line = String::from_utf8_lossy(&state.line).into_owned();
            self.note(&mut state, |rule| match rule {
                Rule::Stderr(pattern) if pattern.is_match(line.trim_end_matches('\n')) => {
                    Some(format!("standard error has a line like {pattern}"))
                }
                _ => None,
            });
            if part.ends_with(b"\n") || state.line.len() > LONGEST_LINE {
                state.line.clear();
            }
        }
    }
}

/// Records into memory. Ends this process as the program ended.
///
/// # Errors
/// There is too little memory, or recording fails.
pub fn run(mut recorder: Recorder<'_>, bytes: u64, seed: Option<u64>) -> Result<()> {
    let program = recorder.options.command[0].clone();
    let memory = InMemory::create(&program, bytes, &recorder.location)?;
    let disk = std::mem::replace(&mut recorder.location, memory.location());
    let rules = match &*recorder.options.save_on {
        [] => vec![Rule::Crash],
        rules => rules.to_vec(),
    };
    if let Some(signal) = rules.iter().find_map(Rule::request) {
        signals::keep_back(signal);
    }
    let watch = Arc::new(Watch {
        rules,
        is_one_console: is_one_console(),
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    recorder.watcher = Some(watch.clone());
    recorder.output = Some(memory.recording.clone());
    let saver = {
        let (watch, memory, disk) = (Arc::clone(&watch), memory.clone(), disk.clone());
        let program = program.clone();
        thread::spawn(move || {
            while let Some(reason) = watch.wait() {
                save(&memory, &disk, &program, &reason);
            }
        })
    };
    let recorded = recorder.run(seed);
    watch.lock().has_ended = true;
    watch.changed.notify_all();
    let _ = saver.join();
    let reason = match &recorded {
        Ok(run) => watch.lock().reason.take().or_else(|| watch.reason_of_end(run.ended)),
        Err(_) => Some("recording failed".to_owned()),
    };
    let is_saved = reason
        .is_none_or(|reason| !has_anything(&memory) || save(&memory, &disk, &program, &reason));
    if is_saved {
        memory.remove()?;
    }
    recorded.map(|run| end_as(run.ended))
}

/// Whether there is a recording to save.
fn has_anything(memory: &InMemory) -> bool {
    memory.recording.exists()
}

/// Saves what is there, and says so. Returns whether it succeeded; otherwise the recording stays.
fn save(memory: &InMemory, disk: &Location, program: &OsStr, reason: &str) -> bool {
    let name =
        |path: &Path| text::harmless(&path.file_stem().unwrap_or_default().to_string_lossy());
    match memory.save(disk, program) {
        Ok(path) => {
            retake_kernel::tell!("retake: {reason}; saved as {}", name(&path));
            true
        }
        Err(failure) => {
            retake_kernel::tell!(
                "error: {reason}, and the recording cannot be saved: {failure}\n  try       \
                retake save {}, which it is in memory as",
                name(&memory.recording)
            );
            false
        }
    }
}

/// Whether standard output and standard error are the same.
fn is_one_console() -> bool {
    let identity = |status: rustix::fs::Stat| (status.st_dev, status.st_ino);
    let [out, error] = [
        rustix::fs::fstat(std::io::stdout()).map(identity),
        rustix::fs::fstat(std::io::stderr()).map(identity),
    ];
    out.is_ok() && out == error
}
