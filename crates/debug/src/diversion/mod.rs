//! A diversion: a throw-away copy of the process in which its user changes registers and memory and
//! calls functions. The time line of the recording stays as it is, and the program goes on from
//! there.
//!
//! The copy begins with the first change and lasts until the program goes on. One of the program's
//! threads runs at a time, the one that was resumed. It never enters the runtime and so consumes
//! nothing of the log. `calls` answers its system calls.

mod calls;
mod changes;
mod execution;

pub(crate) use changes::Changes;

use crate::error::Result;
use crate::inferior::Inferior;
use retake_kernel::ptrace::{self, Registers, Status};
use retake_kernel::shared::Header;
use retake_kernel::{maps, process};
use retake_snapshot::Process;
use retake_snapshot::remote;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

const MAP_FIXED_PRIVATE_ANONYMOUS: u64 = 0x32;
const NO_DESCRIPTOR: u64 = u64::MAX;
/// The size of the pieces in which shared memory is copied.
const PIECE_BYTES: u64 = 1 << 20;

/// The processor's answer to one CPUID question.
#[derive(Debug, Clone, Copy)]
struct CpuidAnswer {
    question: (u32, u32),
    registers: [u32; 4],
}

/// A thread with registers of the diversion's own.
#[derive(Debug, Clone)]
struct Body {
    /// The program's ID of the thread.
    thread: u32,
    registers: Registers,
    extended: Vec<u8>,
    /// Its program counter on the time line.
    start: u64,
}

/// The copy. Its process is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Diversion {
    process: Process,
    bodies: Vec<Body>,
    /// What the program wrote to its terminal here, with our remarks.
    console: String,
    /// Calls that were refused, and reported as such.
    refused: BTreeSet<u64>,
    cpuid: Vec<CpuidAnswer>,
    /// Whether the called function cannot go on.
    is_stuck: bool,
}

impl Drop for Diversion {
    fn drop(&mut self) {
        process::kill(self.process.pid, libc::SIGKILL);
        while ptrace::wait(self.process.pid)
            .is_ok_and(|status| !matches!(status, Status::Exited(_) | Status::Killed(_)))
        {}
    }
}

impl Diversion {
    /// Copies a stopped process.
    ///
    /// # Errors
    /// The process cannot be copied, for example for lack of memory.
    fn begin(inferior: &mut Inferior, header: &Header) -> Result<Self> {
        inferior.process.memory.forget_probes(inferior.current)?;
        inferior.process.memory.plant(&BTreeSet::new());
        let pid = remote::fork(inferior.current)?;
        let mut process = Process::of_stopped(pid)?;
        process.reports_faults = true;
        let cpuid = cpuid_of(header);
        let this = Self {
            process,
            bodies: Vec::new(),
            console: String::new(),
            refused: BTreeSet::new(),
            cpuid,
            is_stuck: false,
        };
        remote::intercept_calls(pid)?;
        this.own_shared_memory()?;
        Ok(this)
    }

    /// Gives the copy its own copy of memory that it shares with other processes.
    fn own_shared_memory(&self) -> io::Result<()> {
        let pid = self.process.pid;
        let is_shared = |one: &&maps::Mapping| {
            one.shared && one.writable && !retake_snapshot::in_runtime(one.start)
        };
        for mapping in maps::of_process(pid)?.iter().filter(is_shared) {
            let mut pieces = Vec::new();
            for address in (mapping.start..mapping.end).step_by(PIECE_BYTES as usize) {
                let mut bytes = vec![0; PIECE_BYTES.min(mapping.end - address) as usize];
                let count = self.process.memory.read(address, &mut bytes);
                bytes.truncate(count);
                pieces.push((address, bytes));
            }
            let protection = u64::from(mapping.protection());
            let arguments = [
                mapping.start,
                mapping.end - mapping.start,
                protection,
                MAP_FIXED_PRIVATE_ANONYMOUS,
                NO_DESCRIPTOR,
            ];
            remote::call(pid, libc::SYS_mmap, arguments)?;
            pieces
                .iter()
                .try_for_each(|(address, bytes)| self.process.memory.write(*address, bytes))?;
        }
        Ok(())
    }

    fn body(&self, thread: u32) -> Option<&Body> {
        self.bodies.iter().find(|body| body.thread == thread)
    }

    /// The thread that is not where it is on the time line, because a function of the program was
    /// called. It is the one to run.
    fn called(&self) -> Option<u32> {
        let body = self.bodies.iter().find(|body| body.registers.rip != body.start)?;
        (!self.is_stuck).then_some(body.thread)
    }

    fn set_registers(&mut self, thread: u32, registers: Registers, extended: Vec<u8>) {
        if let Some(body) = self.bodies.iter_mut().find(|body| body.thread == thread) {
            (body.registers, body.extended) = (registers, extended);
        }
    }
}

fn cpuid_of(header: &Header) -> Vec<CpuidAnswer> {
    let count = header.cpuid_count.load(Relaxed) as usize;
    let answer = |entry: &retake_kernel::shared::CpuidEntry| CpuidAnswer {
        question: (entry.leaf.load(Relaxed), entry.subleaf.load(Relaxed)),
        registers: [&entry.eax, &entry.ebx, &entry.ecx, &entry.edx]
            .map(|register| register.load(Relaxed)),
    };
    header.cpuid.iter().take(count).map(answer).collect()
}
