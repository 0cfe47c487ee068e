//! The replayed process under ptrace: its threads, its memory, its traps; nothing yet of what they mean.
//!
//! Two traps are always in the runtime's text: where a thread passes on its way back to the program when it was asked to pause, and where the
//! runtime announces what is about to happen. Processes that live in this one's memory until they execute a program (children of vfork) are
//! traced too, because they run into the same traps; nobody is told about them.

use retake_kernel::context::{self, Context};
use retake_kernel::ptrace::{self, Registers, Status};
use retake_kernel::shared::{RUNTIME_END, RUNTIME_TEXT};
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const TRAP: u8 = 0xcc;
const SIGNALS_OF_INSTRUCTIONS: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
/// As long we look all the time for what happens next: most things happen at once.
const EAGER: Duration = Duration::from_micros(200);
/// A killed process does not take longer to be gone, unless the machine is in trouble.
const LONGEST_END: Duration = Duration::from_secs(5);
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// What a thread did that the layer above must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It stands at a planted trap.
    Planted { tid: i32, address: u64 },
    /// It was asked to pause on its way back to the program.
    Paused { tid: i32 },
    /// The runtime says what comes: `context::EVENT_*` and its value.
    Announced { tid: i32, kind: u64, value: u64 },
    /// It executed one instruction. `watch`: bits of the watchpoints that this set off.
    Stepped { tid: i32, watch: u64 },
    /// Watchpoints were set off.
    Watched { tid: i32, watch: u64 },
    /// It stepped into something that the runtime handles with this signal.
    Emulates { tid: i32, signal: i32 },
    /// The thread has ended.
    Ended,
    /// The whole process has.
    Gone(Status),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// With what stopped it, if nobody has looked at that yet.
    Stopped(Option<Status>),
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    state: State,
    /// It was resumed for one instruction.
    stepping: bool,
    /// A signal that it gets when it is resumed.
    signal: i32,
}

/// The process and all its threads.
#[derive(Debug)]
pub(crate) struct Process {
    pub pid: i32,
    memory: File,
    threads: Vec<Thread>,
    guests: HashSet<i32>,
    /// Children that have their own memory, to be let go as soon as they stop.
    strangers: HashSet<i32>,
    /// Address and original byte of the traps that are in memory now.
    planted: BTreeMap<u64, u8>,
    /// The process is dying: signals are its own.
    pub dying: bool,
}

impl Process {
    /// Takes hold of a process with one thread, which waits in the runtime.
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
        process.write(context::PAUSE, &[TRAP])?;
        process.write(context::DEBUG_EVENT, &[TRAP])?;
        Ok(process)
    }

    /// A traced process whose only thread is stopped.
    ///
    /// # Errors
    /// It is gone.
    pub fn of_stopped(pid: i32) -> io::Result<Self> {
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let first = Thread { tid: pid, state: State::Stopped(None), stepping: false, signal: 0 };
        let (guests, strangers) = (HashSet::new(), HashSet::new());
        Ok(Self { pid, memory, threads: vec![first], guests, strangers, planted: BTreeMap::new(), dying: false })
    }

    /// The numbers of its threads, the kernel's.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().map(|thread| thread.tid)
    }

    /// Adds a thread that is traced and stopped.
    pub fn adopt(&mut self, tid: i32) {
        self.threads.push(Thread { tid, state: State::Stopped(None), stepping: false, signal: 0 });
    }

    /// Whether a stopped thread has something to tell.
    pub fn has_news(&self) -> bool {
        self.threads.iter().any(|thread| matches!(thread.state, State::Stopped(Some(_))))
    }

    fn thread(&mut self, tid: i32) -> io::Result<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.tid == tid).ok_or_else(|| io::Error::other(format!("there is no thread {tid}")))
    }

    /// Ends it, wherever it is.
    pub fn end(&mut self) {
        for &pid in self.guests.iter().chain([&self.pid]) {
            retake_kernel::process::kill(pid, libc::SIGKILL);
        }
        // The first thread's end is told once all others' have been heard.
        let since = Instant::now();
        while since.elapsed() < LONGEST_END {
            match ptrace::poll(-1) {
                Some((tid, Status::Exited(_) | Status::Killed(_))) if tid == self.pid => break,
                Some(_) => {}
                None => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        self.threads.clear();
    }

    // ---- memory ----

    /// Reads memory as it is; returns how many bytes are there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            match self.memory.read_at(&mut bytes[done..], address.wrapping_add(done as u64)) {
                Ok(count) if count > 0 => done += count,
                _ => break,
            }
        }
        for (&at, &original) in self.planted.range(address..address.saturating_add(done as u64)) {
            bytes[(at - address) as usize] = original;
        }
        done
    }

    /// One word; `None` if it is not there.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(address, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
    }

    /// Writes memory, read-only pages included. What is under a trap stays under it.
    ///
    /// # Errors
    /// It is not there.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }

    // ---- traps ----

    /// Makes these the planted traps.
    pub fn plant(&mut self, wanted: &std::collections::BTreeSet<u64>) {
        let stale: Vec<u64> = self.planted.keys().copied().filter(|address| !wanted.contains(address)).collect();
        for address in stale {
            self.unplant(address);
        }
        for &address in wanted {
            self.plant_one(address);
        }
    }

    fn plant_one(&mut self, address: u64) {
        let mut original = [0];
        if self.planted.contains_key(&address) || self.read(address, &mut original) != 1 {
            return;
        }
        if self.write(address, &[TRAP]).is_ok() {
            self.planted.insert(address, original[0]);
        }
    }

    fn unplant(&mut self, address: u64) {
        if let Some(original) = self.planted.remove(&address) {
            // Memory that was unmapped has no trap either.
            let _ = self.write(address, &[original]);
        }
    }

    // ---- registers ----

    /// The registers of a stopped thread, wherever it is.
    ///
    /// # Errors
    /// It is gone.
    pub fn registers(&self, tid: i32) -> io::Result<Registers> {
        ptrace::registers(tid)
    }

    /// The runtime's context of a thread; `None` before it has one.
    pub fn context(&self, tid: i32) -> Option<Context> {
        let registers = ptrace::registers(tid).ok()?;
        in_runtime(registers.gs_base).then(|| Context::read(self.pid, registers.gs_base).ok()).flatten()
    }

    /// Asks a thread to pause on its way back to the program once it has consumed `events`; `None`: not at all.
    ///
    /// # Errors
    /// It is gone.
    pub fn pause_after(&self, tid: i32, events: Option<u64>) -> io::Result<()> {
        let registers = ptrace::registers(tid)?;
        if !in_runtime(registers.gs_base) {
            return Ok(());
        }
        let value = events.map_or(0, |events| events.saturating_add(1));
        self.write(registers.gs_base + context::PAUSE_AT, &value.to_le_bytes())
    }

    /// Takes a thread that paused out of the runtime: to where it was going.
    ///
    /// # Errors
    /// It is gone.
    pub fn leave_runtime(&self, tid: i32) -> io::Result<()> {
        let registers = ptrace::registers(tid)?;
        let context = Context::read(self.pid, registers.gs_base)?;
        ptrace::set_registers(tid, &context.program_registers(&registers))
    }

    // ---- running ----

    /// Lets all stopped threads run that have nothing to tell.
    ///
    /// # Errors
    /// One is gone.
    pub fn resume_all(&mut self) -> io::Result<()> {
        let ready: Vec<i32> = self.threads.iter().filter(|t| t.state == State::Stopped(None)).map(|t| t.tid).collect();
        ready.into_iter().try_for_each(|tid| self.resume(tid))
    }

    /// Lets one thread run.
    ///
    /// # Errors
    /// It is gone.
    pub fn resume(&mut self, tid: i32) -> io::Result<()> {
        let thread = self.thread(tid)?;
        let signal = std::mem::take(&mut thread.signal);
        (thread.state, thread.stepping) = (State::Running, false);
        gone_is_fine(ptrace::resume(tid, signal))
    }

    /// Lets a thread run that is about to exit. Nobody waits for what it does: for the first of a process that could be long.
    ///
    /// # Errors
    /// It cannot be resumed.
    pub fn let_exit(&mut self, tid: i32) -> io::Result<()> {
        self.resume(tid)?;
        self.threads.retain(|thread| thread.tid != tid);
        Ok(())
    }

    /// Lets one thread execute one instruction, the one under a trap if there is one.
    ///
    /// # Errors
    /// It is gone.
    pub fn step(&mut self, tid: i32) -> io::Result<()> {
        let address = self.registers(tid)?.rip;
        self.unplant(address);
        let thread = self.thread(tid)?;
        let signal = std::mem::take(&mut thread.signal);
        (thread.state, thread.stepping) = (State::Running, true);
        gone_is_fine(ptrace::step(tid, signal))
    }

    /// Stops every thread. What they have to tell is kept for [`Process::next`].
    ///
    /// # Errors
    /// Threads cannot be stopped.
    pub fn stop_all(&mut self) -> io::Result<()> {
        let running: Vec<i32> = self.threads.iter().filter(|t| t.state == State::Running).map(|t| t.tid).collect();
        for &tid in &running {
            gone_is_fine(ptrace::interrupt(tid))?;
        }
        for tid in running {
            let Ok(status) = wait_for_stop(tid) else {
                self.threads.retain(|thread| thread.tid != tid);
                continue;
            };
            if tid != self.pid && matches!(status, Status::Exited(_) | Status::Killed(_)) {
                self.threads.retain(|thread| thread.tid != tid);
                continue;
            }
            let is_ours = status == Status::Event(libc::PTRACE_EVENT_STOP);
            self.thread(tid)?.state = State::Stopped((!is_ours).then_some(status));
        }
        Ok(())
    }

    /// What happens next, of all that runs; `None` once `give_up` says so.
    ///
    /// # Errors
    /// A thread cannot be looked at or resumed.
    pub fn next(&mut self, give_up: &mut dyn FnMut() -> bool) -> io::Result<Option<Happened>> {
        let mut since = Instant::now();
        let mut nap = Duration::from_micros(20);
        loop {
            let told = self.threads.iter().find_map(|thread| match thread.state {
                State::Stopped(Some(status)) => Some((thread.tid, status)),
                _ => None,
            });
            if let Some((tid, status)) = told.or_else(|| ptrace::poll(-1)) {
                if let Some(happened) = self.happened(tid, status)? {
                    return Ok(Some(happened));
                }
                since = Instant::now();
                continue;
            }
            if give_up() {
                return Ok(None);
            }
            if since.elapsed() < EAGER {
                std::hint::spin_loop();
                continue;
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }

    /// Interprets what a thread did; `None` if it means nothing to anybody, and the thread goes on.
    fn happened(&mut self, tid: i32, status: Status) -> io::Result<Option<Happened>> {
        if self.strangers.contains(&tid) {
            return self.let_go(tid, status).map(|()| None);
        }
        if self.guests.contains(&tid) {
            return self.guest(tid, status).map(|()| None);
        }
        if tid == self.pid && matches!(status, Status::Exited(_) | Status::Killed(_)) {
            self.threads.clear();
            return Ok(Some(Happened::Gone(status)));
        }
        if !self.threads.iter().any(|thread| thread.tid == tid) {
            return self.unknown(tid, status).map(|()| None);
        }
        self.thread(tid)?.state = State::Stopped(None);
        match status {
            Status::Exited(_) | Status::Killed(_) => {
                self.threads.retain(|thread| thread.tid != tid);
                Ok(Some(Happened::Ended))
            }
            Status::Event(event) => self.event(tid, event).map(|()| None),
            Status::Signal(libc::SIGTRAP) => self.trap(tid),
            Status::Signal(signal) => self.signal(tid, signal),
        }
    }

    fn event(&mut self, tid: i32, event: i32) -> io::Result<()> {
        let child = ptrace::event_message(tid).unwrap_or(0);
        match event {
            libc::PTRACE_EVENT_CLONE if self.threads.iter().any(|thread| thread.tid == child) => {}
            libc::PTRACE_EVENT_CLONE if is_thread_of(self.pid, child) => {
                self.threads.push(Thread { tid: child, state: State::Running, stepping: false, signal: 0 });
            }
            libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => drop(self.guests.insert(child)),
            libc::PTRACE_EVENT_FORK => drop(self.strangers.insert(child)),
            // We asked for it when the thread stopped for another reason just then: what it was to do it has not done.
            libc::PTRACE_EVENT_STOP if self.thread(tid)?.stepping => return self.step(tid),
            _ => {}
        }
        self.resume(tid)
    }

    /// The first stop of what a thread has just made may come before that thread's own.
    fn unknown(&mut self, tid: i32, status: Status) -> io::Result<()> {
        if matches!(status, Status::Exited(_) | Status::Killed(_)) {
            return Ok(()); // an orphan of the tree, reaped
        }
        if is_thread_of(self.pid, tid) {
            self.threads.push(Thread { tid, state: State::Stopped(None), stepping: false, signal: 0 });
            return self.resume(tid);
        }
        // Which kind of child it is, its maker says; it stays where it is until then.
        self.wait_for_maker(tid)
    }

    fn wait_for_maker(&mut self, child: i32) -> io::Result<()> {
        let makers: Vec<i32> = self.threads.iter().filter(|t| t.state == State::Running).map(|t| t.tid).collect();
        for tid in makers {
            if let Some((tid, status)) = ptrace::poll(tid) {
                self.thread(tid)?.state = State::Stopped(Some(status));
                if let Status::Event(event) = status
                    && ptrace::event_message(tid).ok() == Some(child)
                {
                    self.event(tid, event)?;
                    self.thread(tid)?.state = State::Running;
                    break;
                }
            }
        }
        let status = Status::Event(libc::PTRACE_EVENT_STOP);
        if self.guests.contains(&child) { self.guest(child, status) } else { self.let_go(child, status) }
    }

    /// A child with a copy of this memory: it goes its own way, without our traps.
    fn let_go(&mut self, tid: i32, status: Status) -> io::Result<()> {
        self.strangers.remove(&tid);
        if matches!(status, Status::Exited(_) | Status::Killed(_)) {
            return Ok(());
        }
        let memory = OpenOptions::new().write(true).open(format!("/proc/{tid}/mem"))?;
        let fixed = [(context::PAUSE, 0x90), (context::DEBUG_EVENT, 0x90)];
        for (address, original) in self.planted.iter().map(|(a, o)| (*a, *o)).chain(fixed) {
            let _ = memory.write_all_at(&[original], address);
        }
        gone_is_fine(ptrace::detach(tid))
    }

    /// A child that lives in this memory: over our traps it is carried.
    fn guest(&mut self, tid: i32, status: Status) -> io::Result<()> {
        match status {
            Status::Exited(_) | Status::Killed(_) => {
                self.guests.remove(&tid);
                Ok(())
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => {
                self.guests.remove(&tid);
                gone_is_fine(ptrace::detach(tid))
            }
            Status::Signal(libc::SIGTRAP) => self.carry_over(tid),
            Status::Signal(signal) => gone_is_fine(ptrace::resume(tid, signal)),
            Status::Event(_) => gone_is_fine(ptrace::resume(tid, 0)),
        }
    }

    fn carry_over(&mut self, tid: i32) -> io::Result<()> {
        let mut registers = ptrace::registers(tid)?;
        let address = registers.rip.wrapping_sub(1);
        let Some(&original) = self.planted.get(&address) else {
            let signal = if in_runtime(address) { 0 } else { libc::SIGTRAP };
            return gone_is_fine(ptrace::resume(tid, signal));
        };
        registers.rip = address;
        ptrace::set_registers(tid, &registers)?;
        self.write(address, &[original])?;
        ptrace::step(tid, 0)?;
        ptrace::wait(tid)?;
        self.write(address, &[TRAP])?;
        gone_is_fine(ptrace::resume(tid, 0))
    }

    fn signal(&mut self, tid: i32, signal: i32) -> io::Result<Option<Happened>> {
        let stepping = self.thread(tid)?.stepping;
        if !self.dying && !SIGNALS_OF_INSTRUCTIONS.contains(&signal) {
            return self.resume(tid).map(|()| None); // of this session, not of the recorded one: the log has those
        }
        self.thread(tid)?.signal = signal;
        if stepping {
            return Ok(Some(Happened::Emulates { tid, signal }));
        }
        self.resume(tid).map(|()| None)
    }

    fn trap(&mut self, tid: i32) -> io::Result<Option<Happened>> {
        const HARDWARE: [i32; 2] = [2 /* TRAP_TRACE */, 4 /* TRAP_HWBKPT */];
        const STATUS: usize = 6;
        let stepping = self.thread(tid)?.stepping;
        let info = ptrace::siginfo(tid)?;
        let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
        let mut registers = ptrace::registers(tid)?;
        if HARDWARE.contains(&code) {
            let status = ptrace::debug_register(tid, STATUS)?;
            ptrace::set_debug_register(tid, STATUS, 0)?;
            let watch = status & 0xf;
            if stepping {
                return Ok(Some(Happened::Stepped { tid, watch }));
            }
            if watch != 0 {
                return Ok(Some(Happened::Watched { tid, watch }));
            }
        }
        let address = registers.rip.wrapping_sub(1);
        if address == context::PAUSE {
            return Ok(Some(Happened::Paused { tid }));
        }
        if address == context::DEBUG_EVENT {
            return Ok(Some(Happened::Announced { tid, kind: registers.rdi, value: registers.rsi }));
        }
        if self.planted.contains_key(&address) {
            registers.rip = address;
            ptrace::set_registers(tid, &registers)?;
            return Ok(Some(Happened::Planted { tid, address }));
        }
        self.signal(tid, libc::SIGTRAP)
    }
}

/// What stopped a thread that was interrupted. A signal that an instruction raised just then is heard first: whoever copies the thread would lose it,
/// and with it the instruction.
fn wait_for_stop(tid: i32) -> io::Result<Status> {
    let of_instructions = SIGNALS_OF_INSTRUCTIONS.iter().fold(0, |bits, signal| bits | 1 << (signal - 1));
    let status = ptrace::wait(tid)?;
    if status != Status::Event(libc::PTRACE_EVENT_STOP) || retake_kernel::process::pending_signals(tid) & of_instructions == 0 {
        return Ok(status);
    }
    ptrace::resume(tid, 0)?;
    ptrace::wait(tid)
}

/// Whether an address is the runtime's.
pub(crate) fn in_runtime(address: u64) -> bool {
    (RUNTIME_TEXT..RUNTIME_END).contains(&address)
}

fn is_thread_of(pid: i32, tid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

/// Between our deciding and doing a thread may have been killed; its end is told by the next wait.
fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result,
    }
}
