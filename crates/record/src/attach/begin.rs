//! Brings processes that run already into the recording, all at one moment.

use super::detach::Before;
use super::freeze::Frozen;
use super::inject::{self, KeptBack};
use super::{Target, check};
use crate::exec_event::{ExecEvent, stamped, start_event};
use crate::shared_state::{Recorder, lock};
use retake_contract::header::{SHARES_AS_OTHERS, SHARES_FIRST, SHARES_NOTHING};
use retake_kernel::maps::{self, Mapping};
use retake_kernel::{process, resource};
use retake_patch::Placement;
use retake_recording::StreamInfo;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A process that is about to be stopped.
struct Running {
    pid: i32,
    vdso: Range<u64>,
    /// Whether it keeps memory from its children.
    keeps_back: bool,
}

/// A stopped process that is about to be recorded.
struct Newcomer {
    pid: i32,
    vdso: Range<u64>,
    mappings: Vec<Mapping>,
    files: Stored,
    kept_back: Vec<KeptBack>,
    frozen: Frozen,
    /// The slots of its threads, in their order.
    slots: inject::Slots,
}

/// Begins to record all threads of a process, of those that share memory with it, and of its
/// descendants if that is wanted.
///
/// # Errors
/// They cannot be recorded, or the machine forbids it. They go on as before.
pub(super) fn begin(recorder: &Recorder, target: Target) -> io::Result<Before> {
    let (mut newcomers, descendants) = stop_all(recorder, target)?;
    let frozen: Vec<&Frozen> = newcomers.iter().map(|one| &one.frozen).collect();
    let sharers: Vec<i32> =
        newcomers.iter().filter(|one| one.shares_memory()).map(|one| one.pid).collect();
    check::stopped(&frozen, &sharers, recorder.header())?;
    let count: usize = frozen.iter().map(|one| one.threads.len()).sum();
    while recorder.slot_count() < count + SPARE_SLOTS {
        recorder.add_pool()?;
    }
    give_to_users(recorder, &newcomers)?;
    newcomers.iter_mut().try_for_each(|one| one.claim(recorder, target.pid))?;
    prepare_all(recorder, &newcomers)?;
    tell_of(&newcomers[1..], &descendants);
    recorder.first_images.store(newcomers.len() as u64, Relaxed);
    let threads = newcomers.iter().flat_map(|one| &one.frozen.threads);
    let before = threads.map(|one| (one.tid, one.sequences)).collect();
    // The first one of those that share memory takes their images when all others wait for their
    // turn.
    newcomers.into_iter().rev().try_for_each(|one| inject::let_go(one.frozen))?;
    Ok(before)
}

/// Stops all that are to be recorded, the target first. Returns also its descendants, if they are
/// recorded, too.
fn stop_all(recorder: &Recorder, target: Target) -> io::Result<(Vec<Newcomer>, Vec<i32>)> {
    let mut newcomers: Vec<Newcomer> = Vec::new();
    let since = Instant::now();
    // What runs still may make more of them.
    loop {
        let descendants =
            if target.descendants { check::descendants(target.pid) } else { Vec::new() };
        let wanted = [target.pid].iter().chain(&descendants).copied().collect();
        let is_new = |pid: &i32| newcomers.iter().all(|known| known.pid != *pid);
        let new: Vec<i32> = check::with_sharers(wanted).into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok((newcomers, descendants));
        }
        // A child that has ended meanwhile needs nothing. One that is about to end, or to begin a
        // program, is looked at again.
        let is_between = |pid: i32| !has_program(pid) && since.elapsed() < LONGEST_EXEC;
        let is_gone = |pid: i32| pid != target.pid && (process::is_gone(pid) || is_between(pid));
        let mut running = Vec::new();
        for pid in new {
            match Running::look(recorder, pid) {
                Err(_) if is_gone(pid) => {}
                looked => running.push(looked.map_err(|error| named(pid, target, error))?),
            }
        }
        // Makers stop before their children: they may wait for these.
        for one in running {
            let pid = one.pid;
            match one.stop(recorder) {
                Err(_) if is_gone(pid) => {}
                newcomer => newcomers.push(newcomer.map_err(|error| named(pid, target, error))?),
            }
        }
    }
}

/// Whether a process has the memory of a program.
fn has_program(pid: i32) -> bool {
    maps::of_process(pid).is_ok_and(|mappings| inject::vdso_of(&mappings).is_ok())
}

/// Says which process it is that cannot be recorded, if the user has not named it.
fn named(pid: i32, target: Target, error: io::Error) -> io::Error {
    if pid == target.pid {
        return error;
    }
    let name = process::name(pid);
    io::Error::other(format!("process {pid} ({name}) would be recorded with it: {error}"))
}

/// Tells which processes are recorded besides the one that the user has named.
fn tell_of(others: &[Newcomer], descendants: &[i32]) {
    let (below, beside): (Vec<&Newcomer>, Vec<&Newcomer>) =
        others.iter().partition(|one| descendants.contains(&one.pid));
    for (these, what) in
        [(below, "its descendants"), (beside, "the processes that share memory with it")]
    {
        let pids: Vec<String> = these.iter().map(|one| one.pid.to_string()).collect();
        if !pids.is_empty() {
            retake_kernel::tell!("retake: records {what}, too: {}", pids.join(", "));
        }
    }
}

/// Lets these processes attach the memory that all have in common. Root may attach all memory.
fn give_to_users(recorder: &Recorder, newcomers: &[Newcomer]) -> io::Result<()> {
    let users = newcomers.iter().map(|one| process::effective_user(one.pid));
    let users: BTreeSet<u32> = users.collect::<io::Result<_>>()?;
    let user = users.last().copied().unwrap_or(0);
    if users.iter().any(|other| *other != user && *other != 0) {
        return Err(io::Error::other("processes of several users cannot be recorded together"));
    }
    recorder.session.give_to(user);
    recorder.files.give_to(user);
    recorder.pools.give_all_to(user);
    Ok(())
}

/// Brings the runtime into all of them, or into none.
fn prepare_all(recorder: &Recorder, newcomers: &[Newcomer]) -> io::Result<()> {
    let first = newcomers.iter().position(Newcomer::shares_memory);
    for (index, one) in newcomers.iter().enumerate() {
        let shares = match one.shares_memory() {
            false => SHARES_NOTHING,
            true if first == Some(index) => SHARES_FIRST,
            true => SHARES_AS_OTHERS,
        };
        let prepared = inject::prepare(
            recorder,
            &one.frozen,
            &one.slots,
            shares,
            one.vdso.start,
            &one.kept_back,
        );
        if let Err(error) = prepared {
            for earlier in &newcomers[..index] {
                let count = earlier.frozen.threads.len() as u64;
                let _ = inject::undo(recorder, &earlier.frozen, count, earlier.vdso.start);
            }
            return Err(error);
        }
    }
    Ok(())
}

impl Running {
    /// Does what takes long while the process still runs.
    fn look(recorder: &Recorder, pid: i32) -> io::Result<Self> {
        check::process(pid).map_err(io::Error::other)?;
        let mappings = maps::of_process(pid)?;
        let vdso = inject::vdso_of(&mappings)?;
        store_text(recorder, pid, &mappings);
        // This takes long, and few programs have any.
        let keeps_back = !kept_back(pid)?.is_empty();
        Ok(Self { pid, vdso, keeps_back })
    }

    /// Stops all its threads.
    fn stop(self, recorder: &Recorder) -> io::Result<Newcomer> {
        let Self { pid, vdso, keeps_back } = self;
        let frozen = Frozen::stop(pid, &vdso)?;
        // It may have mapped more meanwhile.
        let mappings = maps::of_process(pid)?;
        if inject::vdso_of(&mappings)? != vdso {
            // It has executed a program.
            drop(frozen);
            return Self::look(recorder, pid)?.stop(recorder);
        }
        let files = store_text(recorder, pid, &mappings);
        let kept_back = if keeps_back { kept_back(pid)? } else { Vec::new() };
        Ok(Newcomer { pid, vdso, mappings, files, kept_back, frozen, slots: Vec::new() })
    }
}

impl Newcomer {
    /// Whether it may share writable memory with others.
    fn shares_memory(&self) -> bool {
        check::shared_memory(&self.mappings).next().is_some()
    }

    /// Takes slots for its threads, and begins the stream of its first thread. The outputs of the
    /// process `named` are the console.
    fn claim(&mut self, recorder: &Recorder, named: i32) -> io::Result<()> {
        let mut first = None;
        for thread in &self.frozen.threads {
            let slot = recorder.claim(self.pid, thread.tid, first);
            first.get_or_insert(recorder.header().slots[slot].stream.load(Relaxed));
            self.slots.push(slot);
        }
        let first = &recorder.header().slots[self.slots[0]];
        lock(&recorder.labels).insert(first.stream.load(Relaxed), command(self.pid));
        crate::console::describe_of(self.pid, named, recorder.header(), first);
        append_first_events(recorder, self)
    }
}

/// Returns the program and the arguments of a process, for people.
fn command(pid: i32) -> String {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let line = process::read_proc(pid, "cmdline").unwrap_or_default();
    // A program that tells in its place what it does leaves zeros behind that.
    let end = line.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let words = line[..end].split(|byte| *byte == 0);
    let words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    StreamInfo::label_of_command(&program.to_string_lossy(), &words)
}

/// Returns the memory that a process keeps from its children.
fn kept_back(pid: i32) -> io::Result<Vec<KeptBack>> {
    let natures = maps::natures(pid)?;
    let advised = |one: &Mapping| {
        let nature = natures.get(&one.start)?;
        let kinds = [
            (nature.missing_in_copies, libc::MADV_DONTFORK),
            (nature.wiped_in_copies, libc::MADV_WIPEONFORK),
        ];
        let kinds = kinds.into_iter().filter(|(is_kept, _)| *is_kept);
        Some(
            kinds
                .map(|(_, advice)| KeptBack { range: one.start..one.end, advice })
                .collect::<Vec<_>>(),
        )
    };
    Ok(maps::of_process(pid)?.iter().filter_map(advised).flatten().collect())
}

/// How long a process may take to execute a program, or to end.
const LONGEST_EXEC: Duration = Duration::from_secs(10);

/// Slots besides those of the threads that there are.
const SPARE_SLOTS: usize = 4;

/// The place in the header's list of the file that a mapping shows, if it is there.
type Stored = Vec<Option<usize>>;

/// Stores the files with code that the process has mapped, and those that it has mapped shared. An
/// image has no copy of what is stored, and a debugger reads symbols from it.
fn store_text(recorder: &Recorder, pid: i32, mappings: &[Mapping]) -> Stored {
    let has_code = |mapping: &Mapping| {
        mappings.iter().any(|other| other.executable && other.inode == mapping.inode)
    };
    let index = |mapping: &Mapping| {
        if mapping.inode == 0 || !(mapping.shared || has_code(mapping)) {
            return None;
        }
        let file = File::open(format!("/proc/{pid}/root{}", mapping.name)).ok()?;
        if file.metadata().ok()?.ino() != mapping.inode {
            return None;
        }
        recorder.files.index_of(&recorder.session, &file, Placement::After).ok()
    };
    mappings.iter().map(index).collect()
}

/// Writes the events with which the stream of its first thread begins.
fn append_first_events(recorder: &Recorder, newcomer: &Newcomer) -> io::Result<()> {
    let Newcomer { pid, mappings, files, frozen, slots, .. } = newcomer;
    let (header, pid, slot) = (recorder.header(), *pid, slots[0]);
    let shared_slot = &header.slots[slot];
    let registers = libc::user_regs_struct { rsp: 0, ..frozen.threads[0].registers };
    let mut exec = ExecEvent::new(
        &registers,
        crate::exec::break_start(pid).unwrap_or(0),
        resource::stack_limit(pid),
        shared_slot,
    );
    for (mapping, index) in mappings.iter().zip(files) {
        if let Some(index) = index {
            exec.add_file(header, mapping, *index);
        }
    }
    recorder.first_exec();
    let mut bytes = stamped(start_event(pid), header, shared_slot);
    bytes.extend(stamped(exec.encode(), header, shared_slot));
    shared_slot.event_count.store(2, Relaxed);
    Ok(recorder.append_in_ring(slot, &bytes)?)
}
