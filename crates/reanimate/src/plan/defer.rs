//! Conflicting calls that overlapped: their results tell which came first.
//!
//! Two threads make the same directory at the same time. One call succeeds, the other fails because
//! the directory exists. By their times, either may have come first. A call whose result
//! contradicts what is known of its path is held back until a call that it overlapped explains it,
//! or until no such call is left.
//!
//! A read that got an end of data from a pipe took effect when the pipe had no writers. It is held
//! back until its return. If another call opens the pipe for writing while it has no writers, the
//! read came before that call.

use std::rc::Rc;

use libc as sys;
use retake_trace_format::{TraceRecord, TracedCall};

use super::Planner;
use crate::access::Ticket;
use crate::action::Task;
use crate::calls::{Arguments, Opening};
use crate::overlap::{is_end, opens_to_write};
use crate::sequence::times;
use crate::world::{FifoUses, Found, Resolution, Turn};

/// The most calls that are held back. Each thread has at most one in flight, so that only
/// impossible times exceed this.
const MAXIMUM_HELD: usize = 256;

/// The most data of a call that is held back, in bytes: paths, and the output of `stat`.
const MAXIMUM_HELD_BYTES: usize = 64 << 10;

/// The state of a name before a call, by the call's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Present,
    Absent,
}

impl Planner {
    /// Plans a record now, or later if other calls have to explain it first.
    pub fn plan(&mut self, record: TraceRecord, out: &mut Vec<(u32, Task)>) {
        let (entered_ns, effect_ns) = times(&record).unwrap_or_default();
        let thread = match &record {
            TraceRecord::Call(call) => Some(call.thread),
            _ => None,
        };
        let is_small = record.data_bytes() <= MAXIMUM_HELD_BYTES;
        // An end of data is placed at its return. Other held calls can only be explained by calls
        // that they overlapped.
        let is_due = |held: &TracedCall| {
            held.returned_ns <= if is_end(held) { effect_ns } else { entered_ns }
        };
        while let Some(index) =
            self.held.iter().position(|held| is_due(held) || Some(held.thread) == thread)
        {
            self.plan_held(index, out);
        }
        match record {
            TraceRecord::Call(call)
                if is_small
                    && self.processes.threads.are_several()
                    && self.held.len() < MAXIMUM_HELD
                    && self.has_to_wait(&call) =>
            {
                self.held.push(call);
                return;
            }
            record => self.plan_next(record, out),
        }
        while let Some(index) = self.held.iter().position(|held| !self.has_to_wait(held)) {
            self.plan_held(index, out);
        }
    }

    /// Plans a record, after held reads with an end of data that it would make impossible.
    fn plan_next(&mut self, record: TraceRecord, out: &mut Vec<(u32, Task)>) {
        while let TraceRecord::Call(call) = &record
            && let Some(index) = self.end_before(call)
        {
            self.plan_held(index, out);
        }
        self.plan_now(record, out);
    }

    /// Plans all held calls, at the end of the trace.
    pub fn finish(&mut self, out: &mut Vec<(u32, Task)>) {
        while !self.held.is_empty() {
            self.plan_held(0, out);
        }
    }

    fn plan_held(&mut self, index: usize, out: &mut Vec<(u32, Task)>) {
        let call = self.held.remove(index);
        self.plan_next(TraceRecord::Call(call), out);
    }

    fn has_to_wait(&self, call: &TracedCall) -> bool {
        is_end(call) || self.contradicts(call)
    }

    /// The held read that got an end of data from the pipe that this call opens for writing. There
    /// is none while the pipe has other writers: the end of data comes later then.
    fn end_before(&self, call: &TracedCall) -> Option<usize> {
        if self.held.is_empty() || !opens_to_write(call) {
            return None;
        }
        let opening = Opening::of(call)?;
        let follows = opening.flags & sys::O_NOFOLLOW as u32 == 0;
        let Resolution::Spot(spot) =
            self.look_up(call, opening.directory, opening.path, follows)?
        else {
            return None;
        };
        let fifo = spot.node()?.borrow().fifo.clone()?;
        if fifo.open_writers.get() > 0 {
            return None;
        }
        self.held.iter().position(|held| is_end(held) && self.reads_from(held, &fifo))
    }

    /// Whether the first argument of a call is a descriptor of this pipe.
    fn reads_from(&self, call: &TracedCall, fifo: &Rc<FifoUses>) -> bool {
        self.processes.threads.get(call.thread).is_some_and(|thread| {
            let descriptors = thread.descriptors.borrow();
            let slot = descriptors.get(Arguments(call).descriptor(0));
            slot.and_then(|slot| slot.description.fifo.get())
                .is_some_and(|uses| Rc::ptr_eq(uses, fifo))
        })
    }

    /// Resolves a path of a call by what is known so far.
    fn look_up(
        &self,
        call: &TracedCall,
        directory: Option<usize>,
        path: u8,
        follows: bool,
    ) -> Option<Resolution> {
        let thread = self
            .processes
            .threads
            .get(call.thread)
            .or_else(|| self.processes.threads.of_process(call.process))?;
        let arguments = Arguments(call);
        let path = arguments.text(path)?;
        let mut base = thread.surroundings.borrow().base.clone();
        let number = directory.map_or(sys::AT_FDCWD, |index| arguments.descriptor(index));
        if number != sys::AT_FDCWD && path.first() != Some(&b'/') {
            let descriptors = thread.descriptors.borrow();
            match descriptors.get(number).map(|slot| &slot.description.opened) {
                Some(crate::tasks::Opened::Node(node)) => base.current = node.clone(),
                _ => return None,
            }
        }
        let mut turn = Turn::new(Ticket::NOBODY);
        Some(self.files.world.resolve(&base, path, follows, &mut turn))
    }

    /// Whether the result of a call contradicts what is known of its path.
    fn contradicts(&self, call: &TracedCall) -> bool {
        let Some((directory, path, says)) = claim(call) else {
            return false;
        };
        match self.look_up(call, directory, path, follows(call)) {
            None | Some(Resolution::Simulated(_)) => false,
            Some(Resolution::Broken) => !call.failed(),
            Some(Resolution::Spot(spot)) => match spot.found {
                Found::Node(_) => says == Says::Absent && spot.is_plain(),
                Found::Absent => says == Says::Present,
                // An overlapping call may make the name. Otherwise, it existed before the trace.
                Found::Unknown => call.failed() && says == Says::Present,
            },
        }
    }
}

/// What a call says about a name: the index of the directory argument, the index of the path
/// argument, and whether the name existed.
fn claim(call: &TracedCall) -> Option<(Option<usize>, u8, Says)> {
    let number = i64::from(call.number);
    let (directory, path, makes) = match number {
        sys::SYS_mkdir | sys::SYS_mknod => (None, 0, true),
        sys::SYS_mkdirat | sys::SYS_mknodat => (Some(0), 1, true),
        sys::SYS_symlink | sys::SYS_link => (None, 1, true),
        sys::SYS_symlinkat => (Some(1), 2, true),
        sys::SYS_linkat => (Some(2), 3, true),
        sys::SYS_unlink
        | sys::SYS_rmdir
        | sys::SYS_rename
        | sys::SYS_stat
        | sys::SYS_lstat
        | sys::SYS_access
        | sys::SYS_chdir => (None, 0, false),
        sys::SYS_unlinkat
        | sys::SYS_renameat
        | sys::SYS_renameat2
        | sys::SYS_newfstatat
        | sys::SYS_statx
        | sys::SYS_faccessat
        | sys::SYS_faccessat2 => (Some(0), 1, false),
        sys::SYS_open => (None, 0, open_makes(call.arguments[1])?),
        sys::SYS_openat => (Some(0), 1, open_makes(call.arguments[2])?),
        _ => return None,
    };
    let says = match (call.errno().map(|errno| errno as i32), makes) {
        (None, true) => Says::Absent,
        (None, false) | (Some(sys::EEXIST), true) => Says::Present,
        (Some(sys::ENOENT), false) => Says::Absent,
        _ => return None,
    };
    Some((directory, path, says))
}

/// Whether an open makes the file. `None` if it also takes an existing one.
fn open_makes(flags: u64) -> Option<bool> {
    let creates = flags & sys::O_CREAT as u64 != 0;
    let is_exclusive = flags & sys::O_EXCL as u64 != 0;
    (creates == is_exclusive).then_some(creates)
}

fn follows(call: &TracedCall) -> bool {
    matches!(
        i64::from(call.number),
        sys::SYS_stat
            | sys::SYS_access
            | sys::SYS_chdir
            | sys::SYS_faccessat
            | sys::SYS_faccessat2
            | sys::SYS_open
            | sys::SYS_openat
    )
}
