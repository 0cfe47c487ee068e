//! What `retake backtrace` tells, as data.

use retake_debug::{Crash, EndedOutside, Known, Told, Wait};
use serde::{Deserialize, Serialize};

use crate::json_event::JsonEvent;
use crate::processes::Process;
use crate::text;

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Path of the recording.
    pub recording: String,
    /// What was recorded.
    pub command: Vec<String>,
    /// Null if nothing crashed.
    pub crash: Option<CrashReport>,
    /// Processes that somebody outside of the recording ended; only if nothing crashed.
    pub ended: Vec<EndedReport>,
    /// The threads of the process, the one that crashed first.
    pub threads: Vec<Thread>,
    /// Why they are not there, if they should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_threads: Option<String>,
    /// What threads waited for, where they were ended, or at the place that was asked for.
    pub waits: Vec<Wait>,
    /// Which of them waited for each other, in words.
    pub deadlocks: Vec<String>,
    /// All of that in words.
    #[serde(skip)]
    pub told: Vec<String>,
    /// The last events of the thread that crashed.
    pub events: Vec<JsonEvent>,
    /// All processes, and how they ended.
    pub processes: Vec<Process>,
}

impl Report {
    /// The file and line of the user's own code that it is about.
    pub fn own_frame(&self) -> Option<(&str, u32)> {
        let ended = self.ended.iter().flat_map(|ended| &ended.threads);
        let thread = self.threads.iter().chain(ended).find(|thread| thread.current)?;
        let script = thread.python.first().and_then(|one| Some((one.file.as_str(), one.line?)));
        let own = thread.frames.iter().find(|frame| frame.own && frame.file.is_some());
        own.and_then(|frame| Some((frame.file.as_deref()?, frame.line?))).or(script)
    }

    /// Takes in what threads wait for. `known`: all threads that were looked at.
    pub fn tell(&mut self, waits: Vec<Wait>, known: &[Known]) {
        let told = Told::new(&waits, known);
        (self.deadlocks, self.told) = (told.deadlocks(), told.lines());
        self.waits = waits;
    }
}

/// A process that did not end by itself.
#[derive(Debug, Serialize)]
pub struct EndedReport {
    /// Its number while recording.
    pub pid: i32,
    /// The program it ran.
    pub program: Option<String>,
    /// `SIGTERM`; null if the recording has no end of it.
    pub signal: Option<String>,
    /// Its threads, as they were then.
    pub threads: Vec<Thread>,
}

impl EndedReport {
    /// Of one of these processes.
    pub fn new(ended: &EndedOutside, processes: &[Process]) -> Self {
        let process = processes.iter().find(|process| process.pid == ended.pid);
        Self {
            pid: ended.pid,
            program: process.and_then(|process| process.program.clone()),
            signal: ended.signal.map(|signal| text::signal_name(signal.into())),
            threads: Vec::new(),
        }
    }

    /// All of it in words.
    pub fn text(&self) -> String {
        match &self.signal {
            Some(signal) => format!("ended by {signal} from outside"),
            None => "not ended yet where the recording ends".to_owned(),
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
    /// `SIGSEGV`.
    pub signal: String,
    /// `SEGV_MAPERR`.
    pub code: String,
    /// The address it is about, as hexadecimal text.
    pub address: Option<String>,
    /// The number of the event in the thread's stream.
    pub event: u64,
    /// All of it in words.
    pub text: String,
}

impl CrashReport {
    /// Of a crash in one of these processes.
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

/// A thread and its stack, as gdb tells of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Thread {
    /// Its number while recording.
    pub tid: i64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether it is the one that the stop is about.
    pub current: bool,
    /// The innermost one first.
    pub frames: Vec<Frame>,
    /// Whether there are more.
    pub more_frames: bool,
    /// Where it is in its script, if that is Python: the innermost one first.
    pub python: Vec<Script>,
}

/// A call of a function of a script.
#[derive(Debug, Serialize, Deserialize)]
pub struct Script {
    /// Its name.
    pub function: String,
    /// The script.
    pub file: String,
    /// Line in it.
    pub line: Option<u32>,
}

/// A call of a function.
#[derive(Debug, Serialize, Deserialize)]
pub struct Frame {
    /// 0 for the innermost.
    pub level: u32,
    /// Its name, if there are symbols.
    pub function: Option<String>,
    /// Where in it.
    pub address: String,
    /// Source file, if there is debug information.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// The library it is in, if it is in one.
    pub library: Option<String>,
    /// What it was called with.
    pub arguments: Vec<Variable>,
    /// Its variables, the innermost first.
    pub locals: Vec<Variable>,
    /// Whether it is the user's code, not that of a library of the system or the language.
    pub own: bool,
}

/// A variable and its value.
#[derive(Debug, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// As gdb shows it.
    pub value: String,
}
