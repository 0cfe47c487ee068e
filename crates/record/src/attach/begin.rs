//! Brings processes that run already into the recording, all at one moment.

use super::check;
use super::detach::Before;
use super::freeze::Frozen;
use super::inject::{self, KeptBack};
use crate::exec_event::{ExecEvent, stamped, start_event};
use crate::shared_state::Recorder;
use retake_contract::header::{SHARES_AS_OTHERS, SHARES_FIRST, SHARES_NOTHING};
use retake_kernel::maps::{self, Mapping};
use retake_kernel::{process, resource};
use retake_patch::Placement;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;

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

/// Begins to record all threads of a process, and of those that share memory with it.
///
/// # Errors
/// They cannot be recorded, or the machine forbids it. They go on as before.
pub(super) fn begin(recorder: &Recorder, target: i32) -> io::Result<Before> {
    let mut newcomers: Vec<Newcomer> = Vec::new();
    // What runs still may make more of them.
    loop {
        let is_new = |pid: &i32| newcomers.iter().all(|known| known.pid != *pid);
        let new: Vec<i32> = check::group(target).into_iter().filter(is_new).collect();
        if new.is_empty() {
            break;
        }
        // A child that has ended meanwhile needs nothing.
        let is_gone = |pid: i32| pid != target && process::is_gone(pid);
        let mut running = Vec::new();
        for pid in new {
            match Running::look(recorder, pid) {
                Err(_) if is_gone(pid) => {}
                looked => running.push(looked?),
            }
        }
        for one in running {
            let pid = one.pid;
            match one.stop(recorder) {
                Err(_) if is_gone(pid) => {}
                newcomer => newcomers.push(newcomer?),
            }
        }
    }
    let frozen: Vec<&Frozen> = newcomers.iter().map(|one| &one.frozen).collect();
    check::stopped(&frozen, recorder.header())?;
    let count: usize = frozen.iter().map(|one| one.threads.len()).sum();
    while recorder.slot_count() < count + SPARE_SLOTS {
        recorder.add_pool()?;
    }
    give_to_users(recorder, &newcomers)?;
    newcomers.iter_mut().try_for_each(|one| one.claim(recorder))?;
    prepare_all(recorder, &newcomers)?;
    if newcomers.len() > 1 {
        let others: Vec<String> = newcomers[1..].iter().map(|one| one.pid.to_string()).collect();
        retake_kernel::tell!(
            "retake: records the processes that share memory with it, too: {}",
            others.join(", ")
        );
    }
    let threads = newcomers.iter().flat_map(|one| &one.frozen.threads);
    let before = threads.map(|one| (one.tid, one.sequences)).collect();
    // The first one takes the image when all others wait for their turn.
    newcomers.into_iter().rev().try_for_each(|one| inject::let_go(one.frozen))?;
    Ok(before)
}

/// Lets these processes attach the memory that all have in common. Root may attach all memory.
fn give_to_users(recorder: &Recorder, newcomers: &[Newcomer]) -> io::Result<()> {
    let users = newcomers.iter().map(|one| process::effective_user(one.pid));
    let users: BTreeSet<u32> = users.collect::<io::Result<_>>()?;
    let user = users.last().copied().unwrap_or(0);
    if users.iter().any(|other| *other != user && *other != 0) {
        return Err(io::Error::other("processes of several users share memory"));
    }
    recorder.session.give_to(user);
    recorder.files.give_to(user);
    recorder.pools.give_all_to(user);
    Ok(())
}

/// Brings the runtime into all of them, or into none.
fn prepare_all(recorder: &Recorder, newcomers: &[Newcomer]) -> io::Result<()> {
    for (index, one) in newcomers.iter().enumerate() {
        let shares = match index {
            _ if check::shared_memory(&one.mappings).next().is_none() => SHARES_NOTHING,
            0 => SHARES_FIRST,
            _ => SHARES_AS_OTHERS,
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
        let files = store_text(recorder, pid, &mappings);
        let kept_back = if keeps_back { kept_back(pid)? } else { Vec::new() };
        Ok(Newcomer { pid, vdso, mappings, files, kept_back, frozen, slots: Vec::new() })
    }
}

impl Newcomer {
    /// Takes slots for its threads, and begins the stream of its first thread.
    fn claim(&mut self, recorder: &Recorder) -> io::Result<()> {
        let mut first = None;
        for thread in &self.frozen.threads {
            let slot = recorder.claim(self.pid, thread.tid, first);
            first.get_or_insert(recorder.header().slots[slot].stream.load(Relaxed));
            self.slots.push(slot);
        }
        let first = &recorder.header().slots[self.slots[0]];
        crate::console::describe_of(self.pid, recorder.header(), first);
        append_first_events(recorder, self)
    }
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
