//! Finds a possible order of all that the threads of a recording did.

use super::aside::Aside;
use super::cursor::{Cursor, Gate, Step};
use super::stored::MappedNames;
use crate::Result;
use crate::channels::Channels;
use crate::interpret::Interpreter;
use crate::observation::Observation;
use retake_model::table::number;
use retake_recording::{ContentReader, Recording, StreamInfo};
use retake_trace_format::TraceRecord;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

const EXIT: u32 = number::EXIT as u32;
const EXIT_GROUP: u32 = number::EXIT_GROUP as u32;
const TICK_NS: u64 = 1000;

/// The stream that has the baton of a domain.
#[derive(Debug, Clone, Copy)]
struct Holder {
    stream: u32,
    turn: u64,
}

/// All streams of a recording, in the order that is being found.
pub(super) struct Order<'recording> {
    recording: &'recording Recording,
    aside: &'recording Aside,
    contents: ContentReader,
    cursors: HashMap<u32, Cursor>,
    order: BinaryHeap<Reverse<(u64, u32)>>,
    blocked: Vec<(u64, u32)>,
    unborn: HashMap<u32, StreamInfo>,
    processes: HashMap<u32, u32>,
    /// How many streams of each process have not ended.
    living: HashMap<u32, u32>,
    holders: HashMap<u32, Holder>,
    channels: Channels,
    names: MappedNames,
    time_ns: u64,
}

impl<'recording> Order<'recording> {
    /// Begins at the start of all streams.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn new(recording: &'recording Recording, aside: &'recording Aside) -> Result<Self> {
        let unborn: HashMap<_, _> =
            recording.streams().map(|summary| (summary.info.id.0, summary.info)).collect();
        let mut living = HashMap::new();
        unborn.values().for_each(|info| *living.entry(info.pid as u32).or_insert(0) += 1);
        let roots: Vec<u32> =
            unborn.values().filter(|info| info.parent.is_none()).map(|info| info.id.0).collect();
        let mut order = Self {
            recording,
            aside,
            contents: ContentReader::new(recording),
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
        let cursor = Cursor::new(reader, interpreter, aside, self.time_ns);
        self.cursors.insert(stream, cursor);
        self.queue(stream)
    }

    /// Notes that a stream has made another.
    fn make(&mut self, parent: u32, child: u32) -> Result<()> {
        if let (Some(parent), Some(info)) = (self.processes.get(&parent), self.unborn.get(&child)) {
            self.channels.forked(*parent, info.pid as u32);
        }
        self.begin(child)
    }

    fn queue(&mut self, stream: u32) -> Result<()> {
        let Some(cursor) = self.cursors.get_mut(&stream) else { return Ok(()) };
        let metadata = self.recording.metadata();
        if cursor.fill(stream, metadata, &mut self.contents)? {
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

    /// Sets the times of an observation. A call that waited for its turn was entered when the
    /// thread's previous call returned.
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

    /// Returns whether the stream may take the baton: its holder has finished its turn.
    fn has_passed_on(&self, holder: Holder, stream: u32) -> bool {
        let next = self.cursors.get(&holder.stream).and_then(|cursor| cursor.ready.front());
        holder.stream == stream || next.is_none_or(|step| matches!(step.gate, Gate::Turn { .. }))
    }

    fn unblock(&mut self) {
        self.order.extend(self.blocked.drain(..).map(Reverse));
    }

    /// Returns a stream that goes on before the next step of `stream`. That step closes the last
    /// descriptor to read from while others can still write. Their successful writes came before.
    /// They may have none left, so there are limits.
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

    /// Chooses the stream that goes on next. If all wait for each other, the order on disk decides.
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

    /// Returns the next observation, with its time.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn next(&mut self) -> Result<Option<Observation>> {
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

    /// Returns which names of mapped files are missing, if any.
    pub fn missing(&self) -> Option<String> {
        self.names.missing()
    }
}
