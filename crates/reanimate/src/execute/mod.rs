//! Execution of planned calls, and the comparison with the trace.

mod copy;
mod data;
mod names;
mod objects;
mod open;
mod pipe;
mod places;
mod scratch;

use retake_trace_format::TracedCall;
use rustix::io::Errno;

use crate::action::{Action, Task};
use crate::handle::Handle;
use crate::options::Verify;
use crate::pace::Pulse;
use crate::root::Root;
use places::Places;
use scratch::Scratch;

/// The effect of an executed call.
#[derive(Debug, Default)]
pub struct Effect {
    /// What it returned. `None` if any success is as good.
    result: Option<i64>,
    /// Differences of the data that it returned in memory: expected and actual.
    differences: Vec<(String, String)>,
}

/// Why a call was not executed.
#[derive(Debug)]
pub enum Failure {
    /// The kernel refused it.
    Refused(Errno),
    /// It was left out, for this reason.
    Skipped(&'static str),
    /// The call waited for data that did not come.
    Stalled,
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Self::Refused(error)
    }
}

/// The result of executing one call.
type Done = Result<Effect, Failure>;

/// The result of comparing one call with the trace.
#[derive(Debug)]
pub enum Verdict {
    /// It did what the trace says.
    Same,
    /// It did not: expected and actual.
    Different(Vec<(String, String)>),
    /// It was left out, for this reason.
    Skipped(&'static str),
}

/// Executes the calls of one worker.
#[derive(Debug)]
pub struct Executor<'run> {
    places: Places<'run>,
    verify: Verify,
    /// The most bytes that one call may reserve.
    allocation_limit: u64,
    /// Tells whether the replay still makes progress.
    pulse: &'run Pulse,
    scratch: Scratch,
}

impl Effect {
    /// A success with this result.
    fn returned(result: i64) -> Self {
        Self { result: Some(result), differences: Vec::new() }
    }

    /// Any success.
    fn success() -> Self {
        Self::default()
    }
}

impl<'run> Executor<'run> {
    /// Makes an executor for calls below a root.
    pub fn new(
        root: &'run Root,
        verify: Verify,
        allocation_limit: u64,
        pulse: &'run Pulse,
    ) -> Self {
        Self {
            places: Places::new(root),
            verify,
            allocation_limit,
            pulse,
            scratch: Scratch::default(),
        }
    }

    /// Executes a call and compares it with the trace.
    pub fn run(&mut self, task: &Task) -> Verdict {
        if matches!(task.action, Action::Order) {
            return Verdict::Same;
        }
        if let Some(identity) = &task.identity
            && let Err(error) = self.places.become_user(identity)
        {
            return Verdict::Different(vec![(
                String::from("the user's rights"),
                format!("cannot take them on: {error}"),
            )]);
        }
        let done = self.perform(&task.call, &task.action);
        self.judge(&task.call, done)
    }

    fn judge(&self, call: &TracedCall, done: Done) -> Verdict {
        let expected =
            if call.failed() { Err(call.result.unsigned_abs() as i32) } else { Ok(call.result) };
        let effect = match done {
            Err(Failure::Skipped(reason)) => return Verdict::Skipped(reason),
            Err(Failure::Stalled) => Err(String::from("waited for data that do not come")),
            Err(Failure::Refused(error)) if expected == Err(error.raw_os_error()) => {
                return Verdict::Same;
            }
            Err(Failure::Refused(error)) => Err(describe_errno(error.raw_os_error())),
            Ok(effect) => Ok(effect),
        };
        if self.verify == Verify::None {
            return Verdict::Same;
        }
        let expected_text = || expected.map_or_else(describe_errno, |result| result.to_string());
        match effect {
            Err(actual) => Verdict::Different(vec![(expected_text(), actual)]),
            Ok(effect) => {
                let differs = expected.map_or(true, |expected| {
                    effect.result.is_some_and(|actual| actual != expected)
                });
                let mut differences = effect.differences;
                if differs {
                    let actual = effect
                        .result
                        .map_or_else(|| String::from("success"), |actual| actual.to_string());
                    differences.insert(0, (expected_text(), actual));
                }
                if differences.is_empty() { Verdict::Same } else { Verdict::Different(differences) }
            }
        }
    }

    fn perform(&mut self, call: &TracedCall, action: &Action) -> Done {
        match action {
            Action::Order => Ok(Effect::success()),
            Action::Open { place, flags, mode, handle } => {
                self.open(call, place, *flags, *mode, handle)
            }
            Action::OpenAtStart { place, flags, offset, handle } => {
                self.open_at_start(place, *flags, *offset, handle)
            }
            // Dropping the last reference to an open file closes it.
            Action::Close(_) => Ok(Effect::success()),
            Action::Pipe { reader, writer, flags } => self.pipe(reader, writer, *flags),
            Action::Read { handle, offset, requested, buffers } => {
                self.read(call, handle, *offset, *requested, *buffers)
            }
            Action::Write { handle, offset, requested, data, flags } => {
                self.write(call, handle, *offset, *requested, *data, *flags)
            }
            Action::ReadPipe { handle, requested, buffers } => {
                self.read_pipe(call, handle, *requested, *buffers)
            }
            Action::WritePipe { handle, data } => self.write_pipe(call, handle, *data),
            Action::Transfer { how, from, to, from_offset, to_offset, requested } => {
                let requested = if call.failed() { *requested } else { call.result.unsigned_abs() };
                self.transfer(call, *how, (from, *from_offset), (to, *to_offset), requested)
            }
            Action::Clone { from, to, range } => self.clone_blocks(from, to, *range),
            Action::Seek { .. }
            | Action::Resize { .. }
            | Action::Truncate { .. }
            | Action::Allocate { .. }
            | Action::Sync { .. }
            | Action::Advise { .. }
            | Action::GetFlags { .. }
            | Action::SetFlags { .. } => self.adjust(call, action),
            Action::MakeDirectory { .. }
            | Action::MakeNode { .. }
            | Action::MakeSymlink { .. }
            | Action::Link { .. }
            | Action::Remove { .. }
            | Action::Rename { .. } => self.places.name(action),
            _ => self.object(call, action),
        }
    }

    /// Whether the data that calls return in memory are compared.
    fn compares_buffers(&self) -> bool {
        self.verify == Verify::Full
    }
}

/// The file of a handle. Fails if the call that should have opened it failed in the replay.
fn file_of(handle: &Handle) -> Result<std::os::fd::BorrowedFd<'_>, Failure> {
    handle.file().ok_or(Failure::Skipped("calls on files that could not be opened here"))
}

/// The name of an error, such as `ENOENT`, or its number if it has no name.
fn describe_errno(errno: i32) -> String {
    u16::try_from(errno)
        .ok()
        .and_then(retake_model::errno::name)
        .map_or_else(|| format!("error {errno}"), str::to_owned)
}
