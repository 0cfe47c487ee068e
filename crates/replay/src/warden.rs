//! Answers the calls of replayed processes that their filter does not let pass by itself. The
//! warden opens files of the replay, and lets calls pass that concern only the caller. No replay
//! makes any other call, so a recording that does is an attack. The attack is reported, and the
//! processes are killed before the call is made.

use crate::report::Report;
use crate::windows::Windows;
use retake_contract::header::{
    GRANT_MAPS, GRANT_MEMORY, GRANT_PAGEMAP, GRANT_SCRATCH, GRANT_STORED,
};
use retake_kernel::confinement::{Listener, Notice};
use retake_kernel::{memory, process, segment};
use retake_recording::sparse;
use retake_supervisor::worker::{Stop, Worker};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The warden's thread. End it with [`Warden::stop`].
pub(crate) struct Warden(Worker);

impl Warden {
    /// Starts the warden. `told` gets a report of each attack.
    pub fn start(
        listener: Listener,
        windows: &Arc<Windows>,
        told: impl Fn(Report) + Send + 'static,
    ) -> io::Result<Self> {
        let (stopped, stop) = process::pipe()?;
        let windows = Arc::clone(windows);
        let forbids_exec = memory::forbids_exec(windows.files());
        let stop = Mutex::new(Some(stop));
        let bell = move || drop(stop.lock().unwrap_or_else(PoisonError::into_inner).take());
        let work = move |_: &Stop| {
            let mut files = Files { windows: &windows, forbids_exec, copies: HashMap::new() };
            // After an error the callers wait, and a waiting caller can do no harm.
            while let Ok(Some(notice)) = listener.next(stopped.as_fd()) {
                answer(&listener, &notice, &mut files, &told);
            }
        };
        Ok(Self(Worker::start(bell, work)))
    }

    pub fn stop(self) {
        let _ = self.0.end();
    }
}

/// The files that a replay can open.
struct Files<'replay> {
    windows: &'replay Windows,
    /// Whether the file system of the stored files forbids to execute them.
    forbids_exec: bool,
    /// Copies in memory of stored files that cannot be mapped as they are, by path.
    copies: HashMap<PathBuf, File>,
}

fn answer(listener: &Listener, notice: &Notice, files: &mut Files<'_>, told: &dyn Fn(Report)) {
    let windows = files.windows;
    match files.find(notice) {
        Some(Ok(file)) if listener.is_waiting(notice) => listener.hand_over(notice, &file),
        Some(Ok(_)) => {}
        Some(Err(error)) => listener.fail(notice, error.raw_os_error().unwrap_or(libc::EIO)),
        None if concerns_itself(notice) && listener.is_waiting(notice) => {
            listener.let_pass(notice);
        }
        None => {
            told(Report::attack(windows, notice));
            // The call is not answered, so it is never made. The processes that could notice the
            // caller's end are killed first.
            crate::end_everything(windows.session.header(), windows.host());
            if listener.is_waiting(notice) {
                process::kill(notice.tid, libc::SIGKILL);
            }
        }
    }
}

impl Files<'_> {
    /// The file of which a call is to get a descriptor; `None` if the call does not ask for one.
    fn find(&mut self, notice: &Notice) -> Option<io::Result<File>> {
        if !notice.is_of_64_bits() {
            return None;
        }
        let words = notice.arguments;
        let own = |name: &str, writes: bool| {
            let path = format!("/proc/{}/{name}", notice.tid);
            OpenOptions::new().read(true).write(writes).open(path)
        };
        match notice.number as u64 {
            GRANT_STORED => Some(self.stored(self.windows.stored_path(&words))),
            GRANT_SCRATCH => Some(open_plain(&self.windows.scratch_path(words[0], words[1]), true)),
            GRANT_MAPS => Some(own("maps", false)),
            GRANT_PAGEMAP => Some(own("pagemap", false)),
            GRANT_MEMORY => Some(own("mem", true)),
            _ => None,
        }
    }

    /// Returns a stored file. If it is stored in another form, or cannot be executed, returns its
    /// copy.
    fn stored(&mut self, path: PathBuf) -> io::Result<File> {
        let copy = match self.copies.entry(path) {
            Entry::Occupied(copy) => copy.into_mut(),
            Entry::Vacant(place) => {
                let mut stored = open_plain(place.key(), false)?;
                let is_sparse = sparse::expanded_size(&stored)?.is_some();
                if !is_sparse && !self.forbids_exec {
                    return Ok(stored);
                }
                let copy = memory::executable_file(c"retake-stored", &[])?;
                if is_sparse {
                    sparse::expand(&stored, &copy)?;
                } else {
                    io::copy(&mut stored, &mut &copy)?;
                }
                place.insert(copy)
            }
        };
        // Opening the copy anew gives each process its own position, and no right to write.
        File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))
    }
}

/// Opens the regular file of this very name. Symbolic links, devices and pipes are refused.
fn open_plain(path: &Path, writes: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(writes)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(file)
}

/// Whether a call reaches nothing but its own process, and what this process has made for the
/// replay. The answer depends on numbers only, which nobody can change after the check.
fn concerns_itself(notice: &Notice) -> bool {
    if !notice.is_of_64_bits() {
        return false;
    }
    match i64::from(notice.number) {
        libc::SYS_shmat => segment::is_own(notice.arguments[0] as i32),
        libc::SYS_tgkill | libc::SYS_process_vm_readv | libc::SYS_process_vm_writev => {
            process::group_leader(notice.tid) == Some(notice.arguments[0] as i32)
        }
        _ => false,
    }
}
