//! The processes of a recording, assembled from its streams.

use std::collections::HashMap;

use retake_model::event::ThreadAccount;
use retake_model::table::number::{EXECVE, EXECVEAT};
use retake_model::{CallRef, Dropped, Event, EventKind, EventRef, StreamTimes, TimeScale};
use retake_recording::{EventReader, Recording, StreamId, StreamInfo, StreamKind, StreamSummary};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::text::Moment;

/// A process: the stream of its first thread, with totals over all its threads.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    /// The number of the first thread's stream.
    pub stream: u32,
    /// The stream of the thread that started it.
    pub parent_stream: Option<u32>,
    /// The pid of the process that started it.
    pub parent_pid: Option<i32>,
    /// Its pid while recording.
    pub pid: i32,
    /// The program it ran last: the one passed to exec, or its parent's if it executed none.
    pub program: Option<String>,
    /// The program's arguments, as far as they were recorded.
    pub arguments: Vec<String>,
    /// The number of programs it executed.
    pub exec_count: u64,
    /// The number of its threads, with the first.
    pub thread_count: u64,
    /// The number of events of all its threads.
    pub event_count: u64,
    /// How it ended.
    pub end: End,
    /// The start in milliseconds since recording began; absent if unknown.
    pub started_ms: Option<f64>,
    /// The end of its last thread. If the recording was cut, the last known time.
    pub ended_ms: Option<f64>,
    /// The start as time of day.
    pub started_at: Option<Moment>,
    /// The end as time of day.
    pub ended_at: Option<Moment>,
    /// Its threads, the first thread first.
    pub threads: Vec<Thread>,
}

/// A thread of a process.
#[derive(Debug, Clone, Serialize)]
pub struct Thread {
    /// The number of its stream.
    pub stream: u32,
    /// Its tid while recording.
    pub tid: i32,
    /// The number of its events.
    pub event_count: u64,
    /// The number of times that it got the baton from another thread.
    pub turns: u64,
    /// The number of times that it was stopped between events.
    pub forced: u64,
    /// The number of its system calls. This and the following counts are absent if the recording
    /// was cut.
    pub calls: Option<u64>,
    /// The number of those calls that came by dispatch, not from patched code.
    pub dispatched_calls: Option<u64>,
    /// The number of signals delivered to it.
    pub signals: Option<u64>,
    /// The number of times that it waited for the baton.
    pub waits: Option<u64>,
    /// The total time of these waits.
    pub waited_ms: Option<f64>,
    /// The start in milliseconds since recording began; absent if unknown.
    pub started_ms: Option<f64>,
    /// The end; absent if unknown.
    pub ended_ms: Option<f64>,
}

impl Thread {
    fn new(stream: &StreamSummary, scan: &Scan, account: Option<&ThreadAccount>) -> Self {
        let ms = |ns: u64| ns as f64 / 1e6;
        let noted = account.map(|account| (account.started_ns, account.ended_ns));
        let span = noted.or(scan.span_ns);
        Self {
            stream: stream.info.id.0,
            tid: stream.info.tid,
            event_count: stream.event_count,
            turns: scan.turns,
            forced: scan.forced,
            calls: account.map(|account| account.calls),
            dispatched_calls: account.map(|account| account.dispatched),
            signals: account.map(|account| account.signals),
            waits: account.map(|account| account.waits),
            waited_ms: account.map(|account| ms(account.wait_ns)),
            started_ms: span.map(|span| ms(span.0)),
            ended_ms: span.map(|span| ms(span.1)),
        }
    }
}

/// The supervisor's account of each thread that ended, by stream. Accounts that cannot be read are
/// left out.
fn accounts(recording: &Recording) -> HashMap<u32, ThreadAccount> {
    let mut accounts = HashMap::new();
    for stream in recording.streams().filter(|stream| stream.info.kind == StreamKind::Supervisor) {
        let Ok(mut reader) = EventReader::new(recording, stream.info.id) else { continue };
        while let Ok(Some(numbered)) = reader.next() {
            if let Ok(event) = numbered.event
                && let Event::Thread { stream, account } = event.decode()
            {
                accounts.insert(stream.0, account);
            }
        }
    }
    accounts
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// Its end was dropped.
    Dropped,
    /// Its end was not recorded.
    Unknown,
    /// It was killed before its first event.
    Unborn,
}

/// A program and its arguments.
#[derive(Debug, Clone, Default)]
struct Image {
    program: Option<String>,
    arguments: Vec<String>,
}

impl Image {
    /// The program of a process that ran before it was recorded.
    fn of_running(first: &StreamInfo) -> Self {
        let (program, arguments) = first.command().unzip();
        let arguments = arguments.unwrap_or_default().into_iter().map(str::to_owned).collect();
        Self { program: program.map(str::to_owned), arguments }
    }
}

/// The facts found in one stream.
#[derive(Debug)]
struct Scan {
    image: Image,
    exec_count: u64,
    turns: u64,
    forced: u64,
    end: End,
    /// The times of its first and its last event, since recording began.
    span_ns: Option<(u64, u64)>,
}

/// What ends the streams of threads that went on.
const KILL: i32 = 9;

/// All processes in the order of their streams, and the first damage found. A damaged stream counts
/// up to its first damaged chunk. Malformed events are skipped. Reads the whole recording.
pub fn of_recording(recording: &Recording, dropped: &Dropped) -> (Vec<Process>, Option<Failure>) {
    let metadata = recording.metadata();
    let first = Image {
        program: Some(metadata.command.to_string_lossy()),
        arguments: metadata.arguments.iter().map(|argument| argument.to_string_lossy()).collect(),
    };
    // A new process runs the program that its parent ran at that time.
    let mut inherited = HashMap::from([(0, first)]);
    let accounts = accounts(recording);
    let scale = recording.time_scale();
    let mut failure = None;
    let mut processes: Vec<Process> = Vec::new();
    let mut process_of_stream: HashMap<u32, usize> = HashMap::new();
    for stream in recording.streams() {
        let StreamSummary { info, .. } = &stream;
        if info.kind == StreamKind::Supervisor {
            continue;
        }
        let image = inherited.remove(&info.id.0).unwrap_or_else(|| Image::of_running(info));
        let mut scan = Scan::new(image);
        if let Err(error) = scan.read(recording, info.id, scale.as_ref(), &mut inherited) {
            failure.get_or_insert(error);
        }
        let parent = info.parent.and_then(|parent| process_of_stream.get(&parent.0)).copied();
        if let (StreamKind::Thread, Some(index)) = (info.kind, parent) {
            let process = &mut processes[index];
            process.thread_count += 1;
            process.event_count += stream.event_count;
            let thread = Thread::new(&stream, &scan, accounts.get(&info.id.0));
            process.ended_ms =
                process.ended_ms.zip(thread.ended_ms).map(|(one, other)| one.max(other));
            process.threads.push(thread);
            process_of_stream.insert(info.id.0, index);
            continue;
        }
        process_of_stream.insert(info.id.0, processes.len());
        let thread = Thread::new(&stream, &scan, accounts.get(&info.id.0));
        processes.push(Process {
            started_ms: thread.started_ms,
            ended_ms: thread.ended_ms,
            started_at: None,
            ended_at: None,
            threads: vec![thread],
            stream: info.id.0,
            parent_stream: parent.map(|index| processes[index].stream),
            parent_pid: parent.map(|index| processes[index].pid),
            pid: info.pid,
            program: scan.image.program,
            arguments: scan.image.arguments,
            exec_count: scan.exec_count,
            thread_count: 1,
            event_count: stream.event_count,
            end: match scan.end {
                _ if dropped.has_cut(info.id) => End::Dropped,
                _ if info.pid <= 0 => End::Unborn,
                End::Killed(KILL) if metadata.program_went_on() => End::Unknown,
                end => end,
            },
        });
    }
    if let Some(scale) = scale {
        let at = |ms: f64| Moment(scale.unix_ns((ms * 1e6) as u64));
        for process in &mut processes {
            process.started_at = process.started_ms.map(at);
            process.ended_at = process.ended_ms.map(at);
        }
    }
    (processes, failure)
}

impl Scan {
    fn new(image: Image) -> Self {
        Self { image, exec_count: 0, turns: 0, forced: 0, end: End::Unknown, span_ns: None }
    }

    /// Reads a stream. Adds the program of each child to `inherited`.
    fn read(
        &mut self,
        recording: &Recording,
        stream: StreamId,
        scale: Option<&TimeScale>,
        inherited: &mut HashMap<u32, Image>,
    ) -> Result<()> {
        let mut reader = EventReader::new(recording, stream)?;
        let mut times = scale.map(StreamTimes::new);
        let mut asked_for = Image::default();
        while let Some(numbered) = reader.next()? {
            if numbered.kind == Some(EventKind::Exec) {
                self.exec_count += 1;
                // The first program of a recording is started without a call.
                if asked_for.program.is_some() {
                    self.image = std::mem::take(&mut asked_for);
                }
            }
            self.turns += u64::from(numbered.kind == Some(EventKind::Turn));
            self.forced += u64::from(numbered.kind == Some(EventKind::Forced));
            let Ok(event) = numbered.event else { continue };
            if let Some(time) = times.as_mut().map(|times| times.pass(&event)) {
                self.span_ns = Some((self.span_ns.map_or(time.ns, |span| span.0), time.ns));
            }
            match event.decode() {
                Event::Call(call) if matches!(call.number(), EXECVE | EXECVEAT) => {
                    asked_for = image_of_exec(&call);
                }
                Event::Call(call) => {
                    if let Some(child) = call.child() {
                        inherited.insert(child.0, self.image.clone());
                    }
                }
                _ => self.end = end_of(&event).unwrap_or(self.end),
            }
        }
        Ok(())
    }
}

fn end_of(event: &EventRef<'_>) -> Option<End> {
    Some(match event.decode() {
        // The kernel keeps only eight bits.
        Event::Exit { status, .. } => End::Exited((status & 0xff) as i32),
        Event::Fatal { signal, .. } => End::Killed(i32::from(signal.number())),
        Event::End { status } => match (status & 0x7f, status >> 8 & 0xff) {
            (0, status) => End::Exited(status as i32),
            (signal, _) => End::Killed(signal as i32),
        },
        _ => return None,
    })
}

fn image_of_exec(call: &CallRef<'_>) -> Image {
    let first = if call.number() == EXECVEAT { 1 } else { 0 };
    let text = |bytes: &[u8]| {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let strings_of = |argument: usize| {
        let address = call.argument(argument);
        // The items contain the array of pointers as well as the strings.
        call.items_of(argument, retake_model::ItemDirection::Input)
            .filter(move |item| Some(item.address()) != address || argument == first)
            .map(|item| text(item.inline_bytes()))
    };
    Image { program: strings_of(first).next(), arguments: strings_of(first + 1).collect() }
}

/// A process and its position in the tree.
#[derive(Debug)]
pub struct Placed<'list> {
    /// The process.
    pub process: &'list Process,
    /// The lines of the tree, which stand before its name.
    pub prefix: String,
}

/// The depth below which the tree is not indented further.
const MAX_DEPTH: usize = 30;

/// The processes in the order of the tree, parents before their children.
pub fn tree(processes: &[Process]) -> Vec<Placed<'_>> {
    let mut children: HashMap<Option<u32>, Vec<&Process>> = HashMap::new();
    for process in processes {
        // A parent's stream has the lower number. A damaged recording may say otherwise, and must
        // not cause an endless loop.
        let parent = process.parent_stream.filter(|parent| *parent < process.stream);
        children.entry(parent).or_default().push(process);
    }
    let mut placed = Vec::with_capacity(processes.len());
    // Each entry has a process, the prefix of its children's line, whether it is its parent's last
    // child, and its depth.
    let mut pending: Vec<(&Process, String, bool, usize)> = Vec::new();
    let mut next = (None, String::new(), 0);
    loop {
        let (parent, outer, depth) = next;
        let of_parent = children.remove(&parent).unwrap_or_default();
        let last = of_parent.len().saturating_sub(1);
        for (index, process) in of_parent.into_iter().enumerate().rev() {
            pending.push((process, outer.clone(), index == last, depth));
        }
        let Some((process, outer, is_last, depth)) = pending.pop() else {
            return placed;
        };
        let (branch, below) = match (depth, is_last) {
            (0, _) | (MAX_DEPTH.., _) => ("", ""),
            (_, true) => ("└─ ", "   "),
            (_, false) => ("├─ ", "│  "),
        };
        placed.push(Placed { process, prefix: format!("{outer}{branch}") });
        next = (Some(process.stream), outer + below, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(stream: u32, parent_stream: Option<u32>) -> Process {
        Process {
            stream,
            parent_stream,
            parent_pid: None,
            pid: 100,
            program: None,
            arguments: Vec::new(),
            exec_count: 0,
            thread_count: 1,
            event_count: 0,
            end: End::Unknown,
            started_ms: None,
            ended_ms: None,
            started_at: None,
            ended_at: None,
            threads: Vec::new(),
        }
    }

    fn drawn(processes: &[Process]) -> Vec<String> {
        let tree = tree(processes);
        tree.iter().map(|placed| format!("{}{}", placed.prefix, placed.process.stream)).collect()
    }

    #[test]
    fn trees_are_drawn() {
        let parents = [None, Some(0), Some(1), Some(0), Some(3), None];
        let processes: Vec<Process> = (0..).zip(parents).map(|(s, p)| process(s, p)).collect();
        assert_eq!(drawn(&processes), ["0", "├─ 1", "│  └─ 2", "└─ 3", "   └─ 4", "5"]);
    }

    #[test]
    fn circles_and_depths_end() {
        let circle = [process(0, Some(1)), process(1, Some(0))];
        assert_eq!(drawn(&circle), ["0", "└─ 1"]);
        let chain: Vec<Process> = (0..5000).map(|n| process(n, n.checked_sub(1))).collect();
        assert_eq!(drawn(&chain).len(), 5000);
    }
}
