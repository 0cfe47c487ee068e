//! Pipes and socket pairs between processes: the processes with descriptors of their ends, and the
//! amount of data in them. This orders calls of different processes where times do not. A process
//! cannot read data before they are written, write more than there is room for, see an end before
//! all writers have closed, or get `EPIPE` while a reader exists.

use crate::descriptors::{self, Descriptor, Table};
use crate::observation::{Ending, Observation};
use retake_model::table;
use retake_model::table::number;
use retake_trace_format::{StartKind, TraceRecord, TracedCall};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

const READ: u32 = number::READ as u32;
const WRITE: u32 = number::WRITE as u32;
const READV: u32 = number::READV as u32;
const WRITEV: u32 = number::WRITEV as u32;
const SENDFILE: u32 = number::SENDFILE as u32;
const SENDTO: u32 = number::SENDTO as u32;
const RECVFROM: u32 = number::RECVFROM as u32;
const SENDMSG: u32 = number::SENDMSG as u32;
const RECVMSG: u32 = number::RECVMSG as u32;
const SHUTDOWN: u32 = number::SHUTDOWN as u32;
const SOCKETPAIR: u32 = number::SOCKETPAIR as u32;
const SPLICE: u32 = number::SPLICE as u32;
const TEE: u32 = number::TEE as u32;
const VMSPLICE: u32 = number::VMSPLICE as u32;
const CLOSE: u32 = number::CLOSE as u32;
const DUP2: u32 = number::DUP2 as u32;
const DUP3: u32 = number::DUP3 as u32;
const EXIT_GROUP: u32 = number::EXIT_GROUP as u32;
const FCNTL: u32 = number::FCNTL as u32;
const F_SETPIPE_SZ: u64 = 1031;
const EPIPE: i64 = -32;
const MSG_PEEK: u64 = 2;

/// The capacity of a pipe unless a call changes it.
const PIPE_BYTES: u64 = 1 << 16;
/// A bound of the capacity of a socket pair unless a call asks for more.
const SOCKET_BYTES: u64 = 1 << 18;

/// One direction of a channel.
#[derive(Debug, Default)]
struct Flow {
    /// The bytes written but not yet read.
    bytes: Cell<u64>,
    /// The most bytes that it can hold.
    capacity: Cell<u64>,
    writer: RefCell<Weak<End>>,
    reader: RefCell<Weak<End>>,
    /// Whether it was shut down.
    is_shut: Cell<bool>,
}

impl Flow {
    fn with_room_for(bytes: u64) -> Rc<Self> {
        Rc::new(Self { capacity: Cell::new(bytes), ..Self::default() })
    }

    /// Returns whether a process can still write to it.
    fn is_fed(&self) -> bool {
        !self.is_shut.get() && self.writer.borrow().strong_count() > 0
    }

    /// Returns whether a process can still read from it.
    fn is_drained(&self) -> bool {
        !self.is_shut.get() && self.reader.borrow().strong_count() > 0
    }
}

/// An end of a channel. It closes with its last descriptor.
#[derive(Debug)]
struct End {
    reads: Option<Rc<Flow>>,
    writes: Option<Rc<Flow>>,
}

#[derive(Debug, Clone)]
struct Slot {
    end: Rc<End>,
    closes_on_exec: bool,
}

impl Descriptor for Slot {
    fn closes_on_exec(&self) -> bool {
        self.closes_on_exec
    }

    fn set_closes_on_exec(&mut self, closes: bool) {
        self.closes_on_exec = closes;
    }
}

/// Follows all channels.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    processes: HashMap<u32, Table<Slot>>,
    /// The flow that each thread last wrote to. The write returned only when all its data were in
    /// it.
    filling: HashMap<u32, Rc<Flow>>,
}

impl Channels {
    /// Gives a new process the descriptors of its parent.
    pub fn forked(&mut self, parent: u32, child: u32) {
        if parent != child {
            let table = self.processes.get(&parent).cloned().unwrap_or_default();
            self.processes.insert(child, table);
        }
    }

    /// Forgets a process, all of whose threads have ended.
    pub fn ended(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// Returns whether the observation is possible now.
    pub fn allow(&self, observation: &Observation) -> bool {
        if self
            .filling
            .get(&thread_of(observation))
            .is_some_and(|flow| flow.bytes.get() > flow.capacity.get() && flow.is_drained())
        {
            return false;
        }
        let Observation::Record(TraceRecord::Call(call)) = observation else { return true };
        if let Some(flow) =
            reads_from(call).and_then(|number| self.end(call, number)?.reads.clone())
        {
            return match call.result {
                0 => {
                    call.arguments[2] == 0 && call.number == READ
                        || flow.bytes.get() == 0 && !flow.is_fed()
                }
                bytes => bytes < 0 || flow.bytes.get() >= bytes as u64,
            };
        }
        let Some(flow) = writes_to(call).and_then(|number| self.end(call, number)?.writes.clone())
        else {
            return true;
        };
        match call.result {
            EPIPE => !flow.is_drained(),
            1.. => flow.bytes.get() < flow.capacity.get() || !flow.is_drained(),
            _ => true,
        }
    }

    /// Returns the processes that can write no more after this observation, because it closes the
    /// last descriptor to read from there. Their remaining successful writes came before it.
    pub fn cut_off(&self, observation: &Observation) -> Vec<u32> {
        let (process, closed) = match observation {
            Observation::Record(TraceRecord::Call(call)) => match call.number {
                CLOSE if !call.failed() => (call.process, Some(call.arguments[0] as u32)),
                DUP2 | DUP3 if !call.failed() && call.arguments[0] != call.arguments[1] => {
                    (call.process, Some(call.arguments[1] as u32))
                }
                EXIT_GROUP => (call.process, None),
                _ => return Vec::new(),
            },
            Observation::Ended { process, how: Ending::Killed(_), .. } => (*process, None),
            _ => return Vec::new(),
        };
        let Some(table) = self.processes.get(&process) else { return Vec::new() };
        let own = || {
            table
                .iter()
                .filter(|(number, _)| closed.is_none_or(|closed| closed == **number))
                .map(|(_, slot)| &slot.end)
        };
        let is_last = |end: &&Rc<End>| {
            own().filter(|other| Rc::ptr_eq(other, end)).count() == Rc::strong_count(end)
        };
        let flows: Vec<&Rc<Flow>> =
            own().filter(is_last).filter_map(|end| end.reads.as_ref()).collect();
        let writes = |slot: &Slot| {
            slot.end
                .writes
                .as_ref()
                .is_some_and(|flow| flows.iter().any(|lost| Rc::ptr_eq(lost, flow)))
        };
        let others =
            self.processes.iter().filter(|(other, _)| !flows.is_empty() && **other != process);
        others
            .filter(|(_, table)| table.values().any(writes))
            .map(|(process, _)| *process)
            .collect()
    }

    /// Follows an observation.
    pub fn follow(&mut self, observation: &Observation) {
        match observation {
            Observation::Record(TraceRecord::ProcessStart(start))
                if start.how == StartKind::Exec =>
            {
                self.processes
                    .entry(start.process)
                    .or_default()
                    .retain(|_, slot| !slot.closes_on_exec);
            }
            Observation::Record(TraceRecord::Call(call)) if !call.failed() => self.call(call),
            _ => {}
        }
    }

    fn end(&self, call: &TracedCall, number: u32) -> Option<&End> {
        self.processes.get(&call.process)?.get(&number).map(|slot| &*slot.end)
    }

    fn call(&mut self, call: &TracedCall) {
        let bytes = u64::try_from(call.result).unwrap_or(0);
        if let Some(flow) =
            writes_to(call).and_then(|number| self.end(call, number)?.writes.clone())
        {
            flow.bytes.set(flow.bytes.get().saturating_add(bytes));
            self.filling.insert(call.thread, flow);
        } else {
            self.filling.remove(&call.thread);
        }
        let stays = call.number == TEE
            || matches!(call.number, RECVFROM | RECVMSG) && flags_of(call) & MSG_PEEK != 0;
        if let Some(flow) = reads_from(call)
            .filter(|_| !stays)
            .and_then(|number| self.end(call, number)?.reads.clone())
        {
            flow.bytes.set(flow.bytes.get().saturating_sub(bytes));
        }
        match call.number {
            SHUTDOWN => self.shut(call),
            FCNTL if call.arguments[1] == F_SETPIPE_SZ => {
                let end = self.end(call, call.arguments[0] as u32);
                end.and_then(|end| end.reads.as_ref().or(end.writes.as_ref()))
                    .into_iter()
                    .for_each(|flow| flow.capacity.set(bytes));
            }
            _ => {}
        }
        let Some(row) = u16::try_from(call.number)
            .ok()
            .and_then(table::call)
            .map(|row| row.resolve(&call.arguments).0)
        else {
            return;
        };
        let table = self.processes.entry(call.process).or_default();
        let mut ends: Option<[Rc<End>; 2]> = None;
        descriptors::change(table, call, row, |index| {
            if row.descriptors != table::DescriptorEffect::MakesPair {
                return None;
            }
            let ends = ends
                .get_or_insert_with(|| if call.number == SOCKETPAIR { sockets() } else { pipe() });
            ends.get(index).map(|end| Slot { end: Rc::clone(end), closes_on_exec: false })
        });
    }

    fn shut(&mut self, call: &TracedCall) {
        const SHUT_RD: u64 = 0;
        const SHUT_WR: u64 = 1;
        let Some(end) = self.end(call, call.arguments[0] as u32) else { return };
        let sides = [(SHUT_WR, &end.reads), (SHUT_RD, &end.writes)];
        sides
            .iter()
            .filter(|(spares, _)| call.arguments[1] != *spares)
            .filter_map(|(_, flow)| flow.as_ref())
            .for_each(|flow| flow.is_shut.set(true));
    }
}

fn thread_of(observation: &Observation) -> u32 {
    match observation {
        Observation::Record(TraceRecord::Call(call)) => call.thread,
        Observation::Record(TraceRecord::ProcessStart(start)) => start.thread,
        Observation::Record(_) => 0,
        Observation::Signal { thread, .. } | Observation::Ended { thread, .. } => *thread,
    }
}

fn flags_of(call: &TracedCall) -> u64 {
    if call.number == RECVFROM { call.arguments[3] } else { call.arguments[2] }
}

/// Returns the descriptor from which a call reads.
fn reads_from(call: &TracedCall) -> Option<u32> {
    match call.number {
        READ | READV | RECVFROM | RECVMSG | SPLICE | TEE => Some(call.arguments[0] as u32),
        SENDFILE => Some(call.arguments[1] as u32),
        _ => None,
    }
}

/// Returns the descriptor to which a call writes.
fn writes_to(call: &TracedCall) -> Option<u32> {
    match call.number {
        WRITE | WRITEV | SENDTO | SENDMSG | SENDFILE | VMSPLICE => Some(call.arguments[0] as u32),
        TEE => Some(call.arguments[1] as u32),
        SPLICE => Some(call.arguments[2] as u32),
        _ => None,
    }
}

fn pipe() -> [Rc<End>; 2] {
    let flow = Flow::with_room_for(PIPE_BYTES);
    let reader = Rc::new(End { reads: Some(Rc::clone(&flow)), writes: None });
    let writer = Rc::new(End { reads: None, writes: Some(Rc::clone(&flow)) });
    flow.reader.replace(Rc::downgrade(&reader));
    flow.writer.replace(Rc::downgrade(&writer));
    [reader, writer]
}

fn sockets() -> [Rc<End>; 2] {
    let flows = [(); 2].map(|()| Flow::with_room_for(SOCKET_BYTES));
    let end = |own: usize| {
        Rc::new(End {
            reads: Some(Rc::clone(&flows[own])),
            writes: Some(Rc::clone(&flows[1 - own])),
        })
    };
    let ends = [end(0), end(1)];
    for (own, flow) in flows.iter().enumerate() {
        flow.reader.replace(Rc::downgrade(&ends[own]));
        flow.writer.replace(Rc::downgrade(&ends[1 - own]));
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_trace_format::{BufferDirection, TracedBuffer};

    const PIPE: u32 = number::PIPE as u32;

    fn call(process: u32, number: u32, arguments: [u64; 3], result: i64) -> Observation {
        let [first, second, third] = arguments;
        let mut call = TracedCall {
            process,
            thread: process,
            number,
            result,
            arguments: [first, second, third, 0, 0, 0],
            ..TracedCall::default()
        };
        if matches!(number, PIPE | SOCKETPAIR) {
            let data = [3_u32, 4].map(u32::to_le_bytes).concat();
            call.buffers.push(TracedBuffer {
                argument: 0,
                direction: BufferDirection::Output,
                address: 1,
                total_bytes: 8,
                data: data.into(),
            });
        }
        Observation::Record(TraceRecord::Call(call))
    }

    fn follow(channels: &mut Channels, observations: &[Observation]) {
        observations.iter().for_each(|observation| channels.follow(observation));
    }

    #[test]
    fn what_is_read_was_written() {
        let mut channels = Channels::default();
        follow(&mut channels, &[call(1, PIPE, [9, 0, 0], 0)]);
        channels.forked(1, 2);
        let read = |bytes: i64| call(2, READ, [3, 9, 100], bytes);
        assert!(
            !channels.allow(&read(1)) && !channels.allow(&read(0)) && channels.allow(&read(-11))
        );
        follow(&mut channels, &[call(1, WRITE, [4, 9, 5], 5)]);
        assert!(channels.allow(&read(5)) && !channels.allow(&read(6)) && !channels.allow(&read(0)));
        follow(&mut channels, &[read(5), call(1, CLOSE, [4, 0, 0], 0)]);
        assert!(!channels.allow(&read(0)), "the reader itself can still write");
        follow(&mut channels, &[call(2, CLOSE, [4, 0, 0], 0)]);
        assert!(channels.allow(&read(0)));
    }

    #[test]
    fn no_more_is_written_than_there_is_room_for() {
        let mut channels = Channels::default();
        follow(&mut channels, &[call(1, PIPE, [9, 0, 0], 0)]);
        channels.forked(1, 2);
        follow(&mut channels, &[call(1, CLOSE, [3, 0, 0], 0), call(2, CLOSE, [4, 0, 0], 0)]);
        let write = || call(1, WRITE, [4, 9, 100_000], 100_000);
        assert!(channels.allow(&write()));
        follow(&mut channels, &[write()]);
        let last = call(2, CLOSE, [3, 0, 0], 0);
        assert_eq!(channels.cut_off(&last), [1]);
        assert!(!channels.allow(&call(1, CLOSE, [4, 0, 0], 0)), "the write has not returned");
        follow(&mut channels, &[call(2, READ, [3, 9, 40_000], 40_000)]);
        assert!(channels.allow(&call(1, CLOSE, [4, 0, 0], 0)) && channels.allow(&write()));
        follow(&mut channels, &[call(1, CLOSE, [4, 0, 0], 0)]);
        assert!(channels.cut_off(&last).is_empty(), "nobody writes any more");
    }

    #[test]
    fn nobody_reads_when_the_last_has_ended() {
        let mut channels = Channels::default();
        follow(&mut channels, &[call(1, PIPE, [9, 0, 0], 0)]);
        channels.forked(1, 2);
        follow(&mut channels, &[call(1, CLOSE, [3, 0, 0], 0)]);
        let refused = call(1, WRITE, [4, 9, 5], EPIPE);
        assert!(!channels.allow(&refused));
        channels.ended(2);
        assert!(channels.allow(&refused));
    }

    #[test]
    fn sockets_have_two_directions() {
        let mut channels = Channels::default();
        follow(&mut channels, &[call(1, SOCKETPAIR, [1, 1, 0], 0)]);
        channels.forked(1, 2);
        follow(&mut channels, &[call(1, WRITE, [3, 9, 5], 5)]);
        assert!(
            channels.allow(&call(2, RECVFROM, [4, 9, 100], 5))
                && !channels.allow(&call(1, READ, [3, 9, 100], 5))
        );
        assert!(!channels.allow(&call(1, READ, [3, 9, 100], 0)));
        follow(&mut channels, &[call(2, SHUTDOWN, [4, 1, 0], 0)]);
        assert!(channels.allow(&call(1, READ, [3, 9, 100], 0)), "the other side writes no more");
    }
}
