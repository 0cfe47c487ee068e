//! Brings the runtime into a process whose threads are all stopped.

use super::freeze::{Frozen, Thread};
use crate::shared_state::Recorder;
use retake_contract::header::{
    ATTACH_END, ATTACH_GO, ATTACH_KEPT_BACK, ATTACH_LEAVE, ATTACH_PROCESS, ATTACH_THREAD,
};
use retake_kernel::context;
use retake_kernel::maps::Mapping;
use retake_kernel::memory;
use retake_kernel::ptrace::{self, Sequences};
use retake_kernel::shared::{
    HEADER_ADDRESS, REGION_CONTEXT, REGION_STACK_TOP, REGION_STRIDE, REGIONS, RUNTIME_DATA,
    RUNTIME_END, RUNTIME_TEXT,
};
use retake_model::table::number;
use retake_snapshot::remote::{self, checked};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// `syscall; int3`
const CALL_AND_TRAP: [u8; 3] = [0x0f, 0x05, 0xcc];
const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const PRIVATE_AT: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
const READ_EXECUTE_SEGMENT: u64 = 0o110_000;
const NO_DESCRIPTOR: u64 = u64::MAX;
const DATA_BYTES: u64 = 0x10000;
/// Only the signals of faults and traps may reach a thread meanwhile.
pub(super) const HELD_BACK: u64 = !(1 << (libc::SIGSEGV - 1)
    | 1 << (libc::SIGBUS - 1)
    | 1 << (libc::SIGTRAP - 1)
    | 1 << (libc::SIGFPE - 1)
    | 1 << (libc::SIGILL - 1));

/// Where the slots of the threads are, in their order.
pub(super) type Slots = Vec<usize>;

/// Memory that a process keeps from its children, and the advice that says so.
pub(super) struct KeptBack {
    pub range: Range<u64>,
    pub advice: i32,
}

/// Where the vDSO is.
pub(super) fn vdso_of(mappings: &[Mapping]) -> io::Result<Range<u64>> {
    let found = mappings.iter().find(|mapping| mapping.name == "[vdso]");
    let range = found.map(|mapping| mapping.start..mapping.end);
    range.ok_or_else(|| io::Error::other("the program has no vDSO"))
}

/// Maps the runtime, and lets each thread prepare itself. `shares`: `SHARES_*`.
///
/// # Errors
/// The kernel refuses memory, or the process is gone.
pub(super) fn prepare(
    recorder: &Recorder,
    frozen: &Frozen,
    slots: &Slots,
    shares: u64,
    vdso: u64,
    kept_back: &[KeptBack],
) -> io::Result<()> {
    for thread in &frozen.threads {
        ptrace::set_signal_mask(thread.tid, HELD_BACK)?;
    }
    map_runtime(recorder, frozen.pid, vdso)?;
    let mut prepared = 0;
    let result = prepare_threads(recorder, frozen, slots, shares, vdso, &mut prepared)
        .and_then(|()| kept_back.iter().try_for_each(|one| tell_kept_back(frozen.pid, one)));
    if result.is_err() {
        // The process is as before, if it still lives.
        let _ = undo(recorder, frozen, prepared, vdso);
    }
    result
}

/// Takes the runtime out of the process again. So many threads have prepared themselves.
pub(super) fn undo(
    recorder: &Recorder,
    frozen: &Frozen,
    prepared: u64,
    vdso: u64,
) -> io::Result<()> {
    for (region, thread) in (0..prepared).zip(&frozen.threads) {
        step(thread.tid, region, [ATTACH_LEAVE, 0, region])?;
    }
    if prepared > 0 {
        step(frozen.pid, 0, [ATTACH_END, 0, 0])?;
    }
    let all = frozen.threads.iter().map(|thread| (thread.tid, thread.sequences));
    take_out(recorder, frozen.pid, vdso, &all.collect::<Vec<_>>())
}

/// Unmaps the runtime, which no thread of the stopped process needs any more, and gives each thread
/// what it had registered.
pub(super) fn take_out(
    recorder: &Recorder,
    pid: i32,
    vdso: u64,
    threads: &[(i32, Sequences)],
) -> io::Result<()> {
    let Some((own, offset)) =
        recorder.session.vdso().and_then(|own| Some((own, own.bootstrap_offset()?)))
    else {
        return Ok(()); // recording has never begun
    };
    let place = vdso + offset;
    let vdso_bytes = own.for_unrecorded();
    memory::write_protected(pid, vdso, &vdso_bytes)?;
    memory::write_protected(pid, place, &CALL_AND_TRAP)?;
    if let Some((tid, _)) = threads.first() {
        let range = [RUNTIME_TEXT, RUNTIME_END - RUNTIME_TEXT];
        checked(remote::call_at(*tid, place, libc::SYS_munmap, range)?.0)?;
    }
    for (tid, sequences) in threads {
        begin_sequences(*tid, place, sequences)?;
        // A signal to stop the thread may still be on its way. It is lost here.
        remote::call_at(*tid, place, libc::SYS_getpid, [])?;
    }
    memory::write_protected(pid, vdso, &vdso_bytes)
}

fn prepare_threads(
    recorder: &Recorder,
    frozen: &Frozen,
    slots: &Slots,
    shares: u64,
    vdso: u64,
    prepared: &mut u64,
) -> io::Result<()> {
    frozen.threads.iter().try_for_each(end_sequences)?;
    let header = recorder.header();
    let arguments = &header.slots[slots[0]].request.arguments;
    arguments[0].store(vdso, Relaxed);
    arguments[1].store(shares, Relaxed);
    for (region, (thread, &slot)) in (0..).zip(frozen.threads.iter().zip(slots)) {
        header.slots[slot].carried.altered_mask.store(thread.mask, Relaxed);
        let (step, argument) = match region {
            0 => (ATTACH_PROCESS, frozen.threads.len() as u64),
            _ => (ATTACH_THREAD, region),
        };
        self::step(thread.tid, region, [step, slot as u64, argument])?;
        *prepared = region + 1;
        give_registers(frozen.pid, region, thread)?;
    }
    Ok(())
}

fn tell_kept_back(pid: i32, KeptBack { range, advice }: &KeptBack) -> io::Result<()> {
    let first = range.start | *advice as u64;
    step(pid, 0, [ATTACH_KEPT_BACK, first, range.end - range.start])
}

/// Lets all threads go on: they are recorded from here on.
///
/// # Errors
/// A thread is gone.
pub(super) fn let_go(frozen: Frozen) -> io::Result<()> {
    for (region, thread) in (0..).zip(&frozen.threads) {
        remote::set_step(thread.tid, stack_of(region), [ATTACH_GO, 0, region])?;
        ptrace::detach(thread.tid)?;
    }
    frozen.forget();
    Ok(())
}

/// The program finds out which core it is on by system calls from here on.
fn end_sequences(thread: &Thread) -> io::Result<()> {
    let Sequences { address, bytes, signature, .. } = thread.sequences;
    if address == 0 {
        return Ok(());
    }
    const UNREGISTER: u64 = 1;
    let arguments = [address, bytes.into(), UNREGISTER, signature.into()];
    checked(remote::call(thread.tid, i64::from(number::RSEQ), arguments)?.0)
}

/// Registers again what a thread had registered. `place` has a `syscall` instruction and a trap.
fn begin_sequences(tid: i32, place: u64, before: &Sequences) -> io::Result<()> {
    let Sequences { address, bytes, signature, .. } = *before;
    if address != 0 {
        let arguments = [address, bytes.into(), 0, signature.into()];
        remote::call_at(tid, place, i64::from(number::RSEQ), arguments)?;
    }
    Ok(())
}

fn map_runtime(recorder: &Recorder, pid: i32, vdso: u64) -> io::Result<()> {
    let padding = recorder.session.vdso().and_then(|one| one.bootstrap_offset());
    let place =
        vdso + padding.ok_or_else(|| io::Error::other("this kernel gives programs no vDSO"))?;
    let before = memory::read_vec(pid, place, CALL_AND_TRAP.len())?;
    memory::write_protected(pid, place, &CALL_AND_TRAP)?;
    let text = [recorder.session.text_id() as u64, RUNTIME_TEXT, READ_EXECUTE_SEGMENT];
    let mapped = remote::call_at(pid, place, libc::SYS_shmat, text);
    memory::write_protected(pid, place, &before)?;
    checked(mapped?.0)?;
    for (start, bytes) in [(RUNTIME_DATA, DATA_BYTES), (REGIONS, REGION_STRIDE)] {
        let arguments = [start, bytes, READ_WRITE, PRIVATE_AT, NO_DESCRIPTOR, 0];
        checked(remote::call(pid, libc::SYS_mmap, arguments)?.0)?;
    }
    let header = [recorder.session.header_id() as u64, HEADER_ADDRESS, 0];
    checked(remote::call(pid, libc::SYS_shmat, header)?.0)
}

/// Makes a thread do a step, and stop again.
pub(super) fn step(tid: i32, region: u64, arguments: [u64; 3]) -> io::Result<()> {
    remote::step(tid, stack_of(region), arguments)
}

fn stack_of(region: u64) -> u64 {
    REGIONS + region * REGION_STRIDE + REGION_STACK_TOP
}

/// Writes the registers with which a thread goes on into its context.
fn give_registers(pid: i32, region: u64, thread: &Thread) -> io::Result<()> {
    let words = context::words_of(&thread.registers);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let at = REGIONS + region * REGION_STRIDE + REGION_CONTEXT + context::REGS;
    memory::write(pid, at, &bytes)
}
