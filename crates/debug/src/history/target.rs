//! The debugged process of a recording, and where its program begins.

use crate::error::{DebugError, Result};
use crate::history::crash::Crash;
use crate::history::scan::Scan;
use retake_model::EventKind;
use retake_recording::{Recording, StreamId, StreamKind, StreamSummary};

/// The debugged process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The stream of its first thread, or of the thread that executed the program.
    pub stream: StreamId,
    /// The process ID in the recording.
    pub pid: i32,
    /// The number of events of that stream before the debugged program.
    pub first_event: u64,
    /// The call that executed the program, as an offset in the stream and a size. `None` if the
    /// recorder executed it, or if the process is a copy of its parent.
    pub exec_call: Option<(u64, usize)>,
    /// The streams from the first process to this one.
    pub path: Vec<u32>,
    /// Whether what it did before an image is left out. Then it begins at that image.
    pub begins_late: bool,
    /// Whether what a process on its path did before an image is left out, but not its own
    /// beginning. Then replay begins at an image of that process.
    pub is_made_late: bool,
    /// The number of the debugged program among those that the process executed, from 0.
    pub program: usize,
    /// All programs that the process executed, in order.
    programs: Vec<ProgramStart>,
}

/// The beginning of a program that a process executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProgramStart {
    /// The stream of the thread that executed it.
    stream: StreamId,
    first_event: u64,
    exec_call: Option<(u64, usize)>,
}

impl Target {
    /// Chooses the last program of the process with this ID, or of the process that crashed, or of
    /// the first process.
    ///
    /// # Errors
    /// There is no such process, or the recording cannot be read.
    pub fn choose(recording: &Recording, pid: Option<i32>) -> Result<Self> {
        let streams: Vec<StreamSummary> = recording
            .streams()
            .filter(|stream| stream.info.kind != StreamKind::Supervisor)
            .collect();
        let chosen = match pid {
            Some(pid) => {
                streams.iter().rfind(|stream| is_process(stream) && stream.info.pid == pid)
            }
            None => crashed(recording, &streams)?.or_else(|| streams.first()),
        };
        let named = || pid.map_or("there".to_owned(), |pid| format!("number {pid}"));
        let chosen = chosen.ok_or_else(|| DebugError::NoSuchProcess(named()))?;
        let programs = programs(recording, &streams, origin(&streams, chosen))?;
        Self::of_program(&streams, chosen.info.pid, programs.len() - 1, programs).placed(recording)
    }

    /// The same process with another program; `None` if it executed fewer.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn with_program(&self, recording: &Recording, program: usize) -> Result<Option<Self>> {
        let streams: Vec<StreamSummary> = recording.streams().collect();
        (program < self.programs.len())
            .then(|| Self::of_program(&streams, self.pid, program, self.programs.clone()))
            .map(|target| target.placed(recording))
            .transpose()
    }

    /// Finds out whether it begins late.
    fn placed(mut self, recording: &Recording) -> Result<Self> {
        let ran_before =
            |one: StreamSummary| one.info.id == self.stream && recording.ran_before(&one.info);
        let was_running = self.program == 0 && recording.streams().any(ran_before);
        self.begins_late =
            was_running || self.first_event < recording.stream(self.stream)?.first_kept_event();
        let late = recording.late_streams();
        self.is_made_late =
            !self.begins_late && self.path.iter().any(|&stream| late.contains(&StreamId(stream)));
        Ok(self)
    }

    fn of_program(
        streams: &[StreamSummary],
        pid: i32,
        program: usize,
        programs: Vec<ProgramStart>,
    ) -> Self {
        let ProgramStart { stream, first_event, exec_call } = programs[program];
        Self {
            stream,
            pid,
            first_event,
            exec_call,
            path: path_to(streams, stream),
            begins_late: false,
            is_made_late: false,
            program,
            programs,
        }
    }

    /// Whether the process executed another program after this one.
    pub fn is_replaced(&self) -> bool {
        self.program + 1 < self.programs.len()
    }

    /// How this program died, if a signal killed it.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn crash(&self, recording: &Recording) -> Result<Option<Crash>> {
        if self.is_replaced() { Ok(None) } else { Crash::find(recording, Some(self.pid)) }
    }
}

fn is_process(stream: &StreamSummary) -> bool {
    stream.info.kind != StreamKind::Thread
}

/// The process that crashed first.
fn crashed<'a>(
    recording: &Recording,
    streams: &'a [StreamSummary],
) -> Result<Option<&'a StreamSummary>> {
    let Some(crash) = Crash::find(recording, None)? else { return Ok(None) };
    Ok(streams.iter().find(|first| {
        is_process(first) && first.info.pid == crash.pid && first.info.id <= crash.stream
    }))
}

/// The ancestors of a stream, the parent first. `streams` are in the order of their numbers.
pub(crate) fn makers(
    streams: &[StreamSummary],
    stream: StreamId,
) -> impl Iterator<Item = &StreamSummary> {
    let find = |id: StreamId| {
        streams.binary_search_by_key(&id, |one| one.info.id).ok().map(|index| &streams[index])
    };
    // Parents have lower numbers. The check prevents an endless loop in a damaged recording.
    let maker = move |of: &StreamSummary| {
        of.info.parent.filter(|parent| *parent < of.info.id).and_then(find)
    };
    std::iter::successors(find(stream).and_then(maker), move |of| maker(of))
}

/// The stream with which a process began. If a thread other than the first executes a program, the
/// list of streams has that as a process of its own.
fn origin<'a>(streams: &'a [StreamSummary], process: &'a StreamSummary) -> &'a StreamSummary {
    makers(streams, process.info.id)
        .take_while(|maker| maker.info.pid == process.info.pid)
        .last()
        .unwrap_or(process)
}

/// The programs of a process. Each begins with an EXEC event, except for the first one of a forked
/// process, which begins with a START event.
fn programs(
    recording: &Recording,
    streams: &[StreamSummary],
    process: &StreamSummary,
) -> Result<Vec<ProgramStart>> {
    let own = |stream: &&StreamSummary| {
        stream.info.id >= process.info.id && stream.info.pid == process.info.pid
    };
    let is_later = |stream: &&StreamSummary| origin(streams, stream).info.id != process.info.id;
    let mut programs =
        vec![ProgramStart { stream: process.info.id, first_event: 1, exec_call: None }];
    // The ID may be given to another process later. Threads that execute no program do not matter
    // here.
    for stream in streams
        .iter()
        .filter(own)
        .filter(|stream| is_process(stream))
        .take_while(|stream| !is_later(stream))
    {
        let mut scan = Scan::new(recording, stream.info.id)?;
        let mut last_call = None;
        while let Some(event) = scan.next() {
            match event.kind {
                Some(EventKind::Exec) => {
                    // The recorder executes the first program without a call.
                    programs.truncate(if last_call.is_none() { 0 } else { programs.len() });
                    programs.push(ProgramStart {
                        stream: stream.info.id,
                        first_event: event.index + 1,
                        exec_call: last_call,
                    });
                }
                Some(EventKind::Call) => last_call = Some((event.offset, event.size)),
                _ => {}
            }
        }
    }
    Ok(programs)
}

fn path_to(streams: &[StreamSummary], stream: StreamId) -> Vec<u32> {
    let mut path: Vec<u32> = makers(streams, stream).map(|maker| maker.info.id.0).collect();
    path.reverse();
    path.push(stream.0);
    path
}
