//! Copies of the process at one moment, from which it can go on again and again.
//!
//! A copy is a child that never runs: one thread, stopped, with all of the memory. What the kernel keeps of the other threads is kept here;
//! they are made anew when the copy is revived. Their log cursors are private memory, so they go on reading where they were; the header's slots
//! are shared, and their contents are kept here too. Not kept: memory shared with other processes.

use crate::process::{Process, in_runtime};
use crate::remote;
use retake_kernel::context::Context;
use retake_kernel::ptrace::{self, Registers, Status};
use retake_kernel::shared::{self, Header, RUNTIME_TEXT, Slot};
use retake_kernel::{maps, process};
use retake_supervisor::runtime_image;
use std::io;
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// Between two looks whether threads wait for their turn, at first and at most. To look is to stop them: with naps that stay short, a thread on a busy
/// machine never comes to execute anything.
pub(crate) const NAPS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(50));
/// Offsets in a thread's region of the runtime: from its context to its signal stack, and to the end of a stack that is hardly ever used up.
const SIGNAL_STACK: u64 = 0x40000;
const SIGNAL_STACK_BYTES: u64 = 0x10000;
const SCRATCH: u64 = 0x10000;

/// What the kernel and the header keep of a thread.
#[derive(Debug, Clone)]
struct Thread {
    registers: Registers,
    extended: Vec<u8>,
    mask: u64,
    slot: SlotState,
}

/// The part of a slot that changes while its thread lives.
#[derive(Debug, Clone, Copy)]
struct SlotState {
    index: usize,
    state: u32,
    stream: u32,
    baton_state: u32,
    event_count: u64,
    recorded: (u32, u32),
}

impl SlotState {
    fn of(header: &Header, index: usize) -> Self {
        let slot = &header.slots[index];
        Self {
            index,
            state: slot.state.load(Acquire),
            stream: slot.stream.load(Relaxed),
            baton_state: slot.lines.baton_state.load(Relaxed),
            event_count: slot.lines.event_count.load(Relaxed),
            recorded: (slot.lines.recorded_pid.load(Relaxed), slot.lines.recorded_tid.load(Relaxed)),
        }
    }

    fn put_back(&self, header: &Header, pid: i32, tid: i32) {
        let slot = &header.slots[self.index];
        slot.stream.store(self.stream, Relaxed);
        slot.pid.store(pid as u32, Relaxed);
        slot.tid.store(tid as u32, Relaxed);
        slot.lines.baton_state.store(self.baton_state, Relaxed);
        slot.lines.event_count.store(self.event_count, Relaxed);
        slot.lines.recorded_pid.store(self.recorded.0, Relaxed);
        slot.lines.recorded_tid.store(self.recorded.1, Relaxed);
        slot.state.store(self.state, Release);
    }
}

/// A copy. Its process ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The process that never runs.
    pub pid: i32,
    /// The thread that the stop was about comes first.
    threads: Vec<Thread>,
    turns: SharedTurns,
}

/// The count of turns that lies in the header: that of a process which mapped memory shared. Where nobody else ever sees that memory the process can be
/// copied, and nobody else takes these turns. `None`: others do, or may.
#[derive(Debug)]
struct SharedTurns(Option<u64>);

impl SharedTurns {
    fn of(header: &Header) -> Self {
        let is_alone = header.options.load(Relaxed) & shared::OPTION_ALONE != 0;
        Self(is_alone.then(|| header.shared_domain.completed.load(Acquire)))
    }

    fn put_back(&self, header: &Header) {
        if let Some(completed) = self.0 {
            header.shared_domain.completed.store(completed, Release);
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        process::kill(self.pid, libc::SIGKILL);
        while ptrace::wait(self.pid).is_ok_and(|status| !matches!(status, Status::Exited(_) | Status::Killed(_))) {}
    }
}

impl Snapshot {
    /// Copies a stopped process. `None` if that cannot be done here: it shares memory, or a thread is busy for longer than `patience`, or has news.
    ///
    /// # Errors
    /// No process, no memory.
    pub fn take(process: &mut Process, header: &Header, current: i32, patience: Duration) -> io::Result<Option<Self>> {
        if shares_memory(process)? || !quiesce(process, header, current, patience)? {
            return Ok(None);
        }
        process.forget_probes(current)?;
        process.plant(&Default::default());
        let mut threads = Vec::new();
        let others: Vec<i32> = process.threads().filter(|tid| *tid != current).collect();
        for tid in [current].into_iter().chain(others) {
            let Some(slot) = slot_of(process, tid) else { return Ok(None) };
            threads.push(Thread {
                registers: restartable(ptrace::registers(tid)?),
                extended: ptrace::extended_state(tid)?,
                mask: ptrace::signal_mask(tid)?,
                slot: SlotState::of(header, slot),
            });
        }
        Ok(Some(Self { pid: remote::fork(current)?, threads, turns: SharedTurns::of(header) }))
    }

    /// The extended registers of the thread that the stop was about.
    pub fn extended(&self) -> &[u8] {
        &self.threads[0].extended
    }

    /// A process that goes on from here, in place of `live`, which ends. Also: the thread that the stop was about.
    ///
    /// # Errors
    /// No process, no memory.
    pub fn revive(&self, header: &Header, live: &mut Process) -> io::Result<(Process, i32)> {
        let old = live.pid;
        live.end();
        let pid = remote::fork(self.pid)?;
        let mut process = Process::of_stopped(pid)?;
        let text_bytes = runtime_image::text().len() as u64;
        remote::intercept_calls(pid, RUNTIME_TEXT, text_bytes)?;
        let mut tids = vec![pid];
        for saved in &self.threads[1..] {
            let tid = remote::thread(pid)?;
            process.adopt(tid);
            remote::intercept_calls(tid, RUNTIME_TEXT, text_bytes)?;
            saved.give_signal_stack(&process, tid)?;
            tids.push(tid);
        }
        for (saved, &tid) in self.threads.iter().zip(&tids) {
            saved.put_back(tid)?;
        }
        self.put_slots_back(header, old, pid, &tids);
        self.turns.put_back(header);
        Ok((process, pid))
    }

    /// A process that goes on from here beside the live one. It has only the thread that the stop was about, and must not come to an event.
    ///
    /// # Errors
    /// No process, no memory.
    pub fn revive_apart(&self) -> io::Result<Process> {
        let pid = remote::fork(self.pid)?;
        let mut process = Process::of_stopped(pid)?;
        remote::intercept_calls(pid, RUNTIME_TEXT, runtime_image::text().len() as u64)?;
        self.threads[0].put_back(pid)?;
        process.set_apart();
        Ok(process)
    }

    fn put_slots_back(&self, header: &Header, old: i32, pid: i32, tids: &[i32]) {
        let kept = |index: usize| self.threads.iter().any(|thread| thread.slot.index == index);
        for (index, slot) in header.used_slots().iter().enumerate() {
            let used = matches!(slot.state.load(Acquire), shared::SLOT_CLAIMED | shared::SLOT_LIVE | shared::SLOT_EXITED);
            if used && slot.pid.load(Relaxed) as i32 == old && !kept(index) {
                slot.pid.store(0, Relaxed);
                shared::push_ready(header, index);
            }
        }
        // Ready are also those of threads that there were not yet where the process was in the meantime.
        let indices: Vec<usize> = self.threads.iter().map(|thread| thread.slot.index).collect();
        shared::withdraw_ready(header, &indices);
        for (thread, &tid) in self.threads.iter().zip(tids) {
            thread.slot.put_back(header, pid, tid);
        }
    }
}

impl Thread {
    fn put_back(&self, tid: i32) -> io::Result<()> {
        ptrace::set_extended_state(tid, &self.extended)?;
        ptrace::set_signal_mask(tid, self.mask)?;
        ptrace::set_registers(tid, &self.registers)
    }

    fn give_signal_stack(&self, process: &Process, tid: i32) -> io::Result<()> {
        let context = self.registers.gs_base;
        let description: Vec<u8> = [context + SIGNAL_STACK, 0, SIGNAL_STACK_BYTES].iter().flat_map(|word| word.to_le_bytes()).collect();
        process.write(context + SCRATCH, &description)?;
        remote::set_signal_stack(tid, context + SCRATCH)
    }
}

/// As if an interrupted system call had not begun: it is made again. (Where it already goes on as `restart_syscall`, that will find nothing to
/// restart, which ends the wait; whoever waits looks again.)
fn restartable(registers: Registers) -> Registers {
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    let none = u64::MAX;
    if registers.orig_rax != none && RESTARTS.contains(&(registers.rax as i64)) {
        return Registers { rax: registers.orig_rax, rip: registers.rip - 2, orig_rax: none, ..registers };
    }
    Registers { orig_rax: none, ..registers }
}

/// The place of a thread's slot in the header.
pub(crate) fn slot_of(process: &Process, tid: i32) -> Option<usize> {
    let first = shared::HEADER_ADDRESS + offset_of!(Header, slots) as u64;
    let offset = process.context(tid)?.slot.checked_sub(first)?;
    let index = (offset / size_of::<Slot>() as u64) as usize;
    (index < shared::MAX_SLOTS).then_some(index)
}

/// What a copy writes to shared memory, the original would see.
pub(crate) fn shares_memory(process: &Process) -> io::Result<bool> {
    let is_programs = |start: u64| !in_runtime(start) && !process.is_probe_page(start);
    Ok(maps::of_process(process.pid)?.iter().any(|mapping| mapping.shared && mapping.writable && is_programs(mapping.start)))
}

/// Brings all threads but the current one to where they wait for their turn.
fn quiesce(process: &mut Process, header: &Header, current: i32, patience: Duration) -> io::Result<bool> {
    let since = Instant::now();
    let (mut nap, longest) = NAPS;
    loop {
        if process.has_news() {
            return Ok(false);
        }
        let others: Vec<i32> = process.threads().filter(|tid| *tid != current).collect();
        let busy: Vec<i32> = others.into_iter().filter(|tid| !waits_for_turn(process, header, *tid)).collect();
        if busy.is_empty() && process.is_stopped() {
            return Ok(true);
        }
        if since.elapsed() > patience {
            return Ok(false);
        }
        for tid in busy {
            process.resume(tid)?;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(longest);
        process.stop_all()?;
    }
}

fn waits_for_turn(process: &Process, header: &Header, tid: i32) -> bool {
    let (Ok(registers), Some(slot)) = (process.registers(tid), slot_of(process, tid)) else { return false };
    let is_born = process.context(tid).is_some_and(|context: Context| context.tid != 0);
    let slot = &header.slots[slot];
    let is_its_own = slot.tid.load(Relaxed) as i32 == tid;
    // Once interrupted, a wait with a timeout goes on as another call.
    let calls = [libc::SYS_futex as u64, libc::SYS_restart_syscall as u64];
    let in_futex = in_runtime(registers.rip) && (calls.contains(&registers.orig_rax) || waits_next(process, &registers));
    // Those whose stream has ended wait for the process to end.
    let waits = slot.lines.baton_state.load(Relaxed) == shared::BATON_WAITING || slot.state.load(Acquire) == shared::SLOT_EXITED;
    is_born && is_its_own && in_futex && waits && slot.lines.reply.load(Relaxed) != 0
}

/// Whether a thread that was made anew, and has not run since, is about to make the call in which it waited.
fn waits_next(process: &Process, registers: &Registers) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let mut code = [0; 2];
    registers.orig_rax == u64::MAX && registers.rax == libc::SYS_futex as u64 && process.read(registers.rip, &mut code) == 2 && code == SYSCALL
}
