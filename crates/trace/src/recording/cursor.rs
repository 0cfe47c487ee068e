//! Reads one stream of a recording: the next step of its thread, and what must come before it.

use super::aside::AsideReader;
use crate::Result;
use crate::events::EventBuffer;
use crate::interpret::Interpreter;
use crate::observation::Observation;
use retake_model::event::TurnKind;
use retake_model::item::Mapping;
use retake_model::table::number;
use retake_model::{CallRef, Event, EventKind, ItemDirection, ItemRef, StreamId};
use retake_recording::{ContentReader, Metadata, StreamReader};
use retake_trace_format::{
    BufferDirection, Credentials, ProcessStart, StartKind, TraceRecord, TracedCall,
};
use std::collections::VecDeque;

const EXECVE: u32 = number::EXECVE as u32;
const WAIT4: u16 = number::WAIT4;
const WAITID: u16 = number::WAITID;

/// The domain of all processes that share memory.
const SHARED: u32 = 0;

/// The condition for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Gate {
    #[default]
    Open,
    /// All earlier turns of the domain come first.
    Turn { domain: u32, turn: u64 },
    /// The end of the process comes first.
    End(u32),
}

/// A step of a thread.
#[derive(Default)]
pub(super) struct Step {
    pub observation: Option<Observation>,
    /// The stream that the step made.
    pub child: Option<StreamId>,
    pub gate: Gate,
    /// The mapping that the call made.
    pub mapping: Option<Mapping>,
}

/// The reading position in a stream.
pub(super) struct Cursor {
    reader: StreamReader,
    next_chunk: usize,
    chunk: Vec<u8>,
    /// The offset in the file of the last chunk read.
    pub place: u64,
    events: EventBuffer,
    interpreter: Interpreter,
    aside: AsideReader,
    /// How many events of the stream were interpreted.
    event_count: u64,
    pub ready: VecDeque<Step>,
    /// The time at which its last call returned.
    pub returned_ns: u64,
    /// Whether the next call waited for its turn. Others ran after it had begun.
    pub has_waited: bool,
    /// How often other streams went first, whose steps the next step here would have cut off.
    pub stood_aside: u32,
}

impl Cursor {
    /// Makes a cursor at the start of a stream. The time is `now_ns`.
    pub fn new(
        reader: StreamReader,
        interpreter: Interpreter,
        aside: AsideReader,
        now_ns: u64,
    ) -> Self {
        Self {
            reader,
            next_chunk: 0,
            chunk: Vec::new(),
            place: 0,
            events: EventBuffer::default(),
            interpreter,
            aside,
            event_count: 0,
            ready: VecDeque::new(),
            returned_ns: now_ns,
            has_waited: false,
            stood_aside: 0,
        }
    }

    /// Takes the next step.
    pub fn take(&mut self) -> Option<Step> {
        let step = self.ready.pop_front()?;
        self.stood_aside = 0;
        self.has_waited |= matches!(step.gate, Gate::Turn { .. });
        Some(step)
    }

    /// Reads until there is a next step. False if there is none.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn fill(
        &mut self,
        stream: u32,
        metadata: &Metadata,
        contents: &mut ContentReader,
    ) -> Result<bool> {
        while self.ready.is_empty() {
            if self.stored_before(self.event_count)?
                || self.interpret(stream, metadata, contents)?
            {
                continue;
            }
            if self.next_chunk >= self.reader.chunk_count() {
                return self.stored_before(u64::MAX);
            }
            self.place = self.reader.read_chunk(self.next_chunk, &mut self.chunk)?.file_offset;
            self.next_chunk += 1;
            self.events.extend(&self.chunk);
        }
        Ok(true)
    }

    /// Adds the next pages of mapped files that were taken before an event. False if there are none
    /// left.
    fn stored_before(&mut self, event: u64) -> Result<bool> {
        let Some(mut pages) = self.aside.stored_before(event)? else { return Ok(false) };
        (pages.process, pages.thread) = (self.interpreter.process(), self.interpreter.thread());
        self.ready.push_back(Step {
            observation: Some(Observation::Record(TraceRecord::MappedPages(pages))),
            ..Step::default()
        });
        Ok(true)
    }

    /// Interprets the next event. False if its bytes are not all read yet.
    fn interpret(
        &mut self,
        stream: u32,
        metadata: &Metadata,
        contents: &mut ContentReader,
    ) -> Result<bool> {
        let Some(event) = self.events.next(stream)? else { return Ok(false) };
        self.event_count += 1;
        let aside = &mut self.aside;
        let mut missing = None;
        let mut supply = |item: &ItemRef<'_>| match item.reference() {
            None => aside.input(item.total_bytes() as usize),
            Some(reference) => contents
                .read(reference.content, reference.offset, item.total_bytes().into())
                .map_err(|error| missing = Some(error))
                .ok(),
        };
        let process = self.interpreter.process();
        let gate = match event.decode() {
            Event::Turn { turn, how } => {
                let domain = if how == TurnKind::Shared { SHARED } else { process };
                Gate::Turn { domain, turn }
            }
            Event::Call(call) => gate_of(&call),
            _ => Gate::Open,
        };
        let mut mapping =
            event.as_call().and_then(|call| call.items().find_map(|item| item.mapping()));
        let meaning = self.interpreter.event(&event, &mut supply);
        if let Some(error) = missing {
            return Err(error.into());
        }
        let mut steps: Vec<Observation> = meaning.observations;
        if event.kind() == EventKind::Exec {
            let call = self.interpreter.executed_silently();
            let start = start_of(call.as_ref(), metadata, self.interpreter.process());
            steps.extend(call);
            steps.push(start);
        }
        let mut child = meaning.child;
        if steps.is_empty() {
            self.ready.push_back(Step { child, gate, ..Step::default() });
        }
        for observation in steps {
            self.ready.push_back(Step {
                observation: Some(observation),
                child: child.take(),
                gate,
                mapping: mapping.take(),
            });
        }
        Ok(true)
    }
}

fn gate_of(call: &CallRef<'_>) -> Gate {
    let ended = match call.number() {
        WAIT4 => u32::try_from(call.result()).ok(),
        WAITID if call.result() == 0 => child_in_siginfo(call),
        _ => None,
    };
    ended.filter(|process| *process > 0).map_or(Gate::Open, Gate::End)
}

/// Returns the process that `waitid` reported as ended. The call also reports stops, or nothing at
/// all.
fn child_in_siginfo(call: &CallRef<'_>) -> Option<u32> {
    const CLD_EXITED: u32 = 1;
    const CLD_DUMPED: u32 = 3;
    let item = call.items_of(2, ItemDirection::Output).next()?;
    let word = |offset: usize| {
        item.inline_bytes().get(offset..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    };
    word(8).filter(|code| (CLD_EXITED..=CLD_DUMPED).contains(code)).and_then(|_| word(12))
}

/// Returns the known state of a new program. For the first program it comes from the recording's
/// metadata, for others from the call.
fn start_of(call: Option<&Observation>, metadata: &Metadata, process: u32) -> Observation {
    let (executable, arguments) = match call {
        Some(Observation::Record(TraceRecord::Call(call))) => executed(call),
        _ => (
            metadata.command.0.clone(),
            metadata.arguments.iter().map(|argument| argument.0.clone()).collect(),
        ),
    };
    let working_directory =
        if call.is_none() { metadata.working_directory.0.clone() } else { Vec::new() };
    let root = if call.is_none() { b"/".to_vec() } else { Vec::new() };
    Observation::Record(TraceRecord::ProcessStart(Box::new(ProcessStart {
        id: 0,
        time_ns: 0,
        process,
        thread: process,
        parent: 0,
        session: 0,
        process_group: 0,
        how: StartKind::Exec,
        working_directory,
        root,
        umask: 0o22,
        descriptors: Vec::new(),
        limits: Vec::new(),
        credentials: Credentials::default(),
        executable,
        arguments,
    })))
}

fn executed(call: &TracedCall) -> (Vec<u8>, Vec<Vec<u8>>) {
    let path = if call.number == EXECVE { 0 } else { 1 };
    let inputs = |argument: u8| call.buffers_of(argument, BufferDirection::Input);
    let executable = inputs(path).next().map(|buffer| buffer.data.to_vec()).unwrap_or_default();
    let array = call.arguments[usize::from(path) + 1];
    let arguments = inputs(path + 1)
        .filter(|buffer| buffer.address != array)
        .map(|buffer| buffer.data.to_vec())
        .collect();
    (executable, arguments)
}
