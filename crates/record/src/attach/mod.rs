//! Recording a program that runs already.
//!
//! All its threads are stopped for a moment. The runtime comes into the process, and each thread
//! prepares itself (runtime/entry/attach.c). The first thread then makes an image of the process,
//! from which replay begins, and all go on.

mod check;
mod detach;
mod freeze;
mod inject;

use crate::exec_event::{ExecEvent, stamped, start_event};
use crate::helpers::Helpers;
use crate::images::{self, Images, When};
use crate::rescue::{self, Ward};
use crate::rings::Plan;
use crate::shared_state::Recorder;
use crate::{Deadline, Ended, RecordError, Request, Space, file_table, finish};
use detach::Before;
use freeze::Frozen;
use inject::KeptBack;
use retake_kernel::alive::Alive;
use retake_kernel::maps::{self, Mapping};
use retake_kernel::{process, resource, shared, signals};
use retake_patch::Placement;
use retake_recording::{Checkpoints, Exit, RecordingWriter, Store};
use retake_supervisor::Session;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How often the recorder looks whether it is to end.
const LOOK_MS: i32 = 20;

/// A program that runs already.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub pid: i32,
    /// How long to record it; `None`: until it ends or this process is asked to end.
    pub time: Option<Duration>,
}

/// Records a running program until it ends, the time is up, or this process is asked to end.
///
/// # Errors
/// See [`RecordError`]. After an error the program goes on as before, unrecorded.
pub fn attach(
    request: &Request,
    target: Target,
    writer: RecordingWriter,
    store: Store,
) -> Result<Ended, RecordError> {
    let started = Instant::now();
    check::process(target.pid)?;
    let writer = Arc::new(writer);
    let places = Checkpoints::of_writer(&writer)?;
    let directory = writer.directory().to_path_buf();
    let session =
        Session::create(shared::MODE_RECORD, request.options, &request.processor, Some(&store))?;
    session.header().options.fetch_or(shared::OPTION_ATTACHED, Relaxed);
    let ward = Ward {
        session,
        plan: Plan::Ample,
        store,
        directory: Some(&directory),
        deadline: Deadline::new(None),
        started,
        let_go: Some(let_go),
    };
    let (guardian, Ward { session, plan, store, .. }) = rescue::guard(ward)?;
    let log: Arc<dyn crate::EventLog> = writer;
    let (files, space) = (file_table(store, &log), Space::new(request.on_full));
    let mut recorder = Recorder::new(session, plan, request.began_ns, files, log, space, None);
    recorder.guardian = Some(guardian.line());
    let when = request.images.unwrap_or(When::Never);
    let images = images::Plan { when, places, began_ns: request.began_ns };
    let outbox = recorder.take_copies();
    let recorder = Arc::new(recorder);
    let _alive = Alive::begin(&recorder.header().supervisor_alive);
    let images = Images::start(&recorder, images, outbox);
    let helpers = Helpers::start(&recorder, None, Some(images));
    let followed = begin(&recorder, target.pid)
        .and_then(|before| follow(&recorder, target, &before))
        .map_err(RecordError::System);
    let drained = if followed.is_ok() { helpers.stop() } else { Ok(()) };
    let guardian = guardian.dismiss();
    let finished = followed.and_then(|status| {
        drained?;
        let exit = status.map_or(Exit::Stopped, crate::exit);
        finish(&recorder, exit, started).map(|()| status.unwrap_or(0))
    });
    guardian.wait();
    Ok(Ended { status: finished?, timed_out: false })
}

/// Begins to record all threads of a process.
fn begin(recorder: &Recorder, pid: i32) -> io::Result<Before> {
    let user = process::effective_user(pid)?;
    recorder.session.give_to(user);
    recorder.files.give_to(user);
    let mappings = maps::of_process(pid)?;
    let vdso = vdso(&mappings)?;
    let files = store_text(recorder, pid, &mappings);
    // This takes long, and few programs have any.
    let keeps_back = !kept_back(pid)?.is_empty();
    let frozen = Frozen::stop(pid, &vdso)?;
    check::stopped(&frozen, recorder.header())?;
    let kept_back = if keeps_back { kept_back(pid)? } else { Vec::new() };
    while recorder.slot_count() < frozen.threads.len() + SPARE_SLOTS {
        recorder.add_pool()?;
    }
    recorder.pools.give_all_to(user);
    let slots: inject::Slots =
        frozen.threads.iter().map(|thread| recorder.claim(pid, thread.tid)).collect();
    crate::console::describe_of(pid, recorder.header(), &recorder.header().slots[slots[0]]);
    append_first_events(recorder, &frozen, slots[0], &mappings, &files)?;
    inject::prepare(recorder, &frozen, &slots, vdso.start, &kept_back)?;
    let before = frozen.threads.iter().map(|one| (one.tid, one.sequences)).collect();
    inject::let_go(frozen)?;
    Ok(before)
}

/// Where the vDSO is.
fn vdso(mappings: &[Mapping]) -> io::Result<Range<u64>> {
    let found = mappings.iter().find(|mapping| mapping.name == "[vdso]");
    let range = found.map(|mapping| mapping.start..mapping.end);
    range.ok_or_else(|| io::Error::other("the program has no vDSO"))
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

/// Writes the events with which the first stream of every recording begins.
fn append_first_events(
    recorder: &Recorder,
    frozen: &Frozen,
    slot: usize,
    mappings: &[Mapping],
    files: &Stored,
) -> io::Result<()> {
    let (header, pid) = (recorder.header(), frozen.pid);
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

/// Waits until the program has ended, or is let go. Returns its wait status if it has
/// ended.
fn follow(recorder: &Recorder, target: Target, before: &Before) -> io::Result<Option<i32>> {
    signals::pass_to(0);
    let (watch, since) = (process::watch(target.pid)?, Instant::now());
    while !process::ended(&watch, LOOK_MS) {
        let is_time_up = target.time.is_some_and(|time| since.elapsed() >= time);
        let is_in_vain = recorder.counters.images.load(Relaxed) == 0
            && recorder.counters.images_refused.load(Relaxed) > 0;
        if is_time_up || is_in_vain || signals::asked_to_end().is_some() {
            let staying = detach::detach(recorder, before)?;
            if is_in_vain {
                return Err(io::Error::other("without that image, nothing can be replayed"));
            }
            wait_for_staying(recorder, &staying);
            return Ok(None);
        }
    }
    let status = process::status_of_ended(target.pid, &watch).unwrap_or(0);
    recorder.note_root_ended(status);
    while recorder.live_slots() != 0 && recorder.header().stopping.load(Acquire) == 0 {
        let seen = recorder.progress();
        recorder.wait_for_progress(seen, Duration::from_millis(LOOK_MS as u64));
    }
    Ok(Some(status))
}

/// For the guardian, which has taken the supervisor's place: lets the program go on, and serves
/// those processes that cannot do without the runtime.
///
/// # Errors
/// The recording cannot be written, or a process cannot be let go.
fn let_go(recorder: &Recorder) -> io::Result<()> {
    let staying = detach::detach(recorder, &Before::new())?;
    wait_for_staying(recorder, &staying);
    Ok(())
}

/// Waits for processes that cannot do without the runtime.
fn wait_for_staying(recorder: &Recorder, names: &[String]) {
    if names.is_empty() {
        return;
    }
    retake_kernel::tell!(
        "retake: the recording has ended; retake stays until these have ended: {}",
        names.join(", ")
    );
    // Those that they make meanwhile cannot do without it either.
    let stays = |pid: &i32| !recorder.lets_go(*pid) && !process::is_gone(*pid);
    while crate::deadline::live_processes(recorder.header()).iter().any(stays) {
        let seen = recorder.progress();
        recorder.wait_for_progress(seen, Duration::from_millis(LOOK_MS as u64));
    }
}
