//! A diversion: a throw-away copy of the process, in which its user changes registers and memory
//! and calls functions. The recording's time line stays as it is, and the program goes on from
//! there.
//!
//! The copy begins with the first change and lasts until the program goes on. Of the program's
//! threads one runs at a time, the one that was resumed; it never enters the runtime, so it
//! consumes nothing of the log: `calls` answers its system calls.

mod calls;
mod changes;
mod execution;

pub(crate) use changes::Changes;

use crate::error::Result;
use crate::inferior::Inferior;
use retake_kernel::ptrace::{self, Registers, Status};
use retake_kernel::shared::{Header, RUNTIME_TEXT};
use retake_kernel::{maps, process};
use retake_snapshot::Process;
use retake_snapshot::remote;
use retake_supervisor::runtime_image;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

const MAP_FIXED_PRIVATE_ANONYMOUS: u64 = 0x32;
const NO_DESCRIPTOR: u64 = u64::MAX;
/// Larger shared memory is copied piece by piece.
const PIECE_BYTES: u64 = 1 << 20;

/// What a processor says of itself to one question.
#[derive(Debug, Clone, Copy)]
struct CpuidAnswer {
    question: (u32, u32),
    registers: [u32; 4],
}

/// A thread whose registers are the diversion's own.
#[derive(Debug, Clone)]
struct Body {
    /// The program's number.
    thread: u32,
    registers: Registers,
    extended: Vec<u8>,
    /// Where it is on the time line.
    start: u64,
}

/// The copy. Its process ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Diversion {
    process: Process,
    bodies: Vec<Body>,
    /// What the program wrote to its terminal here, and what there is to say about it.
    console: String,
    /// Calls that were not made, and of which that was said.
    refused: BTreeSet<u64>,
    cpuid: Vec<CpuidAnswer>,
    /// It cannot go on.
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
    /// No process, no memory.
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
        remote::intercept_calls(pid, RUNTIME_TEXT, runtime_image::text().len() as u64)?;
        this.own_shared_memory()?;
        Ok(this)
    }

    /// What other processes share becomes a copy too.
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

    /// The thread that is somewhere else than on the time line, because a function of the program
    /// was called: it is what is to run.
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
