//! What the protocol library asks of a target: registers, memory, breakpoints and running.

use super::arch::{self, X86_64};
use super::files::Files;
use super::signals::signal;
use crate::catches::Caught;
use crate::destination::Destination;
use crate::error::{DebugError, Result};
use crate::inferior::{GiveUp, Stop};
use crate::lines::range::forward_through;
use crate::session::DebugSession;
use crate::stops::Stops;
use crate::watchpoints::Access;
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::breakpoints::{BreakpointsOps, WatchKind};
use gdbstub::target::ext::catch_syscalls::{
    CatchSyscallPosition, CatchSyscalls, CatchSyscallsOps, SyscallNumbers,
};
use gdbstub::target::{Target, TargetError, TargetResult, ext};

/// Why the program stopped, in the library's form.
pub(crate) type Reason = MultiThreadStopReason<u64>;

/// The next action that the debugger wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Continue,
    Step(Option<Tid>),
    /// Go on to the end of a range of addresses.
    Through(Tid, u64, u64),
    ReverseContinue,
    ReverseStep,
}

/// The debugged process, for the protocol library.
pub(crate) struct Remote {
    pub session: DebugSession,
    pub(super) files: Files,
    /// Where the next run goes instead of running.
    pub destination: Option<Destination>,
    /// The next run's action, and what stops it. A debugger that does not know how to go back
    /// removes its breakpoints before it goes on.
    pub turned: Option<(Wish, Stops)>,
    /// The conditions of the breakpoint that is set next.
    pub conditions: Option<Vec<Vec<u8>>>,
    wish: Wish,
    /// Whether the debugger goes back to the beginning of a line, and not by single instructions.
    pub goes_by_line: bool,
    /// The program that the process executes now or, after going back over an exec, executed
    /// before. The next stop tells the debugger.
    pub executed: Option<String>,
    /// Whether going back goes on before the exec of the program.
    pub goes_before_exec: bool,
    /// Whether a vfork was reported. The debugger then waits for the report that the child has its
    /// own memory before it sets breakpoints again.
    is_vfork_open: bool,
}

impl Remote {
    pub fn new(mut session: DebugSession) -> Self {
        // Debuggers expect this. Our script turns it off if it is not needed.
        session.replay_mut().inferior.stops.catches.forks = true;
        Self {
            session,
            files: Files::default(),
            destination: None,
            turned: None,
            conditions: None,
            wish: Wish::Continue,
            goes_by_line: false,
            executed: None,
            goes_before_exec: false,
            is_vfork_open: false,
        }
    }

    /// Performs the debugger's wish until the program stops.
    pub fn act(&mut self, give_up: &mut dyn FnMut() -> bool) -> Result<Reason> {
        if std::mem::take(&mut self.is_vfork_open) {
            return Ok(Reason::VForkDone(self.current()));
        }
        if let Some(destination) = self.destination.take() {
            self.session.changes.end();
            self.session.go_to(destination, give_up)?;
            self.session.replay_mut().console.collect()?;
            // This is the only stop reason that a debugger accepts whatever it was about to do.
            return Ok(self.reason(Stop::End));
        }
        let Some((wish, stops)) = self.turned.take() else { return self.run(give_up) };
        self.wish = wish;
        let own = self.session.inferior().stops.clone();
        self.session.replay_mut().inferior.stops = stops;
        let stopped = self.run(give_up);
        self.session.replay_mut().inferior.stops = own;
        stopped
    }

    fn run(&mut self, give_up: &mut dyn FnMut() -> bool) -> Result<Reason> {
        if let (Some(thread), Wish::Continue | Wish::Step(_) | Wish::Through(..)) =
            (self.session.changes.thread(), self.wish)
        {
            let stop = self.run_diverted(thread, give_up)?;
            return Ok(self.reason_of(stop, Tid::new(thread as usize).unwrap_or(Tid::MIN)));
        }
        self.session.changes.end();
        let mut is_asked = false;
        let give_up: GiveUp = &mut || {
            is_asked |= give_up();
            is_asked
        };
        let stop = match self.wish {
            Wish::Continue => self.session.timeline().forward(give_up)?,
            Wish::Step(thread) => {
                let tid = thread.and_then(|thread| self.kernel_tid(thread));
                self.session.travel.forward_step(tid, give_up)?
            }
            Wish::Through(thread, start, end) => {
                let tid = self.kernel_tid(thread);
                forward_through(&mut self.session.travel, tid, &(start..end), give_up)?
            }
            Wish::ReverseContinue if self.goes_by_line => {
                self.session.gone_over.backward_over_call(&mut self.session.travel, give_up)?
            }
            Wish::ReverseContinue => self.session.travel.backward(give_up)?,
            Wish::ReverseStep if self.goes_by_line => {
                self.session.gone_over.backward_in_line(&mut self.session.travel, give_up)?
            }
            Wish::ReverseStep => self.session.travel.backward_step(give_up)?,
        };
        let is_back = matches!(self.wish, Wish::ReverseContinue | Wish::ReverseStep);
        if self.goes_over_exec(stop, give_up)? {
            self.executed = Some(self.session.program_path().to_owned());
            return Ok(self.reason(Stop::Executing));
        }
        if is_back && !is_asked {
            self.session.travel.remark_no_way_back(stop)?;
        }
        self.is_vfork_open = matches!(stop, Stop::Caught(Caught::Vfork(_)));
        Ok(self.reason(stop))
    }

    /// Runs a thread of the diversion.
    fn run_diverted(&mut self, thread: u32, give_up: GiveUp) -> Result<Stop> {
        let is_step = self.wish != Wish::Continue;
        let DebugSession { changes, travel, .. } = &mut self.session;
        changes.run(&mut travel.timeline.replay.inferior, thread, is_step, give_up)
    }

    /// Takes the output for the debugger's console.
    pub fn take_console(&mut self) -> String {
        self.session.take_remarks() + &self.session.changes.take_console()
    }

    /// Goes over an exec if the program stopped at one. Returns whether it did.
    fn goes_over_exec(&mut self, stop: Stop, give_up: GiveUp) -> Result<bool> {
        let goes_back = stop == Stop::Begin
            && self.wish == Wish::ReverseContinue
            && self.goes_before_exec
            && self.session.replay().history.target.program > 0;
        if stop == Stop::Executing {
            self.session.follow_exec()?;
        } else if goes_back && self.session.travel.timeline.is_at_begin()? {
            self.session.return_before_exec(give_up)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn reason(&self, stop: Stop) -> Reason {
        self.reason_of(stop, self.current())
    }

    fn reason_of(&self, stop: Stop, tid: Tid) -> Reason {
        let log = |pos| Reason::ReplayLog { tid: Some(tid), pos };
        match stop {
            Stop::Breakpoint => Reason::SwBreak(tid),
            Stop::Watch(watchpoint) => {
                Reason::Watch { tid, kind: kind(watchpoint.access), addr: watchpoint.address }
            }
            // The connection adds what was executed.
            Stop::Step | Stop::Executing => {
                Reason::SignalWithThread { tid, signal: Signal::SIGTRAP }
            }
            Stop::Signal(number) => Reason::SignalWithThread { tid, signal: signal(number) },
            Stop::Caught(caught) => reason_of_caught(caught, tid),
            Stop::Interrupted => Reason::SignalWithThread { tid, signal: Signal::SIGINT },
            Stop::Begin => log(ReplayLogPosition::Begin),
            Stop::End => log(ReplayLogPosition::End),
            Stop::Exited(status) => Reason::Exited(status as u8),
            Stop::Killed(number) => Reason::Terminated(signal(number)),
        }
    }

    /// The program's ID of the current thread.
    fn current(&self) -> Tid {
        Tid::new(self.session.inferior().context().tid as usize).unwrap_or(Tid::MIN)
    }

    fn kernel_tid(&self, thread: Tid) -> Option<i32> {
        if thread == self.current() {
            return Some(self.session.inferior().current);
        }
        self.session.inferior().thread(u32::try_from(thread.get()).ok()?)
    }
}

/// The program's ID of a thread.
fn number(tid: Tid) -> u32 {
    u32::try_from(tid.get()).unwrap_or(0)
}

fn kind(access: Access) -> WatchKind {
    match access {
        Access::Write => WatchKind::Write,
        Access::Read => WatchKind::Read,
        Access::Both => WatchKind::ReadWrite,
    }
}

fn reason_of_caught(caught: Caught, tid: Tid) -> Reason {
    let child = |pid: u32| Tid::new(pid as usize).unwrap_or(Tid::MIN);
    let call = |number, position| Reason::CatchSyscall { tid: Some(tid), number, position };
    match caught {
        Caught::Call(number) => call(number, CatchSyscallPosition::Entry),
        Caught::Return(number) => call(number, CatchSyscallPosition::Return),
        Caught::Fork(pid) => Reason::Fork { cur_tid: tid, new_tid: child(pid) },
        Caught::Vfork(pid) => Reason::VFork { cur_tid: tid, new_tid: child(pid) },
    }
}

fn refused<T>() -> TargetResult<T, Remote> {
    Err(TargetError::NonFatal)
}

impl Target for Remote {
    type Arch = X86_64;
    type Error = DebugError;

    fn base_ops(&mut self) -> BaseOps<'_, X86_64, DebugError> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<ext::auxv::AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ext::exec_file::ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<ext::host_io::HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<ext::monitor_cmd::MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_catch_syscalls(&mut self) -> Option<CatchSyscallsOps<'_, Self>> {
        Some(self)
    }

    fn use_fork_stop_reason(&self) -> bool {
        true
    }

    fn use_vfork_stop_reason(&self) -> bool {
        true
    }

    fn use_vforkdone_stop_reason(&self) -> bool {
        true
    }
}

impl CatchSyscalls for Remote {
    fn enable_catch_syscalls(
        &mut self,
        filter: Option<SyscallNumbers<'_, u64>>,
    ) -> TargetResult<(), Self> {
        let catches = &mut self.session.replay_mut().inferior.stops.catches;
        match filter {
            Some(mut numbers) => catches.set_calls(Some(&mut numbers)),
            None => catches.set_calls(None),
        }
        Ok(())
    }

    fn disable_catch_syscalls(&mut self) -> TargetResult<(), Self> {
        self.session.replay_mut().inferior.stops.catches.clear_calls();
        Ok(())
    }
}

impl MultiThreadBase for Remote {
    fn read_registers(
        &mut self,
        registers: &mut arch::Registers,
        tid: Tid,
    ) -> TargetResult<(), Self> {
        let Ok((general, extended)) =
            self.session.changes.registers(self.session.inferior(), number(tid))
        else {
            return refused();
        };
        *registers = arch::Registers::new(&general, extended);
        Ok(())
    }

    fn write_registers(&mut self, registers: &arch::Registers, tid: Tid) -> TargetResult<(), Self> {
        let Ok((before, extended)) =
            self.session.changes.registers(self.session.inferior(), number(tid))
        else {
            return refused();
        };
        let (general, extended) = registers.for_kernel(&before, &extended);
        self.session
            .changes
            .set_registers(&mut self.session.travel.timeline.replay, number(tid), general, extended)
            .map_err(TargetError::Fatal)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _tid: Tid) -> TargetResult<usize, Self> {
        match self.session.changes.read(self.session.inferior(), start, data) {
            0 => Err(TargetError::Errno(libc::EFAULT as u8)),
            count => Ok(count),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], _tid: Tid) -> TargetResult<(), Self> {
        if self
            .session
            .changes
            .write(&mut self.session.travel.timeline.replay, start, data)
            .map_err(TargetError::Fatal)?
        {
            Ok(())
        } else {
            Err(TargetError::Errno(libc::EFAULT as u8))
        }
    }

    /// Lists the current thread first, because a debugger begins with that one.
    fn list_active_threads(&mut self, register: &mut dyn FnMut(Tid)) -> Result<()> {
        let current = self.current();
        register(current);
        let others = self
            .session
            .inferior()
            .threads()
            .into_iter()
            .filter_map(|(_, tid)| Tid::new(tid as usize));
        others.filter(|tid| *tid != current).for_each(register);
        Ok(())
    }

    fn support_thread_extra_info(
        &mut self,
    ) -> Option<ext::thread_extra_info::ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for Remote {
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<()> {
        self.wish = Wish::Continue;
        Ok(())
    }

    /// Ignores the signal: the recording determines which signals a program gets.
    fn set_resume_action_continue(&mut self, _tid: Tid, _signal: Option<Signal>) -> Result<()> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Remote {
    fn set_resume_action_step(&mut self, tid: Tid, _signal: Option<Signal>) -> Result<()> {
        self.wish = Wish::Step(Some(tid));
        Ok(())
    }
}

impl MultiThreadRangeStepping for Remote {
    fn set_resume_action_range_step(&mut self, tid: Tid, start: u64, end: u64) -> Result<()> {
        self.wish = Wish::Through(tid, start, end);
        Ok(())
    }
}

/// The recording determines when each thread runs. A debugger that wants only one to run gets what
/// happened.
impl MultiThreadSchedulerLocking for Remote {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<()> {
        Ok(())
    }
}

impl ReverseCont<Tid> for Remote {
    fn reverse_cont(&mut self) -> Result<()> {
        self.wish = Wish::ReverseContinue;
        Ok(())
    }
}

impl ReverseStep<Tid> for Remote {
    fn reverse_step(&mut self, _tid: Tid) -> Result<()> {
        self.wish = Wish::ReverseStep;
        Ok(())
    }
}
