//! Merges the streams of a spool into one sequence, in the order in which calls were entered.

use crate::Result;
use crate::events::EventBuffer;
use crate::interpret::Interpreter;
use crate::observation::Observation;
use retake_model::StreamId;
use retake_model::table::number;
use retake_recording::{Recording, StreamInfo, StreamReader};
use retake_trace_format::TraceRecord;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

struct Cursor {
    reader: StreamReader,
    next_chunk: usize,
    chunk: Vec<u8>,
    events: EventBuffer,
    interpreter: Interpreter,
    ready: VecDeque<(Observation, Option<StreamId>)>,
}

impl Cursor {
    /// Reads on until there is an observation. False at the end of the stream.
    fn fill(&mut self, stream: u32) -> Result<bool> {
        while self.ready.is_empty() {
            if let Some(event) = self.events.next(stream)? {
                let meaning = self.interpreter.event(&event, &mut |_| None);
                let mut child = meaning.child;
                self.ready.extend(
                    meaning.observations.into_iter().map(|observation| (observation, child.take())),
                );
                continue;
            }
            if self.next_chunk >= self.reader.chunk_count() {
                return Ok(false);
            }
            self.reader.read_chunk(self.next_chunk, &mut self.chunk)?;
            self.next_chunk += 1;
            self.events.extend(&self.chunk);
        }
        Ok(true)
    }
}

fn makes_thread(number: u32) -> bool {
    const CLONE: u32 = number::CLONE as u32;
    const VFORK: u32 = number::VFORK as u32;
    const CLONE3: u32 = number::CLONE3 as u32;
    matches!(number, CLONE..=VFORK | CLONE3)
}

/// Merges streams. A stream is opened when the thread that makes its thread does so, and closed at
/// its end, so memory is bounded by the threads that live at once.
pub(crate) struct Merge<'spool> {
    spool: &'spool Recording,
    cursors: HashMap<u32, Cursor>,
    /// The time of the next observation of each stream, with the stream.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    /// The streams that have not begun.
    unborn: HashMap<u32, StreamInfo>,
    /// The streams of threads with the same number, since numbers are reused. The last one comes
    /// first.
    by_number: HashMap<i32, Vec<u32>>,
    processes: HashMap<u32, u32>,
}

impl<'spool> Merge<'spool> {
    /// Begins at the start of a spool.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn new(spool: &'spool Recording) -> Result<Self> {
        let unborn: HashMap<_, _> =
            spool.streams().map(|summary| (summary.info.id.0, summary.info)).collect();
        let mut by_number: HashMap<i32, Vec<u32>> = HashMap::new();
        for info in unborn.values() {
            by_number.entry(info.tid).or_default().push(info.id.0);
        }
        by_number
            .values_mut()
            .for_each(|streams| streams.sort_unstable_by_key(|stream| Reverse(*stream)));
        let mut merge = Self {
            spool,
            cursors: HashMap::new(),
            order: BinaryHeap::new(),
            unborn,
            by_number,
            processes: HashMap::new(),
        };
        let mut roots: Vec<u32> = merge
            .unborn
            .values()
            .filter(|info| info.parent.is_none())
            .map(|info| info.id.0)
            .collect();
        roots.sort_unstable();
        for root in roots {
            merge.begin(root)?;
        }
        Ok(merge)
    }

    fn begin(&mut self, stream: u32) -> Result<()> {
        let Some(info) = self.unborn.remove(&stream) else { return Ok(()) };
        let parent =
            info.parent.and_then(|parent| self.processes.get(&parent.0)).copied().unwrap_or(0);
        let reader = self.spool.stream(info.id)?;
        let (events, ready) = (EventBuffer::default(), VecDeque::new());
        let interpreter = Interpreter::new(&info, parent);
        self.processes.insert(stream, interpreter.process());
        self.cursors.insert(
            stream,
            Cursor { reader, next_chunk: 0, chunk: Vec::new(), events, interpreter, ready },
        );
        self.queue(stream)
    }

    /// Queues a stream by its next observation, or closes it at its end.
    fn queue(&mut self, stream: u32) -> Result<()> {
        let Some(cursor) = self.cursors.get_mut(&stream) else { return Ok(()) };
        if !cursor.fill(stream)? {
            self.cursors.remove(&stream);
            return Ok(());
        }
        self.processes.insert(stream, cursor.interpreter.process());
        let time = cursor.ready.front().map_or(0, |(observation, _)| observation.time_ns());
        self.order.push(Reverse((time, stream)));
        Ok(())
    }

    /// Returns the next observation, or `None` after the last.
    ///
    /// # Errors
    /// The spool is damaged from here on.
    pub fn next(&mut self) -> Result<Option<Observation>> {
        loop {
            let Some(Reverse((_, stream))) = self.order.pop() else {
                // Begin threads whose parent died before it could report that it had made them.
                let Some(stream) = self.unborn.keys().min().copied() else { return Ok(None) };
                self.begin(stream)?;
                continue;
            };
            let next = self.cursors.get_mut(&stream).and_then(|cursor| cursor.ready.pop_front());
            self.queue(stream)?;
            if let Some((observation, child)) = next {
                if let Some(child) =
                    child.map(|child| child.0).or_else(|| self.child_by_number(&observation))
                {
                    self.begin(child)?;
                }
                return Ok(Some(observation));
            }
        }
    }

    /// Returns the stream that a call made, by the number of its thread. A tracer from outside may
    /// see the new thread only after the call has returned.
    fn child_by_number(&mut self, observation: &Observation) -> Option<u32> {
        let Observation::Record(TraceRecord::Call(call)) = observation else { return None };
        let number = i32::try_from(call.result)
            .ok()
            .filter(|number| *number > 0 && makes_thread(call.number))?;
        let unborn = &self.unborn;
        let streams = self.by_number.get_mut(&number)?;
        while streams.last().is_some_and(|stream| !unborn.contains_key(stream)) {
            streams.pop();
        }
        streams.pop()
    }
}
