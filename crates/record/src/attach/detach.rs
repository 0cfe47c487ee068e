//! Lets recorded processes go: they go on as if they had never been recorded.
//!
//! First everything is stopped at one moment. There the recording ends, as if all had been killed.
//! Then each thread leaves where the kernel can take over: in the program's own code, or in a call
//! that the kernel can make again. A thread that is elsewhere in the runtime goes on until it comes
//! to such a place.

use super::freeze::{self, Frozen, Stop};
use super::inject;
use crate::deadline::live_processes;
use crate::shared_state::Recorder;
use retake_contract::context::GOES_ON_TURN;
use retake_contract::header::{ATTACH_END, ATTACH_LEAVE};
use retake_kernel::context::{self, Context};
use retake_kernel::maps::{self, Mapping};
use retake_kernel::ptrace::{self, Registers, Sequences};
use retake_kernel::shared::{
    FORCE_PLACES, HEADER_ADDRESS, Header, REGION_CONTEXT, REGION_STRIDE, REGIONS,
};
use retake_kernel::{memory, process, shared};
use retake_model::table::number;
use retake_snapshot::in_runtime;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// How long a thread runs on before it is looked at again.
const NAP: Duration = Duration::from_micros(500);
/// How long a thread that is being made may take to come to itself.
const LONGEST_BIRTH: Duration = Duration::from_millis(100);
/// How long a process may take to execute a program.
const LONGEST_EXEC: Duration = Duration::from_secs(10);
/// A thread that logs an event is done with it soon.
const LONGEST_EVENT: Duration = Duration::from_secs(2);
/// A thread that does not come to a place where it can be let go is told about, after this time.
const LONGEST_WAY: Duration = Duration::from_secs(5);
const CALL: [u8; 2] = [0x0f, 0x05];
const TRAP_FLAG: u64 = 0x100;

/// What each thread had registered before it was recorded.
pub(super) type Before = BTreeMap<i32, Sequences>;

/// Ends the recording of all processes, and lets go those that have executed no program since.
/// Returns the names of the others, which need the runtime until they end.
///
/// # Errors
/// The recording cannot be written, or a process cannot be let go.
pub(super) fn detach(recorder: &Recorder, before: &Before) -> io::Result<Vec<String>> {
    recorder.is_letting_go.store(true, Release);
    let mut known = BTreeSet::new();
    let mut frozen = stop_all(recorder, &mut known)?;
    end_streams(recorder)?;
    let mut staying = Vec::new();
    // A thread that is in the runtime may make a process before it leaves.
    while !frozen.is_empty() {
        let mut leaving = Vec::new();
        for process in frozen {
            let pid = process.pid;
            if has_own_images(&maps::of_process(pid)?) {
                staying.push(format!("{} ({pid})", process::name(pid)));
                process.release();
                continue;
            }
            recorder.let_go(pid);
            leaving.push(Leaving::new(process)?);
        }
        leave(recorder, before, leaving)?;
        frozen = stop_all(recorder, &mut known)?;
    }
    Ok(staying)
}

/// Stops all processes that are not known yet.
fn stop_all(recorder: &Recorder, known: &mut BTreeSet<i32>) -> io::Result<Vec<Frozen>> {
    let header = recorder.header();
    let (mut frozen, begun) = (Vec::new(), Instant::now());
    loop {
        let new: Vec<i32> =
            live_processes(header).into_iter().filter(|pid| known.insert(*pid)).collect();
        for pid in &new {
            frozen.extend(stop_one(recorder, *pid)?);
        }
        // A process that has just been made says soon who it is. It may not have been made yet.
        let is_unborn = |slot: &shared::Slot| {
            slot.state.load(Acquire) == shared::SLOT_CLAIMED && slot.pid.load(Relaxed) == 0
        };
        let waits = header.used_slots().iter().any(is_unborn) && begun.elapsed() < LONGEST_BIRTH;
        if new.is_empty() && !waits {
            return Ok(frozen);
        }
        std::thread::sleep(NAP);
    }
}

/// Stops a process; `None` if it has ended. One that executes a program, or is in its parent's
/// memory until it does, does so first: another thread of ours traces it meanwhile.
fn stop_one(recorder: &Recorder, pid: i32) -> io::Result<Option<Frozen>> {
    let is_executing = |slot: &shared::Slot| {
        slot.pid.load(Relaxed) as i32 == pid
            && slot.state.load(Acquire) == shared::SLOT_LIVE
            && (slot.exec_pending.load(Acquire) != 0 || slot.memory_of.load(Acquire) != 0)
    };
    let since = Instant::now();
    loop {
        let stopped = Frozen::stop(pid, &(0..0));
        if process::is_gone(pid) {
            return Ok(None);
        }
        let is_over = since.elapsed() > LONGEST_EXEC;
        match stopped {
            // It needs some time.
            Ok(stopped) if !is_over && recorder.header().used_slots().iter().any(is_executing) => {
                stopped.release();
                std::thread::sleep(10 * NAP);
            }
            Ok(stopped) => return Ok(Some(stopped)),
            Err(error) if is_over => return Err(error),
            Err(_) => {}
        }
        std::thread::sleep(NAP);
    }
}

/// Ends all streams where their threads stand. A thread that has not begun has a stream, too: its
/// parent may have logged that it made it.
fn end_streams(recorder: &Recorder) -> io::Result<()> {
    // A claimed slot may have the number of a stream that another slot is about to declare.
    let is_claimed =
        |index: &usize| recorder.header().slots[*index].state.load(Acquire) == shared::SLOT_CLAIMED;
    let (claimed, others): (Vec<usize>, Vec<usize>) =
        (0..recorder.slot_count()).partition(is_claimed);
    for index in others.into_iter().chain(claimed) {
        let slot = &recorder.header().slots[index];
        let since = Instant::now();
        loop {
            let state = slot.state.load(Acquire);
            let is_over = match state {
                shared::SLOT_CLAIMED => recorder.cut(index).or_else(unless_unnamed)?,
                shared::SLOT_LIVE | shared::SLOT_DYING => recorder.cut(index)?,
                shared::SLOT_EXITED => recorder.drain_slot(index).map(|_| true)?,
                _ => true,
            };
            if is_over {
                break;
            }
            go_on_a_little(slot.tid.load(Relaxed) as i32, since)?;
        }
    }
    recorder.end_recording();
    Ok(())
}

/// A slot whose claimer has not given it a new stream still has the number of an older one. No
/// event tells of a new one.
fn unless_unnamed(error: retake_recording::Error) -> retake_recording::Result<bool> {
    if matches!(error, retake_recording::Error::DuplicateStream { .. }) {
        Ok(true)
    } else {
        Err(error)
    }
}

/// Lets a stopped thread that is about to log an event do so.
fn go_on_a_little(tid: i32, since: Instant) -> io::Result<()> {
    if since.elapsed() > LONGEST_EVENT {
        return Err(io::Error::other(format!("thread {tid} does not end its event")));
    }
    ptrace::resume(tid, 0)?;
    std::thread::sleep(NAP);
    ptrace::interrupt(tid)?;
    freeze::await_stop(tid, since, false).map(drop)
}

/// Whether text of the process is patched. It then cannot do without the runtime.
fn has_own_images(mappings: &[Mapping]) -> bool {
    mappings
        .iter()
        .any(|one| one.executable && one.name.starts_with("/SYSV") && !in_runtime(one.start))
}

/// A process whose threads leave one after the other.
struct Leaving {
    pid: i32,
    vdso: Range<u64>,
    /// The threads that are stopped and have left.
    left: BTreeMap<i32, Left>,
    /// The threads that are stopped, and have not left.
    stopped: Vec<(i32, Stop)>,
}

/// Lets all threads of these processes leave. A thread of one may wait for a turn that a thread of
/// another has.
fn leave(recorder: &Recorder, before: &Before, mut all: Vec<Leaving>) -> io::Result<()> {
    let since = Instant::now();
    let mut was_told = false;
    loop {
        for one in &mut all {
            for (tid, stop) in std::mem::take(&mut one.stopped) {
                one.look_at(tid, stop, recorder)?;
            }
        }
        let (gone, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| one.others().is_empty());
        gone.into_iter().try_for_each(|one| one.end(recorder, before))?;
        let Some(first) = rest.first() else { return Ok(()) };
        if !was_told && since.elapsed() > LONGEST_WAY {
            was_told = true;
            retake_kernel::tell!(
                "retake: waiting until {} threads of process {} can go on unrecorded",
                first.others().len(),
                first.pid
            );
        }
        all = rest;
        std::thread::sleep(NAP);
        all.iter_mut().try_for_each(Leaving::stop)?;
    }
}

/// How a thread goes on.
struct Left {
    registers: Registers,
    mask: u64,
    region: u64,
}

/// Where a thread waits in the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    No,
    /// It goes back to its code when it has its turn.
    ForTurn,
    /// It has not executed its program yet.
    AtExec,
}

impl Leaving {
    fn new(frozen: Frozen) -> io::Result<Self> {
        let pid = frozen.pid;
        let stopped = frozen.threads.iter().map(|thread| (thread.tid, Stop::Interrupted)).collect();
        frozen.forget();
        let vdso = inject::vdso_of(&maps::of_process(pid)?)?;
        Ok(Self { pid, vdso, left: BTreeMap::new(), stopped })
    }

    /// The threads that have not left.
    fn others(&self) -> Vec<i32> {
        process::threads(self.pid).filter(|tid| !self.left.contains_key(tid)).collect()
    }

    /// Stops threads that run.
    fn stop(&mut self) -> io::Result<()> {
        for tid in self.others() {
            // A thread that was made meanwhile is not ours yet.
            let _ = ptrace::seize_gently(tid);
            if ptrace::interrupt(tid).is_err() {
                continue; // it has ended
            }
            match freeze::await_stop(tid, Instant::now(), true) {
                Ok(Stop::Gone) | Err(_) => {}
                Ok(stop) => self.stopped.push((tid, stop)),
            }
        }
        Ok(())
    }

    /// Lets a stopped thread leave if it can, or run on.
    fn look_at(&mut self, tid: i32, stop: Stop, recorder: &Recorder) -> io::Result<()> {
        let Ok(registers) = ptrace::registers(tid) else { return Ok(()) };
        // A thread without a context has not begun yet.
        let found = self.context_of(tid)?;
        let in_code = match &found {
            Some(_) if stop == Stop::AtCall => Some(in_program(before_call(registers))),
            Some((region, context)) => {
                let rest = self.rest(recorder, *region, context)?;
                in_code(self.pid, &registers, context, rest)
            }
            None => None,
        };
        // The vDSO's code is about to be what it was before.
        let in_code = in_code.filter(|registers| !self.vdso.contains(&registers.rip));
        let (Some(registers), Some((region, context))) = (in_code, found) else {
            return ptrace::resume(tid, if stop == Stop::AtCall { libc::SIGSYS } else { 0 });
        };
        ptrace::set_signal_mask(tid, inject::HELD_BACK)?;
        inject::step(tid, region, [ATTACH_LEAVE, 0, region])?;
        self.left.insert(tid, Left { registers, mask: context.signal_mask, region });
        Ok(())
    }

    /// How a thread goes back to its code that has done nothing yet but wait: for its turn, or for
    /// the supervisor to attend to its exec.
    fn rest(&self, recorder: &Recorder, region: u64, context: &Context) -> io::Result<Rest> {
        let at = REGIONS + region * REGION_STRIDE + REGION_CONTEXT + context::GOES_ON;
        let goes_on =
            u32::from_le_bytes(memory::read_vec(self.pid, at, 4)?.try_into().unwrap_or_default());
        let offset = context.slot.checked_sub(HEADER_ADDRESS + offset_of!(Header, slots) as u64);
        let index = offset.map(|offset| offset as usize / size_of::<shared::Slot>());
        let Some(slot) = index.and_then(|index| recorder.header().slots.get(index)) else {
            return Ok(Rest::No);
        };
        let has_no_turn =
            matches!(slot.baton.state.load(Acquire), shared::BATON_WAITING | shared::BATON_STOPPED);
        Ok(match goes_on {
            _ if slot.exec_pending.load(Acquire) != 0 => Rest::AtExec,
            GOES_ON_TURN if has_no_turn => Rest::ForTurn,
            _ => Rest::No,
        })
    }

    /// A thread's region, and its context.
    fn context_of(&self, tid: i32) -> io::Result<Option<(u64, Context)>> {
        let mappings = maps::of_process(self.pid)?.into_iter();
        let regions = mappings
            .filter(|one| one.start >= REGIONS && one.end <= FORCE_PLACES && one.inode == 0)
            .flat_map(|one| (one.start..one.end).step_by(REGION_STRIDE as usize));
        for start in regions {
            let context = Context::read(self.pid, start + REGION_CONTEXT)?;
            if context.tid == tid as u32 && context.slot != 0 {
                return Ok(Some(((start - REGIONS) / REGION_STRIDE, context)));
            }
        }
        Ok(None)
    }

    /// All threads have left: takes the runtime out of the process, and lets it go on. It may have
    /// ended before.
    fn end(self, recorder: &Recorder, before: &Before) -> io::Result<()> {
        let Some((&last, of_last)) = self.left.iter().next() else { return Ok(()) };
        inject::step(last, of_last.region, [ATTACH_END, 0, of_last.region])?;
        let threads: Vec<(i32, Sequences)> = self
            .left
            .keys()
            .map(|&tid| (tid, before.get(&tid).copied().unwrap_or_default()))
            .collect();
        inject::take_out(recorder, self.pid, self.vdso.start, &threads)?;
        for (tid, left) in self.left {
            ptrace::set_registers(tid, &left.registers)?;
            ptrace::set_signal_mask(tid, left.mask)?;
            ptrace::detach(tid)?;
        }
        Ok(())
    }
}

/// The registers with which a stopped thread can go on in its code, if it can.
fn in_code(pid: i32, registers: &Registers, context: &Context, rest: Rest) -> Option<Registers> {
    // The runtime executes the program's instructions one by one.
    if registers.eflags & TRAP_FLAG != 0 {
        return None;
    }
    if !in_runtime(registers.rip) {
        return Some(in_program(freeze::as_in_code(*registers)));
    }
    let own = context.program_registers(registers);
    if rest == Rest::ForTurn {
        return Some(in_program(own));
    }
    // The runtime gives sigsuspend another mask.
    let is_first_own =
        registers.rdi == own.rdi || registers.orig_rax == u64::from(number::RT_SIGSUSPEND);
    let is_own_call = registers.orig_rax == own.rax && registers.rsi == own.rsi && is_first_own;
    let waits_in_call = freeze::is_made_again(registers) && (rest == Rest::AtExec || is_own_call);
    let own = before_call(own);
    let is_call = || memory::read_vec(pid, own.rip, CALL.len()).is_ok_and(|bytes| bytes == CALL);
    (waits_in_call && is_call()).then(|| in_program(own))
}

/// The kernel has not made the call, and has changed no other register.
fn before_call(registers: Registers) -> Registers {
    Registers { rip: registers.rip.wrapping_sub(CALL.len() as u64), ..registers }
}

/// Outside the runtime, a thread has no %gs, and the kernel restarts nothing.
fn in_program(registers: Registers) -> Registers {
    Registers { gs_base: 0, gs: 0, orig_rax: u64::MAX, ..registers }
}
