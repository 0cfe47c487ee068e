//! Tracing from outside by ptrace: needs no privilege and no help from the program, and costs several microseconds a call.
//!
//! What is seen is written as the runtime would write it, so that everything behind it is the same.

use crate::call;
use crate::live::{Live, Observer};
use crate::spool::{self, Spool};
use crate::state;
use crate::walk::{self, Before, Memory};
use crate::{Error, Result};
use retake_kernel::call_tracer::{self, CallStop, Processors, Stop};
use retake_kernel::clock;
use retake_kernel::process::{self, Program};
use retake_model::event::EXEC_COMMITTED;
use retake_record::EventLog;
use retake_recording::{ChunkEvents, Exit, Metadata, Outcome, RecordingWriter, StreamId, StreamInfo, StreamKind};
use retake_trace_format::{StartKind, TracedCall};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

const EXIT: u64 = 60;
const EXIT_GROUP: u64 = 231;
/// While these are made a thread has the processors that it believes to have: it asks for them, or hands them on.
const ABOUT_PROCESSORS: [u64; 9] = [203, 204, 56, 57, 58, 59, 322, 435, 309];

/// What to run and how much of it to keep.
#[derive(Debug, Clone)]
pub struct Request {
    /// As for the other methods.
    pub program: retake_record::Request,
    /// Bytes kept of each buffer.
    pub data_limit: u64,
}

/// Runs a program and hands on what it does, calls in the order in which they return. Returns its wait status.
///
/// # Errors
/// The program cannot be run or traced.
pub fn live(request: &Request, observer: Observer) -> Result<i32> {
    let live = Live::new(observer);
    let status = run(request, Arc::clone(&live) as Arc<_>)?;
    live.take_error().map_or(Ok(status), Err)
}

/// As [`crate::inside::into_spool`].
///
/// # Errors
/// The program cannot be run or traced, or the folder cannot be made.
pub fn into_spool(request: &Request, folder: &Path, metadata: &Metadata) -> Result<i32> {
    let mut metadata = metadata.clone();
    spool::mark(&mut metadata);
    run(request, Arc::new(Spool(RecordingWriter::create(folder, &metadata)?)))
}

fn run(request: &Request, log: Arc<dyn EventLog>) -> Result<i32> {
    let program = &request.program;
    let name = program.program.display().to_string();
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| std::io::Error::other("an argument contains a NUL byte"));
    let path = text(program.program.as_os_str().as_bytes())?;
    let arguments = program.arguments.iter().map(|argument| text(argument.as_bytes())).collect::<std::io::Result<Vec<_>>>()?;
    let pair = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat());
    let environment = program.environment.iter().map(pair).collect::<std::io::Result<Vec<_>>>()?;
    let program = Program { path: &path, by_descriptor: None, arguments: &arguments, environment: &environment };
    let mut child = process::prepare(&program)?;
    call_tracer::seize(child.pid).map_err(|source| Error::Attach { whom: name.clone(), source })?;
    retake_kernel::signals::pass_to(child.pid);
    let root = child.pid;
    child.start()?;
    let mut tracer = Tracer {
        log,
        threads: HashMap::new(),
        processes: HashMap::new(),
        next_stream: 0,
        data_limit: request.data_limit,
        root,
        status: None,
        has_begun: false,
        processors: Processors::of(0).ok(),
        pinned: None,
    };
    tracer.follow()?;
    match (tracer.status, tracer.has_begun) {
        (Some(status), true) => {
            tracer.finish(status)?;
            Ok(status)
        }
        _ => Err(Error::Exec { program: name, source: child.failure().unwrap_or_else(|| std::io::Error::other("it ended at once")) }),
    }
}

struct Thread {
    stream: u32,
    process: i32,
    /// The call it is in.
    call: Option<(TracedCall, Before)>,
    /// A call whose return was said already.
    skips_return: bool,
}

struct Tracer {
    log: Arc<dyn EventLog>,
    threads: HashMap<i32, Thread>,
    /// The stream of a process's first thread.
    processes: HashMap<i32, u32>,
    next_stream: u32,
    data_limit: u64,
    root: i32,
    status: Option<i32>,
    /// The program was executed.
    has_begun: bool,
    /// Where this process and the program may run.
    processors: Option<Processors>,
    /// The only thread, which shares a processor with us.
    pinned: Option<i32>,
}

impl Tracer {
    fn follow(&mut self) -> Result<()> {
        while let Some((tid, stop)) = call_tracer::wait() {
            match stop {
                Stop::Exited(status) => self.ended(tid, status << 8)?,
                Stop::Killed(signal) => self.ended(tid, signal)?,
                stop => {
                    // A thread that was killed meanwhile cannot go on; its end comes next.
                    let _ = self.stopped(tid, stop)?;
                }
            }
        }
        Ok(())
    }

    /// Deals with a stop, and lets the thread go on.
    fn stopped(&mut self, tid: i32, stop: Stop) -> Result<std::io::Result<()>> {
        if !self.has_begun && !matches!(stop, Stop::Exec(_)) {
            // Our own code, before the exec.
            let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
            return Ok(call_tracer::go_on(tid, signal));
        }
        if !self.threads.contains_key(&tid) && !matches!(stop, Stop::Exec(_)) {
            self.begin(tid)?;
        }
        let mut signal = 0;
        match stop {
            Stop::Call => self.at_call(tid)?,
            Stop::Exec(former) => self.executed(tid, former)?,
            Stop::Signal(number) => {
                signal = number;
                self.signal(tid, number)?;
            }
            Stop::Group(libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                self.log.drained();
                return Ok(call_tracer::listen(tid));
            }
            Stop::Group(_) | Stop::Child(_) | Stop::Exited(_) | Stop::Killed(_) => {}
        }
        self.log.drained();
        Ok(call_tracer::go_on(tid, signal))
    }

    fn append(&self, stream: u32, event: &[u8]) -> Result<()> {
        Ok(self.log.append(StreamId(stream), event, ChunkEvents { first: Some(0), count: 1 })?)
    }

    /// A thread is seen for the first time.
    fn begin(&mut self, tid: i32) -> Result<()> {
        self.unpin();
        let process = process::group_leader(tid).unwrap_or(tid);
        let is_process = process == tid;
        let of = if is_process { process::parent(tid).unwrap_or(0) } else { process };
        let parent = self.processes.get(&of).copied().filter(|_| tid != self.root);
        let stream = self.next_stream;
        self.next_stream += 1;
        let kind = match (parent, is_process) {
            (None, _) => StreamKind::Initial,
            (_, true) => StreamKind::Process,
            _ => StreamKind::Thread,
        };
        let info = StreamInfo { id: StreamId(stream), parent: parent.map(StreamId), pid: process, tid, kind, label: String::new() };
        self.log.declare_stream(&info)?;
        self.threads.insert(tid, Thread { stream, process, call: None, skips_return: false });
        if is_process {
            self.processes.insert(process, stream);
        }
        let how = if tid == self.root {
            0
        } else if is_process {
            1
        } else {
            3
        };
        let body = [u64::from(process as u32) | u64::from(tid as u32) << 32, how, clock::real_time_ns()?];
        let parent = parent.map_or(u64::from(u32::MAX), u64::from);
        self.append(stream, &event(START, 0, parent as i64, &words(&body)))
    }

    fn at_call(&mut self, tid: i32) -> Result<()> {
        match call_tracer::call_stop(tid) {
            Ok(CallStop::Entry(number, arguments)) => self.entered(tid, number, arguments),
            Ok(CallStop::Exit(result)) => self.returned(tid, result),
            _ => Ok(()),
        }
    }

    fn entered(&mut self, tid: i32, number: u64, arguments: [u64; 6]) -> Result<()> {
        if ABOUT_PROCESSORS.contains(&number) {
            self.unpin();
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let entered_ns = clock::real_time_ns()?;
        if matches!(number, EXIT | EXIT_GROUP) {
            let stream = thread.stream;
            let body = words(&[entered_ns, u64::from(call_tracer::current_processor())]);
            return self.append(stream, &event(EXITED, number as u16, i64::from(arguments[0] as i32), &body));
        }
        let (process, number) = (thread.process as u32, number as u32);
        let mut call = TracedCall { process, thread: tid as u32, entered_ns, number, ..TracedCall::default() };
        call.arguments[..].copy_from_slice(&arguments);
        call::forget_unused_arguments(&mut call);
        let before = walk::inputs(Memory { pid: tid, data_limit: self.data_limit }, &mut call);
        thread.call = Some((call, before));
        Ok(())
    }

    fn returned(&mut self, tid: i32, result: i64) -> Result<()> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let Some((mut call, before)) = thread.call.take() else { return Ok(()) };
        if std::mem::take(&mut thread.skips_return) {
            return Ok(());
        }
        call.result = result;
        call.returned_ns = clock::real_time_ns()?;
        call.processor = call_tracer::current_processor();
        walk::outputs(Memory { pid: tid, data_limit: self.data_limit }, &mut call, before);
        let stream = thread.stream;
        let made = matches!(call.number, 56..=58 | 435) && result > 0;
        let bytes = call::to_event(&call);
        self.append(stream, &bytes)?;
        if !made && self.pinned.is_none() {
            self.pin();
        }
        Ok(())
    }

    /// A program begins. It is the process's first thread now, whoever asked for it.
    fn executed(&mut self, tid: i32, former: i32) -> Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(tid)?;
        }
        if former != tid
            && let Some(thread) = self.threads.remove(&former)
        {
            if let Some(leader) = self.threads.remove(&tid) {
                self.append(leader.stream, &event(END, 0, 0, &[]))?;
            }
            self.processes.insert(tid, thread.stream);
            self.threads.insert(tid, thread);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let stream = thread.stream;
        if let Some((call, _)) = &mut thread.call {
            call.result = EXEC_COMMITTED;
            let bytes = call::to_event(call);
            thread.skips_return = true;
            self.append(stream, &bytes)?;
        }
        match state::of_process(tid, StartKind::Exec) {
            Ok(start) => self.append(stream, &state::to_event(&start)),
            Err(_) => Ok(()), // killed meanwhile
        }
    }

    fn signal(&mut self, tid: i32, number: i32) -> Result<()> {
        let (Some(thread), Ok(info)) = (self.threads.get(&tid), call_tracer::signal_info(tid)) else { return Ok(()) };
        self.append(thread.stream, &event(SIGNAL, number as u16, 0, &info))
    }

    fn ended(&mut self, tid: i32, status: i32) -> Result<()> {
        if tid == self.root {
            self.status = Some(status);
        }
        if self.pinned == Some(tid) {
            self.unpin();
        }
        let Some(thread) = self.threads.remove(&tid) else { return Ok(()) };
        if let Some((call, _)) = &thread.call {
            self.append(thread.stream, &call::to_event(call))?;
        }
        if libc::WIFSIGNALED(status) {
            self.append(thread.stream, &event(END, 0, i64::from(status), &[]))?;
        }
        self.log.drained();
        Ok(())
    }

    fn finish(&self, status: i32) -> Result<()> {
        let exit = if libc::WIFSIGNALED(status) { Exit::Killed(libc::WTERMSIG(status)) } else { Exit::Exited(libc::WEXITSTATUS(status)) };
        Ok(self.log.finish(&Outcome { exit, duration_ms: 0, counters: [].into() })?)
    }

    /// A single thread and its tracer take turns: on one processor that costs no wake-up of another.
    fn pin(&mut self) {
        if self.threads.len() != 1 {
            return;
        }
        let Some((only, one)) = self.threads.keys().next().copied().zip(self.processors.and_then(|all| all.first())) else { return };
        if one.give(0).is_ok() && one.give(only).is_ok() {
            self.pinned = Some(only);
        }
    }

    fn unpin(&mut self) {
        let (Some(tid), Some(all)) = (self.pinned.take(), self.processors) else { return };
        let _ = all.give(0);
        let _ = all.give(tid); // it may be gone
    }
}

const SIGNAL: u8 = 2;
const EXITED: u8 = 4;
const START: u8 = 7;
const END: u8 = 11;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn event(kind: u8, number: u16, value: i64, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((16 + body.len()) as u32).to_le_bytes().to_vec();
    bytes.extend([kind, 0]);
    bytes.extend(number.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes.extend(body);
    bytes
}
