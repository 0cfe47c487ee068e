//! The exec stop: the one moment in which the supervisor stops a recorded process. The supervisor
//! describes the address space in the process's stream, writes nine bytes of bootstrap code into
//! the padding of its vDSO, and lets it go for good.

use crate::exec_event::{ExecEvent, stamped, start_event};
use crate::shared_state::Recorder;
use retake_kernel::maps::{self, Mapping};
use retake_kernel::shared::{self, Header};
use retake_kernel::tracee::{self, Attached, Event, Stopped};
use retake_kernel::{memory, process, resource};
use retake_model::event::NO_PARENT;
use retake_patch::Placement;
use retake_supervisor::runtime;
use retake_supervisor::vdso::Vdso;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// mov $30 (shmat), %eax; syscall; jmp *%rbx
const BOOTSTRAP: [u8; 9] = [0xb8, 0x1e, 0, 0, 0, 0x0f, 0x05, 0xff, 0xe3];
const SHM_RDONLY_EXEC: u64 = 0o110_000;

/// The result of [`attend`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attended {
    Executed,
    NotExecuted,
    /// The process ended with this wait status. The status has been consumed, so no other wait
    /// returns it.
    Ended(i32),
}

/// Follows an attached thread through its exec.
pub(crate) fn attend(recorder: &Recorder, slot: usize, attached: Attached) -> Attended {
    let shared_slot = &recorder.header().slots[slot];
    let mut attached = attached;
    loop {
        let next = match attached.wait() {
            Event::Gone(status) => return status.map_or(Attended::NotExecuted, Attended::Ended),
            Event::Exec(stopped) => {
                recorder.counters.stops.fetch_add(1, Relaxed);
                recorder.counters.execs.fetch_add(1, Relaxed);
                let tid = stopped.tid();
                let Err(error) = inject(recorder, slot, stopped) else {
                    return Attended::Executed;
                };
                // A process that was killed meanwhile needs no message.
                if error.raw_os_error() != Some(libc::ESRCH) && process::has_memory(tid) {
                    retake_kernel::tell!(
                        "retake: cannot record the program that process {tid} executed: {error}"
                    );
                }
                return end(tid);
            }
            Event::GroupStop(stopped) => (stopped.tid(), stopped.listen()),
            Event::Signal(stopped, number) => {
                recorder.counters.stops.fetch_add(1, Relaxed);
                let tid = stopped.tid();
                if number == libc::SIGSYS
                    && shared_slot.exec_pending.load(Acquire) == shared::REQUEST_EXEC_FAILED
                {
                    return if stopped.detach().is_ok() { Attended::NotExecuted } else { end(tid) };
                }
                (tid, stopped.resume(number))
            }
        };
        match next {
            (_, Ok(again)) => attached = again,
            // The tracee was killed meanwhile.
            (tid, Err(_)) => return end(tid),
        }
    }
}

/// Kills a tracee that cannot be let go, and reaps it. The kernel tells a waiting parent about the
/// death only after the tracer has reaped the tracee.
fn end(tid: i32) -> Attended {
    process::kill(tid, libc::SIGKILL);
    tracee::end_of(tid).map_or(Attended::NotExecuted, Attended::Ended)
}

fn inject(recorder: &Recorder, slot: usize, stopped: Stopped) -> io::Result<()> {
    let pid = stopped.tid();
    let mut registers = stopped.registers()?;
    let mappings = maps::of_process(pid)?;
    let shared_slot = &recorder.header().slots[slot];
    // A thread that was about to end the process marked this one as dying, but the exec came first.
    let _ =
        shared_slot.state.compare_exchange(shared::SLOT_DYING, shared::SLOT_LIVE, AcqRel, Acquire);
    recorder.siblings_died(slot, pid);
    recorder.release_baton(slot);
    shared_slot.pid.store(pid as u32, Relaxed);
    shared_slot.tid.store(pid as u32, Release);
    let user = process::effective_user(pid)?;
    recorder.session.give_to(user);
    recorder.files.give_to(user);
    recorder.pools.give_all_to(user);
    let mut event = ExecEvent::new(
        &registers,
        break_start(pid).unwrap_or(0),
        resource::stack_limit(pid),
        shared_slot,
    );
    let first = add_mappings(recorder, pid, &mappings, &registers, &mut event)?;
    let mut bytes = Vec::new();
    if shared_slot.parent_stream.load(Relaxed) == NO_PARENT && recorder.first_exec() {
        bytes.extend(stamped(start_event(pid), recorder.header(), shared_slot));
        shared_slot.event_count.fetch_add(1, Relaxed);
    }
    shared_slot.event_count.fetch_add(1, Relaxed);
    bytes.extend(stamped(event.encode(), recorder.header(), shared_slot));
    bytes.extend(recorder.log.at_exec(pid));
    recorder.append_in_ring(slot, &bytes)?;
    let ((program, program_bias), (interpreter, interpreter_bias)) =
        (first.program, first.interpreter);
    let arguments = [
        program,
        program_bias,
        interpreter,
        interpreter_bias,
        first.vdso,
        u64::from(first.unknown_calls),
    ];
    for (argument, value) in shared_slot.request.arguments.iter().zip(arguments) {
        argument.store(value, Relaxed);
    }
    let bootstrap_offset =
        recorder.session.vdso().and_then(Vdso::bootstrap_offset).filter(|_| first.vdso != 0);
    let at = first.vdso
        + bootstrap_offset.ok_or_else(|| io::Error::other("this kernel gives programs no vDSO"))?;
    stopped.write(at, &BOOTSTRAP)?;
    registers.r12 = recorder.session.header_id() as u64;
    registers.r13 = slot as u64;
    registers.r14 = registers.rip;
    registers.rbx = runtime::START_RECORD;
    registers.rdi = recorder.session.text_id() as u64;
    registers.rsi = shared::RUNTIME_TEXT;
    registers.rdx = SHM_RDONLY_EXEC;
    registers.rip = at;
    stopped.set_registers(&registers)?;
    stopped.detach()
}

/// What the runtime must know about the first mappings: the address of the vDSO, and for program
/// and interpreter the index in the header's file list plus one and the load bias.
#[derive(Default)]
struct First {
    program: (u64, u64),
    interpreter: (u64, u64),
    vdso: u64,
    /// Whether some text may make system calls at sites that are not patched.
    unknown_calls: bool,
}

fn add_mappings(
    recorder: &Recorder,
    pid: i32,
    mappings: &[Mapping],
    registers: &libc::user_regs_struct,
    event: &mut ExecEvent,
) -> io::Result<First> {
    let mut first = First {
        unknown_calls: !recorder.session.vdso().is_some_and(Vdso::is_covered),
        ..First::default()
    };
    let program = Program::of(pid)?;
    let mut indices: Vec<((u64, u64), usize)> = Vec::new();
    for mapping in mappings {
        if mapping.inode == 0 {
            add_anonymous(recorder, pid, mapping, registers, &mut first, event)?;
            continue;
        }
        let identity = (mapping.device, mapping.inode);
        let index = match indices.iter().find(|(known, _)| *known == identity) {
            Some((_, index)) => *index,
            None => {
                let is_program = identity == program.identity()
                    || mapping.start <= registers.rip && mapping.name.is_empty();
                let index = if is_program {
                    program.index(recorder, mapping, mappings)?
                } else {
                    interpreter_index(recorder, pid, mapping)?
                };
                first.note(recorder.header(), index, mapping, is_program);
                indices.push((identity, index));
                index
            }
        };
        event.add_file(recorder.header(), mapping, index);
        if mapping.writable {
            // The kernel zeroed the rest of the last page, after the file's bytes.
            let page = mapping.end - 4096;
            event.add_area(page, &memory::read_vec(pid, page, 4096)?);
        }
    }
    for place in [&mut first.program, &mut first.interpreter] {
        if place.0 == 0 {
            continue;
        }
        if stubs_fit(recorder.header(), *place, mappings) {
            event.add_overlays(recorder.header(), place.0 as usize - 1, place.1);
        } else {
            // The file keeps its own text, and dispatch catches its calls.
            place.0 = 0;
            first.unknown_calls = true;
        }
    }
    Ok(first)
}

impl First {
    fn note(&mut self, header: &Header, index: usize, mapping: &Mapping, is_program: bool) {
        let file = &header.files[index];
        self.unknown_calls |= file.calls.load(Relaxed) == shared::CALLS_UNKNOWN;
        let bias = mapping.start.wrapping_sub(file.low.load(Relaxed));
        let place = if is_program { &mut self.program } else { &mut self.interpreter };
        *place = (index as u64 + 1, bias);
    }
}

/// Adds a mapping without a file: anonymous memory, the vDSO, or the stack with what the kernel put
/// there.
fn add_anonymous(
    recorder: &Recorder,
    pid: i32,
    mapping: &Mapping,
    registers: &libc::user_regs_struct,
    first: &mut First,
    event: &mut ExecEvent,
) -> io::Result<()> {
    match mapping.name.as_str() {
        "[vvar]" | "[vvar_vclock]" | "[vsyscall]" => {}
        "[vdso]" => {
            first.vdso = mapping.start;
            event.add_anonymous(mapping, false);
            let patched = recorder.session.vdso().map(Vdso::patched).unwrap_or_default();
            event.add_area(mapping.start, &patched);
        }
        "[stack]" => {
            first.unknown_calls |= mapping.executable;
            event.add_anonymous(mapping, true);
            let bytes = (mapping.end - registers.rsp) as usize;
            event.add_area(registers.rsp, &memory::read_vec(pid, registers.rsp, bytes)?);
        }
        _ => {
            first.unknown_calls |= mapping.executable;
            event.add_anonymous(mapping, false);
        }
    }
    Ok(())
}

/// The file that a process executes.
struct Program {
    path: String,
    metadata: Metadata,
}

impl Program {
    fn of(pid: i32) -> io::Result<Self> {
        let path = format!("/proc/{pid}/exe");
        Ok(Self { metadata: std::fs::metadata(&path)?, path })
    }

    fn identity(&self) -> (u64, u64) {
        (self.metadata.dev(), self.metadata.ino())
    }

    fn index(
        &self,
        recorder: &Recorder,
        first: &Mapping,
        mappings: &[Mapping],
    ) -> io::Result<usize> {
        let placement = program_placement(first, mappings);
        if let Some(index) = recorder.files.known(recorder.header(), &self.metadata, placement) {
            return Ok(index);
        }
        let file = File::open(&self.path)?;
        check_class(&file)?;
        recorder.space.wait(|| recorder.files.index_of(&recorder.session, &file, placement))
    }
}

/// Returns the index of the interpreter's file. The path is resolved below the process's own root.
fn interpreter_index(recorder: &Recorder, pid: i32, mapping: &Mapping) -> io::Result<usize> {
    let path = format!("/proc/{pid}/root{}", mapping.name);
    let metadata = std::fs::metadata(&path)?;
    if metadata.ino() != mapping.inode {
        return Err(io::Error::other(format!("{} was replaced at this moment", mapping.name)));
    }
    if let Some(index) = recorder.files.known(recorder.header(), &metadata, Placement::After) {
        return Ok(index);
    }
    recorder
        .space
        .wait(|| recorder.files.index_of(&recorder.session, &File::open(&path)?, Placement::After))
}

/// Chooses where the program's stubs go. The heap follows the program, so stubs go before it. A
/// static position-independent program lies among the libraries, right after the vDSO; its stubs go
/// after it.
fn program_placement(first: &Mapping, mappings: &[Mapping]) -> Placement {
    if mappings.iter().any(|mapping| mapping.end == first.start) {
        Placement::After
    } else {
        Placement::Before
    }
}

/// Whether the address range of a file's stubs is free.
fn stubs_fit(header: &shared::Header, (index, bias): (u64, u64), mappings: &[Mapping]) -> bool {
    let stubs = &header.files[index as usize - 1].stubs;
    let start = bias.wrapping_add(stubs.address.load(Relaxed));
    is_free(start, start.wrapping_add(stubs.bytes.load(Relaxed)), mappings)
}

fn is_free(start: u64, end: u64, mappings: &[Mapping]) -> bool {
    mappings.iter().all(|mapping| mapping.end <= start || mapping.start >= end)
}

fn check_class(program: &File) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut start = [0; 20];
    program.read_exact_at(&mut start, 0)?;
    if start[4] != 2 || u16::from_le_bytes([start[18], start[19]]) != 62 {
        return Err(io::Error::other("only 64-bit x86 programs can be recorded"));
    }
    Ok(())
}

/// Returns where the kernel placed the program break: field 47 of /proc/PID/stat.
pub(crate) fn break_start(pid: i32) -> Option<u64> {
    let text = String::from_utf8(process::read_proc(pid, "stat").ok()?).ok()?;
    text.rsplit_once(") ")?.1.split_ascii_whitespace().nth(44)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_if_nothing_reaches_into_it() {
        let text = "1000-2000 r-xp 00000000 00:00 0\n5000-6000 rw-p 00000000 00:00 0\n";
        let mappings = retake_kernel::maps::parse(text).unwrap();
        for (start, end, expected) in [
            (0x2000, 0x5000, true),
            (0x6000, 0x9000, true),
            (0, 0x1000, true),
            (0x1fff, 0x3000, false),
            (0x4000, 0x5001, false),
            (0x1800, 0x1900, false),
            (0, 0x9000, false),
        ] {
            assert_eq!(is_free(start, end, &mappings), expected, "{start:#x} to {end:#x}");
        }
    }
}
