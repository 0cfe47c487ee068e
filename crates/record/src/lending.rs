//! Takes leases when the runtime asks for them, and gives them up when another process wants to
//! write.
//!
//! A thread waits for such writers. It first revokes what the runtime was told, and only then gives
//! the lease up.

use crate::leases::Wanted;
use crate::shared_state::Recorder;
use retake_kernel::clock;
use retake_kernel::lease::{self, Holder, Lease};
use retake_kernel::shared::LEASED_LEAST_BYTES;
use retake_recording::ContentId;
use retake_supervisor::worker::{Stop, Worker};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A copy may take at most this fraction of the free disk space.
const PART_OF_DISK: u64 = 2;
/// If the kernel grants less time than this to give a lease up, leases are not used.
const LEAST_BREAK_TIME: Duration = Duration::from_secs(4);
/// The thread looks at least this often within that time. What it has seen holds for half of the
/// time.
const LOOKS: u32 = 4;

/// Answers the runtime, which has read `read_bytes` of a file: if the file is worth it, takes a
/// lease, stores the file, and enters it into the header.
///
/// # Errors
/// The file cannot be inspected. Other failures are not reported: the log then takes the bytes.
pub(crate) fn ask(recorder: &Arc<Recorder>, file: &File, read_bytes: u64) -> io::Result<()> {
    let (leases, header) = (&recorder.leases, recorder.header());
    let metadata = file.metadata()?;
    let wanted =
        Wanted { file: (metadata.dev(), metadata.ino()), bytes: metadata.len(), read_bytes };
    if !metadata.is_file() || wanted.bytes < LEASED_LEAST_BYTES {
        return Ok(());
    }
    if leases.begin(header, wanted) {
        let content = leases
            .holder(|| start_holder(recorder))
            .and_then(|holder| store(recorder, wanted, file, holder));
        leases.end(header, wanted, content.unwrap_or(None));
    }
    Ok(())
}

/// Takes the lease and stores the file. Returns `None` if the log cannot refer to the file.
fn store(
    recorder: &Recorder,
    wanted: Wanted,
    file: &File,
    holder: i32,
) -> io::Result<Option<ContentId>> {
    let store = recorder.files.store();
    let free = rustix::fs::statvfs(store.root())?;
    if free.f_bavail.saturating_mul(free.f_frsize) / PART_OF_DISK < wanted.bytes {
        return Ok(None);
    }
    let lease = Lease::take(file, holder)?;
    let own = lease.file().try_clone()?;
    let times_tell = lease.times_tell();
    recorder.leases.add(wanted, lease);
    let Some(content) = store.add_leased(&own, times_tell)? else { return Ok(None) };
    recorder.log.keep_file(store, content)?;
    recorder.leases.keep(content);
    Ok(Some(content).filter(|_| own.metadata().is_ok_and(|now| now.len() == wanted.bytes)))
}

fn start_holder(recorder: &Arc<Recorder>) -> io::Result<(Worker, i32)> {
    let break_time = lease::break_time().ok().filter(|time| *time >= LEAST_BREAK_TIME);
    // A recording of which only a part is kept would keep each version of each file.
    let Some(break_time) = break_time.filter(|_| recorder.keeper.is_none()) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let (told, number) = mpsc::channel();
    let (for_bell, for_work) = (Arc::new(AtomicI32::new(0)), Arc::clone(recorder));
    let known = Arc::clone(&for_bell);
    let bell = move || lease::wake(for_bell.load(Acquire));
    let worker = Worker::start(bell, move |stop| hold(&for_work, stop, break_time, &told));
    let number = number.recv().map_err(io::Error::other)?;
    known.store(number, Release);
    Ok((worker, number))
}

/// The main function of the thread that gives leases up.
fn hold(recorder: &Recorder, stop: &Stop, break_time: Duration, told: &mpsc::Sender<i32>) {
    let (header, leases) = (recorder.header(), &recorder.leases);
    let holder = Holder::begin(&header.lease_holder);
    let good_for = u64::try_from((break_time / 2).as_nanos()).unwrap_or(u64::MAX);
    header.leases_until_ns.store(clock::monotonic_ns().saturating_add(good_for), Release);
    let _ = told.send(holder.number());
    while !stop.is_told() {
        holder.wait(break_time / LOOKS);
        let now = clock::monotonic_ns();
        leases.give_way(header);
        // A process that asks to write after this look waits for at least twice as long.
        header.leases_until_ns.store(now.saturating_add(good_for), Release);
    }
    leases.give_up(header);
}
