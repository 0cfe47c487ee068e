//! The replayed process under ptrace: its threads, its memory and its traps, but not what they
//! mean.
//!
//! Two traps are always in the runtime's text: where a thread returns to the program after it was
//! asked to pause, and where the runtime announces what is about to happen. Children of vfork live
//! in this process's memory until they execute a program. They are traced too, because they run
//! into the same traps, but they are not reported.

mod apart;
mod control;
mod happened;
mod probes;
mod stopping;

pub use stopping::has_raised_signal;

use crate::closed::ClosedText;
use crate::memory::{Memory, TRAP};
use crate::probe::Why;
use crate::runtime::in_runtime;
use retake_kernel::context::{self, Context};
use retake_kernel::ptrace::{self, Registers, Status};
use retake_kernel::shared::{self, Slot};
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::mem::offset_of;
use std::time::{Duration, Instant};

/// The addresses of the permanent traps in the runtime's text, and the bytes under them.
const IN_RUNTIME: [(u64, u8); 2] = [(context::PAUSE, 0x90), (context::DEBUG_EVENT, 0x90)];
const SIGNALS_OF_INSTRUCTIONS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
/// How long to spin for the next event before sleeping. Most events come within this time.
const EAGER: Duration = Duration::from_micros(200);
/// The longest time that a killed process takes to end, unless the machine is in trouble.
const LONGEST_END: Duration = Duration::from_secs(5);
/// How long a child of vfork gets for what it can do without the other threads, even on a busy
/// machine.
const GUEST_PATIENCE: Duration = Duration::from_millis(50);
/// The longest time that an interrupted thread takes to stop, unless the machine is in trouble.
const LONGEST_STOP: Duration = Duration::from_secs(5);
const LONGEST_NAP: Duration = Duration::from_millis(4);

/// What a thread did, if the layer above must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// The thread stands at a planted trap.
    Planted { tid: i32, address: u64 },
    /// The thread was asked to pause, and did on its way back to the program.
    Paused { tid: i32 },
    /// The runtime announces an event: `context::EVENT_*` and its value.
    Announced { tid: i32, kind: u64, value: u64 },
    /// The thread executed one instruction. `watch` has the bits of the watchpoints hit.
    Stepped { tid: i32, watch: u64 },
    /// The thread hit watchpoints.
    Watched { tid: i32, watch: u64 },
    /// The thread stepped to an instruction that the runtime handles with this signal.
    Emulates { tid: i32, signal: i32 },
    /// An instruction raised this signal, which was not delivered: see [`Process::reports_faults`].
    Faulted { signal: i32 },
    /// The thread has ended.
    Ended,
    /// The whole process has ended.
    Gone(Status),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// Stopped, with the status if that has not been handled yet.
    Stopped(Option<Status>),
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    state: State,
    /// Whether it was resumed for one instruction.
    stepping: bool,
    /// A signal that is delivered when it is resumed.
    signal: i32,
}

/// The process and all its threads.
#[derive(Debug)]
pub struct Process {
    /// The ID of the process and of its first thread.
    pub pid: i32,
    /// Its memory, with our traps.
    pub memory: Memory,
    threads: Vec<Thread>,
    guests: HashSet<i32>,
    /// Children with memory of their own, to be let go at their first stop.
    strangers: HashSet<i32>,
    /// Children that have stopped before their creator's event told which kind they are.
    unclaimed: HashSet<i32>,
    /// Why a probe stopped, if the last [`Happened::Planted`] was at one.
    pub stopped_at_probe: Option<Why>,
    /// Whether the process is dying, so that it gets all signals.
    pub dying: bool,
    /// Whether signals of instructions are reported instead of delivered.
    pub reports_faults: bool,
    /// Set if it runs beside another process.
    apart: Option<apart::Apart>,
    /// Text whose first execution is to be noted.
    pub closed: Option<ClosedText>,
}

impl Process {
    /// Attaches to a process with one thread, which waits in the runtime.
    ///
    /// # Errors
    /// The machine forbids it.
    pub fn attach(pid: i32) -> io::Result<Self> {
        ptrace::seize(pid)?;
        ptrace::interrupt(pid)?;
        while ptrace::wait(pid)? != Status::Event(libc::PTRACE_EVENT_STOP) {
            ptrace::resume(pid, 0)?;
        }
        let process = Self::of_stopped(pid)?;
        for (address, _) in IN_RUNTIME {
            process.memory.write(address, &[TRAP])?;
        }
        Ok(process)
    }

    /// Returns a traced process whose only thread is stopped.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of_stopped(pid: i32) -> io::Result<Self> {
        let memory = Memory::of(pid)?;
        let first = Thread { tid: pid, state: State::Stopped(None), stepping: false, signal: 0 };
        Ok(Self {
            pid,
            memory,
            threads: vec![first],
            guests: HashSet::new(),
            strangers: HashSet::new(),
            unclaimed: HashSet::new(),
            stopped_at_probe: None,
            dying: false,
            reports_faults: false,
            apart: None,
            closed: None,
        })
    }

    /// The kernel's IDs of the threads that are not running. In a stopped process, these are all
    /// threads that can be examined.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().filter(|thread| thread.state != State::Running).map(|thread| thread.tid)
    }

    /// Whether no thread runs or waits for a child in its memory.
    pub fn is_stopped(&self) -> bool {
        self.threads.iter().all(|thread| thread.state != State::Running)
    }

    /// Adds a thread that is traced and stopped.
    pub fn adopt(&mut self, tid: i32) {
        self.threads.push(Thread { tid, state: State::Stopped(None), stepping: false, signal: 0 });
    }

    /// Whether a stopped thread has something to report.
    pub fn has_news(&self) -> bool {
        self.threads.iter().any(|thread| matches!(thread.state, State::Stopped(Some(_))))
    }

    fn thread(&mut self, tid: i32) -> io::Result<&mut Thread> {
        self.threads
            .iter_mut()
            .find(|thread| thread.tid == tid)
            .ok_or_else(|| io::Error::other(format!("there is no thread {tid}")))
    }

    /// Kills the process, wherever it is.
    pub fn end(&mut self) {
        for &pid in self.guests.iter().chain(&self.unclaimed).chain([&self.pid]) {
            retake_kernel::process::kill(pid, libc::SIGKILL);
        }
        // The kernel reports the first thread's end after all others' ends were read.
        let since = Instant::now();
        while since.elapsed() < LONGEST_END {
            match self.poll() {
                Some((tid, Status::Exited(_) | Status::Killed(_))) if tid == self.pid => break,
                // Even a killed thread stops once more, to report its exit.
                Some((tid, _)) => {
                    let _ = ptrace::resume(tid, 0);
                }
                // Its end was reported before.
                None if retake_kernel::process::state(self.pid).is_none() => break,
                None => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        self.threads.clear();
    }

    /// Detaches from all threads, which are stopped, as if they had never been traced.
    ///
    /// # Errors
    /// A thread cannot be detached.
    pub fn let_all_go(&mut self) -> io::Result<()> {
        self.memory.remove_probes();
        self.memory.plant(&BTreeSet::new());
        for (address, original) in IN_RUNTIME {
            self.memory.write(address, &[original])?;
        }
        // The first thread may have ended, and wait for the process's end.
        let all: BTreeSet<i32> = self.threads().chain([self.pid]).collect();
        self.threads.clear();
        all.into_iter().try_for_each(|tid| control::gone_is_fine(ptrace::detach(tid)))
    }

    // ---- registers ----

    /// The actual registers of a stopped thread.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn registers(&self, tid: i32) -> io::Result<Registers> {
        ptrace::registers(tid)
    }

    /// The runtime's context of a thread; `None` before it has one.
    pub fn context(&self, tid: i32) -> Option<Context> {
        let registers = ptrace::registers(tid).ok()?;
        in_runtime(registers.gs_base)
            .then(|| Context::read(self.pid, registers.gs_base).ok())
            .flatten()
    }

    /// Whether a thread has begun: the runtime has given it an ID of its own. A thread whose
    /// recorded process ended before the thread began has no such ID; it counts as begun once its
    /// stream has ended.
    pub fn is_born(&self, tid: i32) -> bool {
        let Some(context) = self.context(tid) else { return false };
        let word = |offset: usize| {
            let mut bytes = [0; 4];
            let at = context.slot.wrapping_add(offset as u64);
            (self.memory.read(at, &mut bytes) == bytes.len()).then(|| u32::from_le_bytes(bytes))
        };
        let is_its_own = word(offset_of!(Slot, tid)) == Some(tid as u32);
        is_its_own
            && (context.tid != 0 || word(offset_of!(Slot, state)) == Some(shared::SLOT_EXITED))
    }

    /// Asks a thread to pause on its way back to the program once it has consumed `events`; `None`
    /// cancels that.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn pause_after(&self, tid: i32, events: Option<u64>) -> io::Result<()> {
        let registers = ptrace::registers(tid)?;
        if !in_runtime(registers.gs_base) {
            return Ok(());
        }
        let value = events.map_or(0, |events| events.saturating_add(1));
        self.memory.write(registers.gs_base + context::PAUSE_AT, &value.to_le_bytes())
    }

    /// Moves a paused thread out of the runtime, to where it was going in the program.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn leave_runtime(&self, tid: i32) -> io::Result<()> {
        let registers = ptrace::registers(tid)?;
        let context = Context::read(self.pid, registers.gs_base)?;
        ptrace::set_registers(tid, &context.program_registers(&registers))
    }
}
