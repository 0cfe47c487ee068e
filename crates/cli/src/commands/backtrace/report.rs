//! The report of `retake backtrace`, as data.

use retake_debug::{Crash, EndedOutside, Known, Told, Wait};
use serde::{Deserialize, Serialize};

use crate::json_event::JsonEvent;
use crate::processes::Process;
use crate::text;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Path of the recording.
    pub recording: String,
    /// The recorded command.
    pub command: Vec<String>,
    /// The crash; null if nothing crashed.
    pub crash: Option<CrashReport>,
    /// Processes that were ended from outside of the recording; only if nothing crashed.
    pub ended: Vec<EndedReport>,
    /// The threads of the process, the crashed one first.
    pub threads: Vec<Thread>,
    /// Why the threads are missing, if there should be some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_threads: Option<String>,
    /// What threads waited for when they were ended, or at the place that the user named.
    pub waits: Vec<Wait>,
    /// The threads that waited for each other, in words.
    pub deadlocks: Vec<String>,
    /// The waits and deadlocks in words.
    #[serde(skip)]
    pub told: Vec<String>,
    /// The last events of the thread that crashed.
    pub events: Vec<JsonEvent>,
    /// All processes, and how they ended.
    pub processes: Vec<Process>,
}

impl Report {
    /// The file and line of the innermost frame that is the user's own code.
    pub fn own_frame(&self) -> Option<(&str, u32)> {
        let ended = self.ended.iter().flat_map(|ended| &ended.threads);
        let thread = self.threads.iter().chain(ended).find(|thread| thread.current)?;
        let script = thread.python.iter().chain(&thread.managed).next();
        let script = script.and_then(|one| Some((one.file.as_str(), one.line?)));
        let own = thread.frames.iter().find(|frame| frame.own && frame.file.is_some());
        own.and_then(|frame| Some((frame.file.as_deref()?, frame.line?))).or(script)
    }

    /// Adds what threads wait for. `known` has all threads that were looked at.
    pub fn tell(&mut self, waits: Vec<Wait>, known: &[Known]) {
        let told = Told::new(&waits, known);
        (self.deadlocks, self.told) = (told.deadlocks(), told.lines());
        self.waits = waits;
    }
}

/// A process that was ended from outside, or had not ended.
#[derive(Debug, Serialize)]
pub struct EndedReport {
    /// Its number while recording.
    pub pid: i32,
    /// The program it ran.
    pub program: Option<String>,
    /// The signal, such as `SIGTERM`; null if the recording does not contain the end.
    pub signal: Option<String>,
    /// Its threads at that time.
    pub threads: Vec<Thread>,
}

impl EndedReport {
    /// The report on one of these processes, without its threads.
    pub fn new(ended: &EndedOutside, processes: &[Process]) -> Self {
        let process = processes.iter().find(|process| process.pid == ended.pid);
        Self {
            pid: ended.pid,
            program: process.and_then(|process| process.program.clone()),
            signal: ended.signal.map(|signal| text::signal_name(signal.into())),
            threads: Vec::new(),
        }
    }

    /// How the process ended, in words.
    pub fn text(&self) -> String {
        match &self.signal {
            Some(signal) => format!("ended by {signal} from outside"),
            None => "still running at the end of the recording".to_owned(),
        }
    }
}

/// How a process died.
#[derive(Debug, Serialize)]
pub struct CrashReport {
    /// Its number while recording.
    pub pid: i32,
    /// The thread that got the signal.
    pub tid: i32,
    /// The program it ran.
    pub program: Option<String>,
    /// The signal, such as `SIGSEGV`.
    pub signal: String,
    /// The signal's code, such as `SEGV_MAPERR`.
    pub code: String,
    /// The address that the signal reports, as hexadecimal text.
    pub address: Option<String>,
    /// The number of the event in the thread's stream.
    pub event: u64,
    /// The crash in words.
    pub text: String,
}

impl CrashReport {
    /// The report on a crash of one of these processes.
    pub fn new(crash: &Crash, processes: &[Process]) -> Self {
        let process = processes.iter().find(|process| process.pid == crash.pid);
        Self {
            pid: crash.pid,
            tid: crash.tid,
            program: process.and_then(|process| process.program.clone()),
            signal: crash.signal_name(),
            code: crash.code_name(),
            address: crash.address().map(|address| format!("{address:#x}")),
            event: crash.event,
            text: crash.describe(),
        }
    }
}

/// A thread and its stack, as gdb reports them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Thread {
    /// Its number while recording.
    pub tid: i64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether the stop is about this thread.
    pub current: bool,
    /// Its frames, the innermost first.
    pub frames: Vec<Frame>,
    /// Whether it has more frames than these.
    pub more_frames: bool,
    /// The frames of its Python script, if it runs one, the innermost first.
    pub python: Vec<Script>,
    /// Why there are none of these, if the program runs an interpreter that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_python: Option<String>,
    /// Its frames in other languages that make or interpret code, the innermost first.
    pub managed: Vec<Script>,
    /// The languages whose frames are not known here, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_managed: Vec<String>,
}

/// A frame of a script.
#[derive(Debug, Serialize, Deserialize)]
pub struct Script {
    /// Its language, if that is not Python.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The function's name.
    pub function: String,
    /// The script.
    pub file: String,
    /// The line in the script.
    pub line: Option<u32>,
    /// The function's arguments.
    pub arguments: Vec<Variable>,
    /// The function's other variables.
    pub locals: Vec<Variable>,
}

/// A frame of the stack.
#[derive(Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Its number, 0 for the innermost.
    pub level: u32,
    /// The function's name, if there are symbols.
    pub function: Option<String>,
    /// The program counter.
    pub address: String,
    /// The source file, if there is debug information.
    pub file: Option<String>,
    /// The line in the source file.
    pub line: Option<u32>,
    /// The library that contains the function, if any.
    pub library: Option<String>,
    /// The function's arguments.
    pub arguments: Vec<Variable>,
    /// The function's variables, those of the innermost block first.
    pub locals: Vec<Variable>,
    /// Whether it is the user's code: not in a library of the system or the language.
    pub own: bool,
    /// The frames of a Python script that this one evaluates, the innermost first.
    pub python: Vec<Script>,
    /// The frames of another language that this one executes, the innermost first.
    pub managed: Vec<Script>,
}

/// A variable and its value.
#[derive(Debug, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value as gdb shows it.
    pub value: String,
}
