//! A recording as a trace, after the fact: its calls with all that they were given, which a replay
//! brings to light.
//!
//! A recording has no times, and no order between threads but what it needs for itself. Calls are
//! put in an order in which they can have happened: that in which the threads' events came to the
//! disk, corrected where it contradicts turns of the baton, the making of threads, waiting for the
//! end of processes, or what came through pipes and pairs of sockets. Times are that order, a
//! microsecond a call, from when recording began; a call in which its thread gave the baton away
//! was entered before what others did meanwhile.
//!
//! What programs stored in mapped files the replay stores once more: so it can be looked at there,
//! and comes before the call at which it was.

mod aside;
mod stored;

use crate::channels::Channels;
use crate::events::EventBuffer;
use crate::interpret::Interpreter;
use crate::observation::Observation;
use crate::spool;
use crate::{Error, Result};
use aside::{Aside, AsideReader};
use retake_model::event::TurnKind;
use retake_model::item::Mapping;
use retake_model::{CallRef, Event, EventKind, ItemDirection, ItemRef, StreamId};
use retake_recording::{Metadata, Recording, StreamInfo, StreamReader};
use retake_replay::{CutOff, Outcome};
use retake_trace_format::{
    BufferDirection, Credentials, ProcessStart, StartKind, TraceRecord, TracedCall,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use stored::MappedNames;

const EXIT: u32 = 60;
const EXIT_GROUP: u32 = 231;
const EXECVE: u32 = 59;
const WAIT4: u16 = 61;
const WAITID: u16 = 247;
const TICK_NS: u64 = 1000;

/// What is wanted of the replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// It prints nothing.
    pub quiet: bool,
    /// Also what is read and stored through mapped files.
    pub mapped_pages: bool,
}

/// Hands on all that a recording holds. It is replayed first, in `scratch`, a folder that may be
/// written to. Returns the wait status of the first process.
///
/// # Errors
/// It cannot be replayed or read; or what `observe` says.
pub fn read<E: From<Error>>(
    recording: &Recording,
    wanted: Wanted,
    scratch: &Path,
    mut observe: impl FnMut(Observation) -> Result<(), E>,
) -> Result<i32, E> {
    let aside =
        Arc::new(Aside::create(&scratch.join("aside"), wanted.mapped_pages).map_err(Error::from)?);
    let request = retake_replay::Request { quiet: wanted.quiet, check_off: false };
    let outcome = retake_replay::replay_for(
        recording.clone(),
        request,
        scratch,
        Some(Arc::clone(&aside) as Arc<_>),
        &mut |_| {},
    )
    .map_err(Error::from)?;
    let status = match outcome {
        Outcome::Finished(status) => status,
        Outcome::CutOff(_) => CutOff::STATUS,
        Outcome::Diverged(report) => return Err(Error::Diverged(report).into()),
    };
    aside.finish().map_err(Error::from)?;
    let mut order = Order::new(recording, &aside)?;
    while let Some(observation) = order.next()? {
        observe(observation)?;
    }
    for reason in spool::missing(recording).into_iter().chain(order.names.missing()) {
        observe(Observation::Record(TraceRecord::Incomplete(reason)))?;
    }
    Ok(status)
}

/// What must have happened before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Gate {
    #[default]
    Open,
    /// All turns of a domain before this one.
    Turn { domain: u32, turn: u64 },
    /// The end of a process.
    End(u32),
}

#[derive(Default)]
struct Step {
    observation: Option<Observation>,
    child: Option<StreamId>,
    gate: Gate,
    /// What the call mapped.
    mapping: Option<Mapping>,
}

struct Cursor {
    reader: StreamReader,
    next_chunk: usize,
    chunk: Vec<u8>,
    /// Where in the file the chunk is that was read last.
    place: u64,
    events: EventBuffer,
    interpreter: Interpreter,
    aside: AsideReader,
    /// Events of the stream that were interpreted.
    event_count: u64,
    ready: VecDeque<Step>,
    /// When its last call returned.
    returned_ns: u64,
    /// What comes next waited for its turn: others ran after it had been begun.
    has_waited: bool,
    /// How often others went first with what only its next step keeps from coming.
    stood_aside: u32,
}

/// Who has the baton of a domain.
#[derive(Debug, Clone, Copy)]
struct Holder {
    stream: u32,
    turn: u64,
}

/// Domain of all processes that share memory.
const SHARED: u32 = 0;

struct Order<'recording> {
    recording: &'recording Recording,
    aside: &'recording Aside,
    cursors: HashMap<u32, Cursor>,
    order: BinaryHeap<Reverse<(u64, u32)>>,
    blocked: Vec<(u64, u32)>,
    unborn: HashMap<u32, StreamInfo>,
    processes: HashMap<u32, u32>,
    /// Streams of each process that have not ended.
    living: HashMap<u32, u32>,
    holders: HashMap<u32, Holder>,
    channels: Channels,
    names: MappedNames,
    time_ns: u64,
}

impl<'recording> Order<'recording> {
    fn new(recording: &'recording Recording, aside: &'recording Aside) -> Result<Self> {
        let unborn: HashMap<_, _> =
            recording.streams().map(|summary| (summary.info.id.0, summary.info)).collect();
        let mut living = HashMap::new();
        unborn.values().for_each(|info| *living.entry(info.pid as u32).or_insert(0) += 1);
        let roots: Vec<u32> =
            unborn.values().filter(|info| info.parent.is_none()).map(|info| info.id.0).collect();
        let mut order = Self {
            recording,
            aside,
            cursors: HashMap::new(),
            order: BinaryHeap::new(),
            blocked: Vec::new(),
            unborn,
            processes: HashMap::new(),
            living,
            holders: HashMap::new(),
            channels: Channels::default(),
            names: MappedNames::default(),
            time_ns: recording.metadata().started_unix_ms.saturating_mul(1_000_000),
        };
        roots.into_iter().try_for_each(|root| order.begin(root))?;
        Ok(order)
    }

    fn begin(&mut self, stream: u32) -> Result<()> {
        let Some(info) = self.unborn.remove(&stream) else { return Ok(()) };
        let parent =
            info.parent.and_then(|parent| self.processes.get(&parent.0)).copied().unwrap_or(0);
        let reader = self.recording.stream(info.id)?;
        let aside = self.aside.reader(info.id);
        let interpreter = Interpreter::new(&info, parent);
        let process = interpreter.process();
        self.processes.insert(stream, process);
        let (events, ready) = (EventBuffer::default(), VecDeque::new());
        let (returned_ns, has_waited) = (self.time_ns, false);
        let cursor = Cursor {
            reader,
            next_chunk: 0,
            chunk: Vec::new(),
            place: 0,
            events,
            interpreter,
            aside,
            event_count: 0,
            ready,
            returned_ns,
            has_waited,
            stood_aside: 0,
        };
        self.cursors.insert(stream, cursor);
        self.queue(stream)
    }

    /// A stream has made another.
    fn make(&mut self, parent: u32, child: u32) -> Result<()> {
        if let (Some(parent), Some(info)) = (self.processes.get(&parent), self.unborn.get(&child)) {
            self.channels.forked(*parent, info.pid as u32);
        }
        self.begin(child)
    }

    fn queue(&mut self, stream: u32) -> Result<()> {
        let Some(cursor) = self.cursors.get_mut(&stream) else { return Ok(()) };
        let metadata = self.recording.metadata();
        if cursor.fill(stream, metadata)? {
            self.order.push(Reverse((cursor.place, stream)));
            return Ok(());
        }
        let process = self.processes.get(&stream).copied().unwrap_or(0);
        self.cursors.remove(&stream);
        if let Some(count) = self.living.get_mut(&process) {
            *count -= 1;
            if *count == 0 {
                self.channels.ended(process);
            }
            self.unblock();
        }
        Ok(())
    }

    fn may_come(&self, stream: u32, step: &Step) -> bool {
        self.is_open(stream, step.gate)
            && step.observation.as_ref().is_none_or(|observation| self.channels.allow(observation))
    }

    fn is_open(&self, stream: u32, gate: Gate) -> bool {
        match gate {
            Gate::Open => true,
            Gate::Turn { domain, turn } => self.holders.get(&domain).is_none_or(|holder| {
                turn <= holder.turn + 1 && self.has_passed_on(*holder, stream)
            }),
            Gate::End(process) => self.living.get(&process).is_none_or(|count| *count == 0),
        }
    }

    /// Gives an observation of a stream its times: those of the order, and before that back to when
    /// the thread went to wait.
    fn stamp(&mut self, stream: u32, observation: &mut Observation) {
        let at_ns = self.time_ns;
        match observation {
            Observation::Record(TraceRecord::Call(call)) => {
                let Some(cursor) = self.cursors.get_mut(&stream) else { return };
                let has_waited = std::mem::take(&mut cursor.has_waited);
                call.entered_ns = if has_waited { cursor.returned_ns } else { at_ns };
                call.processor = 0;
                call.returned_ns =
                    if matches!(call.number, EXIT | EXIT_GROUP) { 0 } else { at_ns + TICK_NS / 2 };
                cursor.returned_ns = at_ns + TICK_NS / 2 + 1;
            }
            Observation::Record(TraceRecord::ProcessStart(start)) => start.time_ns = at_ns,
            Observation::Record(TraceRecord::MappedPages(pages)) => pages.time_ns = at_ns,
            Observation::Record(_) => {}
            Observation::Signal { time_ns, .. } | Observation::Ended { time_ns, .. } => {
                *time_ns = at_ns
            }
        }
    }

    /// Whether the baton is free for that stream: its holder has done all that it did in its turn.
    fn has_passed_on(&self, holder: Holder, stream: u32) -> bool {
        let next = self.cursors.get(&holder.stream).and_then(|cursor| cursor.ready.front());
        holder.stream == stream || next.is_none_or(|step| matches!(step.gate, Gate::Turn { .. }))
    }

    fn unblock(&mut self) {
        self.order.extend(self.blocked.drain(..).map(Reverse));
    }

    /// Who goes on before a stream's next step, if that would close the last descriptor to read
    /// from where others can still write: what they wrote with success came before. They may have
    /// nothing more to write, so this has limits.
    fn first_before(&self, stream: u32, depth: u32) -> Option<u32> {
        const MAXIMUM_DEPTH: u32 = 16;
        const MAXIMUM_STEPS: u32 = 10_000;
        let cursor = self
            .cursors
            .get(&stream)
            .filter(|cursor| depth < MAXIMUM_DEPTH && cursor.stood_aside < MAXIMUM_STEPS)?;
        let writers = self.channels.cut_off(cursor.ready.front()?.observation.as_ref()?);
        if writers.is_empty() {
            return None;
        }
        let is_writer = |other: u32| {
            other != stream
                && self.processes.get(&other).is_some_and(|process| writers.contains(process))
        };
        let can_go_on = |(other, cursor): &(&u32, &Cursor)| {
            is_writer(**other)
                && cursor.ready.front().is_some_and(|step| self.may_come(**other, step))
        };
        let (first, _) =
            self.cursors.iter().filter(can_go_on).min_by_key(|(_, cursor)| cursor.place)?;
        Some(self.first_before(*first, depth + 1).unwrap_or(*first))
    }

    /// The stream that goes on next. Where all wait for each other, the order on disk is all there
    /// is.
    fn choose(&mut self) -> Option<u32> {
        while let Some(Reverse((place, stream))) = self.order.pop() {
            let step = self.cursors.get(&stream).and_then(|cursor| cursor.ready.front());
            if step.is_some_and(|step| !self.may_come(stream, step)) {
                self.blocked.push((place, stream));
                continue;
            }
            let Some(first) = self.first_before(stream, 0) else { return Some(stream) };
            self.cursors.get_mut(&stream).into_iter().for_each(|cursor| cursor.stood_aside += 1);
            self.order.push(Reverse((place, stream)));
            self.order.retain(|Reverse((_, other))| *other != first);
            self.blocked.retain(|(_, other)| *other != first);
            return Some(first);
        }
        let first = self.blocked.iter().enumerate().min_by_key(|(_, entry)| **entry)?.0;
        Some(self.blocked.swap_remove(first).1)
    }

    fn next(&mut self) -> Result<Option<Observation>> {
        loop {
            let Some(stream) = self.choose() else {
                let Some(stream) = self.unborn.keys().min().copied() else { return Ok(None) };
                self.begin(stream)?;
                continue;
            };
            let Some(mut step) = self.cursors.get_mut(&stream).and_then(Cursor::take) else {
                continue;
            };
            if let Gate::Turn { domain, turn } = step.gate {
                let last = self.holders.get(&domain).map_or(0, |holder| holder.turn);
                if turn >= last {
                    self.holders.insert(domain, Holder { stream, turn });
                }
            }
            if let Some(observation) = &mut step.observation {
                self.time_ns += TICK_NS;
                self.stamp(stream, observation);
                self.channels.follow(observation);
            }
            step.observation = step
                .observation
                .and_then(|observation| self.names.follow(observation, step.mapping.as_ref()));
            if let Some(child) = step.child {
                self.make(stream, child.0)?;
            }
            self.queue(stream)?;
            self.unblock();
            if let Some(observation) = step.observation {
                return Ok(Some(observation));
            }
        }
    }
}

impl Cursor {
    fn take(&mut self) -> Option<Step> {
        let step = self.ready.pop_front()?;
        self.stood_aside = 0;
        self.has_waited |= matches!(step.gate, Gate::Turn { .. });
        Some(step)
    }

    fn fill(&mut self, stream: u32, metadata: &Metadata) -> Result<bool> {
        while self.ready.is_empty() {
            if self.stored_before(self.event_count)? || self.interpret(stream, metadata)? {
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

    /// What mapped files had in them when the thread came to an event, piece by piece; false if
    /// that is all.
    fn stored_before(&mut self, event: u64) -> Result<bool> {
        let Some(mut pages) = self.aside.stored_before(event)? else { return Ok(false) };
        (pages.process, pages.thread) = (self.interpreter.process(), self.interpreter.thread());
        self.ready.push_back(Step {
            observation: Some(Observation::Record(TraceRecord::MappedPages(pages))),
            ..Step::default()
        });
        Ok(true)
    }

    /// The next event; false if it is not there yet.
    fn interpret(&mut self, stream: u32, metadata: &Metadata) -> Result<bool> {
        let Some(event) = self.events.next(stream)? else { return Ok(false) };
        self.event_count += 1;
        let aside = &mut self.aside;
        let mut supply = |item: &ItemRef<'_>| aside.input(item.total_bytes() as usize);
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

/// Which process `waitid` found to have ended: it may also say that one has stopped, or that none
/// has done anything.
fn child_in_siginfo(call: &CallRef<'_>) -> Option<u32> {
    const CLD_EXITED: u32 = 1;
    const CLD_DUMPED: u32 = 3;
    let item = call.items_of(2, ItemDirection::Output).next()?;
    let word = |offset: usize| {
        item.inline_bytes().get(offset..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    };
    word(8).filter(|code| (CLD_EXITED..=CLD_DUMPED).contains(code)).and_then(|_| word(12))
}

/// What is known of a program that begins: of the first from the recording's metadata, of others
/// from the call.
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
