//! The order in which calls took effect, as far as their times tell.
//!
//! A call has its effect somewhere between its entry and its return. A call that supplies others (a
//! write into a pipe, the creation of a process) is placed at its entry, every other call at its
//! return. No call therefore comes before a call whose result it used. The calls of a thread keep
//! the thread's order, whatever the clock said.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use retake_trace_format::{TraceRecord, TracedCall};

use crate::overlap::{closes, is_end, must_precede, opens_to_write, reaches_into};

/// Records that may wait for a record that took effect earlier. Each traced thread has at most one
/// in flight, so that only a trace with impossible times reaches this limit.
const MAXIMUM_WAITING: usize = 1 << 14;

/// The data that waiting records may hold, in bytes.
const MAXIMUM_WAITING_BYTES: usize = 64 << 20;

/// Sorts records by the time of their effect. It holds back only records that overlap.
#[derive(Debug)]
pub struct Sequencer<Records> {
    records: Records,
    /// The waiting records by effect and arrival, with their indices in `waiting`.
    order: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// The records themselves. They stay in place because they are much larger than what is sorted.
    waiting: Vec<Option<TraceRecord>>,
    free: Vec<u32>,
    waiting_bytes: usize,
    /// The latest entry seen. Records read from now on were entered later, or returned later.
    latest_entry_ns: u64,
    arrival: u64,
    /// The latest effect in each thread that has not exited.
    threads: BTreeMap<u32, u64>,
    is_at_end: bool,
}

impl<Records, E> Sequencer<Records>
where
    Records: Iterator<Item = Result<TraceRecord, E>>,
{
    /// Sorts the records of a trace, which come in the order of their ids.
    pub fn new(records: Records) -> Self {
        Self {
            records,
            order: BinaryHeap::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            waiting_bytes: 0,
            latest_entry_ns: 0,
            arrival: 0,
            threads: BTreeMap::new(),
            is_at_end: false,
        }
    }

    fn take_in(&mut self, record: TraceRecord) {
        let (entered_ns, mut effect_ns) =
            times(&record).unwrap_or((self.latest_entry_ns, self.latest_entry_ns));
        if let TraceRecord::Call(call) = &record {
            let latest = self.threads.entry(call.thread).or_default();
            effect_ns = effect_ns.max(*latest);
            *latest = effect_ns;
            if i64::from(call.number) == libc::SYS_exit {
                self.threads.remove(&call.thread);
            }
        }
        self.latest_entry_ns = self.latest_entry_ns.max(entered_ns);
        self.arrival += 1;
        self.waiting_bytes += record.data_bytes();
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        self.waiting[place as usize] = Some(record);
        self.order.push(Reverse((effect_ns, self.arrival, place)));
    }

    /// The index of the next record: the first one by time, or one that overlapped it and came
    /// before it, as the data that were read show.
    fn next_place(&mut self) -> Option<u32> {
        let Reverse(next) = self.order.pop()?;
        let first = self.waiting[next.2 as usize].as_ref()?;
        let earlier = self
            .waiting_place(|other| must_precede(first, other))
            .or_else(|| self.end_before(first));
        let Some(earlier) = earlier else {
            return Some(next.2);
        };
        self.order.retain(|Reverse((_, _, place))| *place != earlier);
        self.order.push(Reverse(next));
        Some(earlier)
    }

    /// The index of a waiting record that satisfies the condition.
    fn waiting_place(&self, is_it: impl Fn(&TraceRecord) -> bool) -> Option<u32> {
        let mut places = self.order.iter().map(|Reverse((_, _, place))| *place);
        places.find(|place| self.waiting[*place as usize].as_ref().is_some_and(&is_it))
    }

    /// For the open of a named pipe for writing: a waiting end of data that overlapped it, or a
    /// close that may have caused that end. Both come before the open. Only planning knows which
    /// pipe it is. It gets the end in time, and postpones it if it is about another pipe.
    fn end_before(&self, first: &TraceRecord) -> Option<u32> {
        let TraceRecord::Call(opening) = first else {
            return None;
        };
        if !opens_to_write(opening) {
            return None;
        }
        let overlaps = |record: &TraceRecord, is_it: fn(&TracedCall) -> bool| match record {
            TraceRecord::Call(call) => is_it(call) && reaches_into(call, opening),
            _ => false,
        };
        let end = self.waiting_place(|record| overlaps(record, is_end))?;
        self.waiting_place(|record| overlaps(record, closes)).or(Some(end))
    }

    fn holds_too_much(&self) -> bool {
        self.order.len() > MAXIMUM_WAITING || self.waiting_bytes > MAXIMUM_WAITING_BYTES
    }

    fn is_due(&self) -> bool {
        let earliest = self.order.peek();
        earliest.is_some_and(|Reverse((effect_ns, ..))| {
            self.is_at_end || *effect_ns <= self.latest_entry_ns || self.holds_too_much()
        })
    }
}

impl<Records, E> Iterator for Sequencer<Records>
where
    Records: Iterator<Item = Result<TraceRecord, E>>,
{
    type Item = Result<TraceRecord, E>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_due() {
            match self.records.next() {
                Some(Ok(record)) => self.take_in(record),
                Some(Err(error)) => return Some(Err(error)),
                None if self.is_at_end => return None,
                None => self.is_at_end = true,
            }
        }
        let place = self.next_place()?;
        let record = self.waiting[place as usize].take()?;
        self.free.push(place);
        self.waiting_bytes -= record.data_bytes();
        Some(Ok(record))
    }
}

/// When a record was entered and when it took effect. `None` for a record without a time, which is
/// returned at once.
pub fn times(record: &TraceRecord) -> Option<(u64, u64)> {
    match record {
        TraceRecord::Call(call) => {
            let counts_from_entry = call.returned_ns < call.entered_ns || supplies(call);
            Some((
                call.entered_ns,
                if counts_from_entry { call.entered_ns } else { call.returned_ns },
            ))
        }
        TraceRecord::ProcessStart(start) => Some((start.time_ns, start.time_ns)),
        TraceRecord::MappedPages(pages) => Some((pages.time_ns, pages.time_ns)),
        TraceRecord::Incomplete(_) => None,
    }
}

/// Whether other calls can use the effect of a call before it returns.
fn supplies(call: &TracedCall) -> bool {
    matches!(
        i64::from(call.number),
        libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwritev2
            | libc::SYS_connect
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_sendto
            | libc::SYS_vmsplice
            | libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_exit
            | libc::SYS_exit_group
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: u64, thread: u32, number: i64, entered_ns: u64, returned_ns: u64) -> TraceRecord {
        TraceRecord::Call(TracedCall {
            id,
            thread,
            number: number as u32,
            entered_ns,
            returned_ns,
            ..Default::default()
        })
    }

    fn order(records: Vec<TraceRecord>) -> Vec<u64> {
        let records = records.into_iter().map(Ok::<_, ()>);
        Sequencer::new(records).map(|record| record.unwrap().id().unwrap()).collect()
    }

    #[test]
    fn a_blocked_read_comes_after_the_write_that_fed_it() {
        let by_entry = vec![
            call(1, 1, libc::SYS_read, 10, 50),
            call(2, 2, libc::SYS_write, 20, 60),
            call(3, 2, libc::SYS_read, 70, 80),
        ];
        assert_eq!(order(by_entry), [2, 1, 3]);
        let by_return = vec![
            call(1, 2, libc::SYS_write, 20, 40),
            call(2, 1, libc::SYS_read, 10, 50),
            call(3, 2, libc::SYS_read, 70, 80),
        ];
        assert_eq!(order(by_return), [1, 2, 3]);
    }

    #[test]
    fn a_process_is_made_before_its_first_call() {
        let records = vec![
            call(1, 1, libc::SYS_vfork, 10, 90),
            call(2, 2, libc::SYS_close, 20, 30),
            call(3, 2, libc::SYS_execve, 40, 50),
        ];
        assert_eq!(order(records), [1, 2, 3]);
    }

    #[test]
    fn little_is_held_back() {
        let mut taken = 0;
        let records = (0..1000_u64).map(|id| {
            taken += 1;
            Ok::<_, ()>(call(id, 1, libc::SYS_read, id * 10, id * 10 + 5))
        });
        let mut sequencer = Sequencer::new(records);
        sequencer.next();
        drop(sequencer);
        assert!(taken <= 2, "{taken}");
    }

    #[test]
    fn calls_that_never_returned_have_their_place() {
        let records = vec![
            call(1, 1, libc::SYS_read, 10, 20),
            call(2, 1, libc::SYS_exit_group, 30, 0),
            call(3, 2, libc::SYS_read, 40, 45),
        ];
        assert_eq!(order(records), [1, 2, 3]);
    }

    #[test]
    fn an_end_of_data_and_what_may_have_made_it_come_before_an_opening_to_write() {
        let with = |record, arguments: [u64; 3], result: i64| {
            let TraceRecord::Call(call) = record else { unreachable!("it is a call") };
            let [first, second, third] = arguments;
            TraceRecord::Call(TracedCall {
                arguments: [first, second, third, 0, 0, 0],
                result,
                ..call
            })
        };
        let read = |id, times: (u64, u64), result| {
            with(call(id, id as u32, libc::SYS_read, times.0, times.1), [3, 1, 100], result)
        };
        let open = |id, times: (u64, u64), flags: i32| {
            with(call(id, id as u32, libc::SYS_open, times.0, times.1), [1, flags as u64, 0], 4)
        };
        let close = |id, times: (u64, u64)| {
            with(call(id, id as u32, libc::SYS_close, times.0, times.1), [5, 0, 0], 0)
        };
        let last = || call(9, 9, libc::SYS_getpid, 90, 91);
        let write = libc::O_WRONLY;
        assert_eq!(order(vec![read(1, (10, 50), 0), open(2, (20, 30), write), last()]), [1, 2, 9]);
        assert_eq!(
            order(vec![close(1, (5, 60)), read(2, (10, 50), 0), open(3, (20, 30), write), last()]),
            [1, 2, 3, 9]
        );
        assert_eq!(
            order(vec![read(1, (10, 50), 7), open(2, (20, 30), write), last()]),
            [2, 1, 9],
            "data"
        );
        assert_eq!(
            order(vec![read(1, (10, 50), 0), open(2, (20, 30), libc::O_RDONLY), last()]),
            [2, 1, 9],
            "nothing to write"
        );
        assert_eq!(
            order(vec![open(1, (20, 30), write), read(2, (31, 50), 0), last()]),
            [1, 2, 9],
            "one after the other"
        );
    }

    #[test]
    fn a_descriptor_is_closed_before_another_gets_its_number() {
        let with = |record, argument: u64, result: i64| {
            let TraceRecord::Call(call) = record else { unreachable!("it is a call") };
            TraceRecord::Call(TracedCall { arguments: [argument, 0, 0, 0, 0, 0], result, ..call })
        };
        let close = |id, times: (u64, u64)| {
            with(call(id, id as u32, libc::SYS_close, times.0, times.1), 7, 0)
        };
        let open = |id, times: (u64, u64), result| {
            with(call(id, id as u32, libc::SYS_open, times.0, times.1), 0x1000, result)
        };
        let last = || call(9, 9, libc::SYS_getpid, 90, 91);
        assert_eq!(order(vec![close(1, (10, 40)), open(2, (20, 30), 7), last()]), [1, 2, 9]);
        assert_eq!(order(vec![open(1, (5, 30), 7), close(2, (10, 40)), last()]), [2, 1, 9]);
        assert_eq!(
            order(vec![close(1, (10, 40)), open(2, (20, 30), 8), last()]),
            [2, 1, 9],
            "another number"
        );
    }

    #[test]
    fn what_was_read_tells_who_was_first() {
        use retake_trace_format::{BufferDirection, TracedBuffer};
        let moved = |id, number: i64, data: &[u8], times: (u64, u64)| {
            let TraceRecord::Call(call) = call(id, id as u32, number, times.0, times.1) else {
                unreachable!("it is a call")
            };
            let direction = if number == libc::SYS_pread64 {
                BufferDirection::Output
            } else {
                BufferDirection::Input
            };
            let buffer = TracedBuffer {
                argument: 1,
                direction,
                address: 1,
                total_bytes: 4,
                data: data.into(),
            };
            TraceRecord::Call(TracedCall {
                arguments: [3, 1, 4, 0, 0, 0],
                result: 4,
                buffers: vec![buffer],
                ..call
            })
        };
        let read = |id, data: &[u8], times| moved(id, libc::SYS_pread64, data, times);
        let write = |id, data: &[u8], times| moved(id, libc::SYS_pwrite64, data, times);
        // The read saw the data of a write that returned later.
        assert_eq!(
            order(vec![
                read(1, b"new!", (10, 20)),
                write(2, b"new!", (12, 30)),
                write(3, b"then", (40, 50))
            ]),
            [2, 1, 3]
        );
        // The read saw what was there before a write that returned earlier.
        assert_eq!(
            order(vec![
                read(1, b"old!", (10, 30)),
                write(2, b"new!", (12, 20)),
                write(3, b"then", (40, 50))
            ]),
            [1, 2, 3]
        );
        // Calls that did not overlap keep their order.
        assert_eq!(
            order(vec![
                write(1, b"new!", (10, 20)),
                read(2, b"else", (21, 30)),
                write(3, b"then", (40, 50))
            ]),
            [1, 2, 3]
        );
    }
}
