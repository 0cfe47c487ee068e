//! Turns the events of one stream into observations.

use crate::call::{self, Supply};
use crate::look;
use crate::observation::{Ending, Observation};
use crate::state;
use retake_model::event::{BY_FORK, BY_VFORK};
use retake_model::table::number;
use retake_model::{CallRef, Event, EventRef, StreamId};
use retake_recording::StreamInfo;
use retake_trace_format::{Credentials, ProcessStart, StartKind, TraceRecord, TracedCall};

const RT_SIGRETURN: u16 = number::RT_SIGRETURN;

/// Interprets one thread's stream.
#[derive(Debug)]
pub(crate) struct Interpreter {
    process: u32,
    thread: u32,
    parent: u32,
    /// The time of the last event that has one.
    last_ns: u64,
    /// An exec that has no result yet.
    exec: Option<TracedCall>,
    /// The data that the next call moves inside the kernel.
    moved: Vec<u8>,
}

/// The result of an event.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    pub observations: Vec<Observation>,
    /// The stream of the thread that the call made.
    pub child: Option<StreamId>,
}

impl Interpreter {
    /// Makes an interpreter for a stream. `parent` is the process that made it.
    pub fn new(info: &StreamInfo, parent: u32) -> Self {
        Self {
            process: info.pid as u32,
            thread: info.tid as u32,
            parent,
            last_ns: 0,
            exec: None,
            moved: Vec::new(),
        }
    }

    /// Returns the process that the thread belongs to now.
    pub fn process(&self) -> u32 {
        self.process
    }

    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// Interprets the next event of the stream.
    pub fn event(&mut self, event: &EventRef<'_>, supply: Supply<'_>) -> Meaning {
        let (process, thread) = (self.process, self.thread);
        let mut meaning = Meaning::default();
        match event.decode() {
            Event::Call(call) => {
                meaning.child = call.child();
                meaning.observations.extend(self.call(&call, event.is_begun_exec(), supply));
            }
            Event::Start { pid, tid, how, .. } => {
                (self.process, self.thread) = (pid.0 as u32, tid.0 as u32);
                self.last_ns = word(event.body(), 2).unwrap_or(0).max(self.last_ns);
                if matches!(how, BY_FORK | BY_VFORK) {
                    meaning.observations.push(self.forked());
                }
            }
            Event::Exec(_) => self.thread = self.process,
            Event::State { text } => meaning.observations.extend(self.state(event.number(), text)),
            Event::Signal(signal) => {
                let (number, siginfo) = (signal.number(), signal.siginfo().bytes().to_vec());
                meaning.observations.push(Observation::Signal {
                    process,
                    thread,
                    time_ns: self.last_ns,
                    number,
                    siginfo,
                });
            }
            Event::Fatal { signal, .. } => {
                let (number, time_ns) = (signal.number(), self.last_ns);
                let siginfo = signal.siginfo().bytes().to_vec();
                meaning.observations.push(Observation::Signal {
                    process,
                    thread,
                    time_ns,
                    number,
                    siginfo,
                });
                meaning.observations.push(Observation::Ended {
                    process,
                    thread,
                    time_ns,
                    how: Ending::Killed(i32::from(number)),
                });
            }
            Event::Exit { call, status, .. } => {
                meaning.observations.extend(self.exited(event, call, status))
            }
            Event::End { status } => meaning.observations.push(Observation::Ended {
                process,
                thread,
                time_ns: self.last_ns,
                how: ending(status),
            }),
            Event::Tsc { .. }
            | Event::Answer { .. }
            | Event::Turn { .. }
            | Event::Passage { .. }
            | Event::Forced { .. }
            | Event::Hash { .. }
            | Event::Thread { .. }
            | Event::Time(_)
            | Event::Dropped { .. }
            | Event::Compare { .. }
            | Event::After { .. }
            | Event::Behind { .. }
            | Event::Binding { .. }
            | Event::Reached { .. } => {}
        }
        meaning
    }

    fn call(
        &mut self,
        call: &CallRef<'_>,
        begins_exec: bool,
        supply: Supply<'_>,
    ) -> Option<Observation> {
        let mut traced = call::from_event(call, self.process, self.thread, supply);
        self.last_ns = self.last_ns.max(traced.entered_ns).max(traced.returned_ns);
        look::add_moved(&mut traced, std::mem::take(&mut self.moved));
        if call.number() == RT_SIGRETURN {
            // `rax` holds the value of the interrupted code, not a result.
            traced.result = 0;
        }
        if begins_exec {
            self.exec = Some(traced);
            return None;
        }
        // If an exec was pending, this call reports that it failed.
        self.exec = None;
        Some(Observation::Record(TraceRecord::Call(traced)))
    }

    /// Interprets an observation that the tracer has logged.
    fn state(&mut self, number: u16, body: &[u8]) -> Vec<Observation> {
        match number {
            state::kind::START => return self.executed(body),
            state::kind::MOVED => self.moved.extend(look::moved_bytes(body).unwrap_or_default()),
            _ => {
                return look::pages_of(number, body)
                    .map(|pages| Observation::Record(TraceRecord::MappedPages(pages)))
                    .into_iter()
                    .collect();
            }
        }
        Vec::new()
    }

    /// Notes that a program begins. At this moment the call that executed it has returned.
    fn executed(&mut self, text: &[u8]) -> Vec<Observation> {
        let Some(mut start) = state::from_event(text) else { return Vec::new() };
        (self.process, self.thread) = (start.process, start.process);
        self.last_ns = self.last_ns.max(start.time_ns);
        start.time_ns = self.last_ns;
        let mut observations = Vec::new();
        if let Some(mut call) = self.exec.take() {
            call.result = 0;
            call.returned_ns = self.last_ns;
            observations.push(Observation::Record(TraceRecord::Call(call)));
        }
        observations.push(Observation::Record(TraceRecord::ProcessStart(Box::new(start))));
        observations
    }

    /// Ends an exec in a recording, where no event tells the state that the program starts with.
    pub fn executed_silently(&mut self) -> Option<Observation> {
        let mut call = self.exec.take()?;
        call.result = 0;
        Some(Observation::Record(TraceRecord::Call(call)))
    }

    /// Returns the start of a copy of its parent. The reader follows the parent and fills in the
    /// state.
    fn forked(&self) -> Observation {
        Observation::Record(TraceRecord::ProcessStart(Box::new(ProcessStart {
            id: 0,
            time_ns: self.last_ns,
            process: self.process,
            thread: self.thread,
            parent: self.parent,
            session: 0,
            process_group: 0,
            how: StartKind::Fork,
            working_directory: Vec::new(),
            root: Vec::new(),
            umask: 0,
            descriptors: Vec::new(),
            limits: Vec::new(),
            credentials: Credentials::default(),
            executable: Vec::new(),
            arguments: Vec::new(),
        })))
    }

    /// Returns the call of `exit` or `exit_group`, which does not return, and the end.
    fn exited(&mut self, event: &EventRef<'_>, number: u16, status: i64) -> Vec<Observation> {
        let (process, thread) = (self.process, self.thread);
        // This word is a time only in a trace. In a recording it is a hash, and the caller sets the
        // time.
        let entered_ns = word(event.body(), 0).unwrap_or(0);
        let processor = word(event.body(), 1).unwrap_or(0) as u32;
        self.last_ns = self.last_ns.max(entered_ns);
        let arguments = [status as u32 as u64, 0, 0, 0, 0, 0];
        let call = TracedCall {
            process,
            thread,
            entered_ns,
            processor,
            number: u32::from(number),
            arguments,
            ..TracedCall::default()
        };
        // The kernel keeps eight bits of the status.
        let how = Ending::Exited((status & 0xff) as i32);
        vec![
            Observation::Record(TraceRecord::Call(call)),
            Observation::Ended { process, thread, time_ns: entered_ns, how },
        ]
    }
}

/// Returns how a thread ended, from its wait status.
fn ending(status: u64) -> Ending {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, 0) => Ending::WithProcess,
        (0, status) => Ending::Exited(status as i32),
        (signal, _) => Ending::Killed(signal as i32),
    }
}

fn word(body: &[u8], index: usize) -> Option<u64> {
    body.get(index * 8..index * 8 + 8)?.try_into().ok().map(u64::from_le_bytes)
}
