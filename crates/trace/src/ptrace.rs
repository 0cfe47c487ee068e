//! Tracing from outside by ptrace. It needs no privilege and no help from the program, and costs
//! several microseconds a call.
//!
//! The tracer writes events as the runtime would, so that all further steps are the same.

use crate::attach::{self, Leave, Request, Whom};
use crate::call;
use crate::event_bytes::{self, END, EXITED, SIGNAL, event, words};
use crate::live::Observer;
use crate::look::Looker;
use crate::outside;
use crate::state;
use crate::turns::Turns;
use crate::walk::{self, Before, Memory};
use crate::{Error, Result};
use retake_kernel::call_tracer::{self, Afterwards, CallStop, Stop, Waited};
use retake_kernel::process::{self, Prepared};
use retake_kernel::{clock, ptrace, signals};
use retake_model::event::{AS_THREAD, BY_FORK, BY_NOBODY, EXEC_COMMITTED};
use retake_model::table::number;
use retake_record::{EventLog, Moment, Stage};
use retake_recording::{Exit, Metadata, Outcome, StreamId, StreamInfo, StreamKind};
use retake_trace_format::{StartKind, TracedCall};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const EXIT: u64 = number::EXIT as u64;
const EXIT_GROUP: u64 = number::EXIT_GROUP as u64;
/// Calls for which a thread gets its own processors back, because they show its affinity to the
/// program or pass it on.
const ABOUT_PROCESSORS: [u64; 9] = [
    number::SCHED_SETAFFINITY as u64,
    number::SCHED_GETAFFINITY as u64,
    number::CLONE as u64,
    number::FORK as u64,
    number::VFORK as u64,
    number::EXECVE as u64,
    number::EXECVEAT as u64,
    number::CLONE3 as u64,
    number::GETCPU as u64,
];
/// The time between checks for a request to leave.
const PERIOD: Duration = Duration::from_millis(20);

/// Passes on all observations of a program or of processes, calls in the order in which they
/// return. Returns the program's wait status, or 0.
///
/// # Errors
/// The program cannot be run, or a thread cannot be traced.
pub fn live(request: &Request, observer: Observer) -> Result<i32> {
    outside::live(request, observer, run)
}

/// As [`crate::inside::into_spool`].
///
/// # Errors
/// As [`live`], or the folder cannot be made.
pub fn into_spool(request: &Request, folder: &Path, metadata: &Metadata) -> Result<i32> {
    outside::into_spool(request, folder, metadata, run)
}

fn run(request: &Request, log: Arc<dyn EventLog>, looker: Option<Arc<Looker>>) -> Result<i32> {
    let child = match &request.whom {
        Whom::Program(program) => {
            Some((program.program.display().to_string(), attach::prepare(program)?))
        }
        Whom::Processes(_) => None,
    };
    let idle = || std::thread::park_timeout(PERIOD);
    attach::on_own_thread(
        &request.whom,
        idle,
        || {},
        |leave| {
            let mut tracer = Tracer::new(log, request.data_limit, looker);
            match (&request.whom, child) {
                (Whom::Processes(processes), _) => tracer.trace_processes(processes, leave)?,
                (Whom::Program(_), Some((name, child))) => {
                    tracer.trace_program(&name, child, leave)?
                }
                (Whom::Program(_), None) => {}
            }
            let status = tracer.status.unwrap_or(0);
            tracer.finish(status)?;
            Ok(status)
        },
    )
}

struct Thread {
    stream: u32,
    process: i32,
    /// The call that the thread is in.
    call: Option<(TracedCall, Before)>,
    /// The streams of the threads that it has made in that call.
    children: Vec<u32>,
    /// Whether the return of the call is already logged.
    skips_return: bool,
}

struct Tracer {
    log: Arc<dyn EventLog>,
    threads: HashMap<i32, Thread>,
    next_stream: u32,
    data_limit: u64,
    /// The looker for data that no register shows.
    looker: Option<Arc<Looker>>,
    /// The first thread of the program that we have started.
    root: Option<i32>,
    status: Option<i32>,
    /// Whether the program was executed.
    has_begun: bool,
    /// The thread that shares a processor with us.
    turns: Turns,
    /// Processes that ran before, whose state is not logged yet.
    strangers: Vec<i32>,
    /// The streams of threads that were seen before the events of their makers.
    unannounced: HashMap<i32, u32>,
}

impl Tracer {
    fn new(log: Arc<dyn EventLog>, data_limit: u64, looker: Option<Arc<Looker>>) -> Self {
        Self {
            log,
            threads: HashMap::new(),
            next_stream: 0,
            data_limit,
            looker,
            root: None,
            status: None,
            has_begun: false,
            turns: Turns::default(),
            strangers: Vec::new(),
            unannounced: HashMap::new(),
        }
    }

    fn trace_program(&mut self, name: &str, mut child: Prepared, leave: &Leave) -> Result<()> {
        call_tracer::seize(child.pid, Afterwards::End)
            .map_err(|source| Error::Attach { whom: name.to_owned(), source })?;
        signals::pass_to(child.pid);
        self.root = Some(child.pid);
        self.turns.allow();
        child.start()?;
        self.follow(leave)?;
        if self.status.is_some() && self.has_begun {
            return Ok(());
        }
        let source = child.failure().unwrap_or_else(|| std::io::Error::other("it ended at once"));
        Err(Error::Exec { program: name.to_owned(), source })
    }

    /// Stops the threads of processes once. After that they stop at their calls. The threads keep
    /// their processors, so that the tracer can leave at any time.
    fn trace_processes(&mut self, processes: &[i32], leave: &Leave) -> Result<()> {
        self.has_begun = true;
        attach::take_tree(processes, |process, tid| {
            match call_tracer::seize(tid, Afterwards::GoOn) {
                Err(error)
                    if error.raw_os_error() == Some(libc::EPERM)
                        && process::tracer(tid) == Some(signals::own_tid()) =>
                {
                    return Ok(());
                }
                Err(source) => {
                    return Err(Error::Attach { whom: format!("process {process}"), source });
                }
                Ok(()) => {}
            }
            ptrace::interrupt(tid)?;
            if process != tid {
                return Ok(());
            }
            // Parents come before their children. Each is logged while it is stopped.
            self.strangers.push(process);
            match call_tracer::wait_for(tid, leave.flag()) {
                Waited::Stop(tid, stop) => self.deal_with(tid, stop),
                Waited::Asked | Waited::Nobody => Ok(()),
            }
        })?;
        self.follow(leave)
    }

    fn follow(&mut self, leave: &Leave) -> Result<()> {
        while !leave.is_asked() {
            match call_tracer::wait(leave.flag()) {
                Waited::Stop(tid, stop) => self.deal_with(tid, stop)?,
                Waited::Asked | Waited::Nobody => return Ok(()),
            }
        }
        Ok(())
    }

    fn deal_with(&mut self, tid: i32, stop: Stop) -> Result<()> {
        match stop {
            Stop::Exited(status) => self.ended(tid, status << 8),
            Stop::Killed(signal) => self.ended(tid, signal),
            // If the thread was killed meanwhile, it cannot be continued. Its end comes next.
            stop => self.stopped(tid, stop).map(drop),
        }
    }

    /// Handles a stop, and continues the thread.
    fn stopped(&mut self, tid: i32, stop: Stop) -> Result<std::io::Result<()>> {
        if !self.has_begun && !matches!(stop, Stop::Exec(_)) {
            // The child still runs our own code before the exec.
            let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
            return Ok(call_tracer::go_on(tid, signal));
        }
        if !self.threads.contains_key(&tid) && !matches!(stop, Stop::Exec(_)) {
            self.begin(tid, None)?;
        }
        let mut signal = 0;
        match stop {
            Stop::Call => {
                self.turns.stopped(tid);
                self.at_call(tid)?;
            }
            Stop::Exec(former) => self.executed(tid, former)?,
            Stop::Signal(number) => {
                signal = number;
                self.signal(tid, number)?;
            }
            Stop::Group(libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                self.log.drained();
                return Ok(call_tracer::listen(tid));
            }
            Stop::Child(child) if child > 0 => self.made(tid, child)?,
            Stop::Group(_) | Stop::Child(_) | Stop::Exiting | Stop::Exited(_) | Stop::Killed(_) => {
            }
        }
        self.log.drained();
        Ok(call_tracer::go_on(tid, signal))
    }

    fn append(&self, stream: u32, event: &[u8]) -> Result<()> {
        event_bytes::append(&*self.log, stream, event, 1)
    }

    /// Notes that a thread has made another one. The new thread's first stop, or even its end, may
    /// have been seen before.
    fn made(&mut self, tid: i32, child: i32) -> Result<()> {
        let known = self
            .unannounced
            .remove(&child)
            .or_else(|| self.threads.get(&child).map(|child| child.stream));
        let Some(stream) = known else { return self.begin(child, Some(tid)) };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.children.push(stream);
        }
        Ok(())
    }

    /// Begins the stream of a new thread. `maker` is the thread that is making it. If that is
    /// unknown, the parent is the first thread of the process, or of the parent process.
    fn begin(&mut self, tid: i32, maker: Option<i32>) -> Result<()> {
        let process = process::group_leader(tid).unwrap_or(tid);
        let is_process = process == tid;
        let of = maker.unwrap_or_else(|| {
            if is_process { process::parent(tid).unwrap_or(0) } else { process }
        });
        let stranger = self
            .strangers
            .iter()
            .position(|stranger| *stranger == tid)
            .map(|index| self.strangers.swap_remove(index));
        let is_root = self.root == Some(tid) || stranger.is_some();
        let stream = self.next_stream;
        self.next_stream += 1;
        let parent = self.threads.get_mut(&of).filter(|_| !is_root).map(|thread| {
            thread.children.extend(maker.map(|_| stream));
            thread.stream
        });
        let (kind, how) = match (is_root, is_process) {
            (true, _) => (StreamKind::Initial, BY_NOBODY),
            (false, true) => (StreamKind::Process, BY_FORK),
            (false, false) => (StreamKind::Thread, AS_THREAD),
        };
        let kind = if parent.is_none() { StreamKind::Initial } else { kind };
        let info = StreamInfo {
            id: StreamId(stream),
            parent: parent.map(StreamId),
            pid: process,
            tid,
            kind,
            label: String::new(),
        };
        self.log.declare_stream(&info)?;
        if maker.is_none() && !is_root {
            self.unannounced.insert(tid, stream);
        }
        self.threads.insert(
            tid,
            Thread { stream, process, call: None, children: Vec::new(), skips_return: false },
        );
        self.append(
            stream,
            &event_bytes::start(process, tid, parent, how, clock::real_time_ns()?),
        )?;
        match stranger.map(|process| state::of_process(process, StartKind::Attach)) {
            Some(Ok(start)) => self.append(stream, &state::to_event(&start)),
            _ => Ok(()),
        }
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
            self.turns.end_for(tid);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let entered_ns = clock::real_time_ns()?;
        if matches!(number, EXIT | EXIT_GROUP) {
            let stream = thread.stream;
            let moment = Moment {
                stage: Stage::BeforeUnmap,
                pid: thread.process,
                tid,
                time_ns: entered_ns,
                number,
                arguments,
                result: 0,
            };
            if number == EXIT_GROUP || thread.process == tid {
                self.look(stream, moment, Looker::before_end)?;
            }
            let body = words(&[entered_ns, u64::from(call_tracer::current_processor())]);
            return self.append(
                stream,
                &event(EXITED, number as u16, i64::from(arguments[0] as i32), &body),
            );
        }
        let (process, number) = (thread.process as u32, number as u32);
        let mut call =
            TracedCall { process, thread: tid as u32, entered_ns, number, ..TracedCall::default() };
        call.arguments[..].copy_from_slice(&arguments);
        call::forget_unused_arguments(&mut call);
        let before = walk::inputs(Memory { pid: tid, data_limit: self.data_limit }, &mut call);
        thread.call = Some((call, before));
        let moment = Moment {
            stage: Stage::BeforeMove,
            pid: thread.process,
            tid,
            time_ns: entered_ns,
            number: number.into(),
            arguments,
            result: 0,
        };
        let stream = thread.stream;
        self.look(stream, moment, Looker::entered)
    }

    /// Looks at a thread for data that no register shows. They go into the stream before the event
    /// of the call.
    fn look(
        &self,
        stream: u32,
        moment: Moment,
        how: impl Fn(&Looker, Moment, crate::look::Sink<'_>) -> std::io::Result<()>,
    ) -> Result<()> {
        let Some(looker) = &self.looker else { return Ok(()) };
        let mut append = |events: &[u8]| self.append(stream, events).map_err(std::io::Error::other);
        Ok(how(looker, moment, &mut append)?)
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
        let (stream, process) = (thread.stream, thread.process);
        let children: Vec<u8> =
            thread.children.drain(..).flat_map(event_bytes::child_item).collect();
        if !call.failed() {
            let (number, time_ns, arguments) =
                (call.number.into(), call.entered_ns, call.arguments);
            let moment = Moment {
                stage: Stage::AfterMove,
                pid: process,
                tid,
                time_ns,
                number,
                arguments,
                result,
            };
            self.look(stream, moment, Looker::returned)?;
        }
        let mut bytes = call::to_event(&call);
        event_bytes::add_items(&mut bytes, 0, &children);
        self.append(stream, &bytes)
    }

    /// Notes that a program begins. The process's first thread continues, whichever thread made the
    /// call.
    fn executed(&mut self, tid: i32, former: i32) -> Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(tid, None)?;
        }
        if former != tid
            && let Some(thread) = self.threads.remove(&former)
        {
            if let Some(leader) = self.threads.remove(&tid) {
                self.append(leader.stream, &event(END, 0, 0, &[]))?;
            }
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
            // The process was killed meanwhile.
            Err(_) => Ok(()),
        }
    }

    fn signal(&mut self, tid: i32, number: i32) -> Result<()> {
        let (Some(thread), Ok(info)) = (self.threads.get(&tid), call_tracer::signal_info(tid))
        else {
            return Ok(());
        };
        self.append(thread.stream, &event(SIGNAL, number as u16, 0, &info))
    }

    fn ended(&mut self, tid: i32, status: i32) -> Result<()> {
        if self.root == Some(tid) {
            self.status = Some(status);
        }
        self.turns.end_for(tid);
        let Some(thread) = self.threads.remove(&tid) else { return Ok(()) };
        if let Some((call, _)) = &thread.call {
            self.append(thread.stream, &call::to_event(call))?;
        }
        if thread.process == tid {
            let moment = Moment {
                stage: Stage::BeforeUnmap,
                pid: tid,
                tid,
                time_ns: clock::real_time_ns()?,
                number: 0,
                arguments: [0; 6],
                result: 0,
            };
            self.look(thread.stream, moment, |looker, moment, sink| {
                looker.at_death(moment.pid, moment.time_ns, sink)
            })?;
        }
        if libc::WIFSIGNALED(status) {
            self.append(thread.stream, &event(END, 0, i64::from(status), &[]))?;
        }
        self.log.drained();
        Ok(())
    }

    fn finish(&self, status: i32) -> Result<()> {
        let exit = if libc::WIFSIGNALED(status) {
            Exit::Killed(libc::WTERMSIG(status))
        } else {
            Exit::Exited(libc::WEXITSTATUS(status))
        };
        Ok(self.log.finish(&Outcome::of_exit(exit))?)
    }
}
