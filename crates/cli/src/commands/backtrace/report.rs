//! What `retake backtrace` tells, as data.

use retake_debug::Crash;
use serde::{Deserialize, Serialize};

use crate::json_event::JsonEvent;
use crate::processes::Process;

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Path of the recording.
    pub recording: String,
    /// What was recorded.
    pub command: Vec<String>,
    /// Null if nothing crashed.
    pub crash: Option<CrashReport>,
    /// The threads of the process, the one that crashed first.
    pub threads: Vec<Thread>,
    /// Why they are not there, if they should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_threads: Option<String>,
    /// The last events of the thread that crashed.
    pub events: Vec<JsonEvent>,
    /// All processes, and how they ended.
    pub processes: Vec<Process>,
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
}

/// A variable and its value.
#[derive(Debug, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// As gdb shows it.
    pub value: String,
}
