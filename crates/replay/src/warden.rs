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
use retake_kernel::{memory, process, resource, segment};
use retake_recording::sparse;
use retake_supervisor::worker::{Stop, Worker};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The most stored files that are kept open. Programs map the parts of some ten libraries.
const MOST_OPEN: u64 = 128;
/// At most this fraction of the descriptors that retake may have.
const PART_OF_DESCRIPTORS: u64 = 4;

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
            let mut files = Files::new(&windows, forbids_exec);
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
    /// Stored files that were opened lately. Every exec maps the same ones. Nobody can write to
    /// them, and nobody uses their positions.
    opened: HashMap<PathBuf, Rc<File>>,
    most_open: usize,
    /// Copies in memory of stored files that cannot be mapped as they are.
    copies: HashMap<PathBuf, Rc<File>>,
}

fn answer(listener: &Listener, notice: &Notice, files: &mut Files<'_>, told: &dyn Fn(Report)) {
    let windows = files.windows;
    match files.find(notice) {
        Some(Ok(Found::Stored(file))) => listener.hand_over(notice, &file),
        Some(Ok(Found::Own(file))) if listener.is_waiting(notice) => {
            listener.hand_over(notice, &file);
        }
        Some(Ok(Found::Own(_))) => {}
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

/// A file of which a call is to get a descriptor.
enum Found {
    /// A file of the recording, the same for all processes.
    Stored(Rc<File>),
    /// A file that only the caller may get.
    Own(File),
}

impl<'replay> Files<'replay> {
    fn new(windows: &'replay Windows, forbids_exec: bool) -> Self {
        let (opened, copies) = (HashMap::new(), HashMap::new());
        let most_open = MOST_OPEN.min(resource::descriptor_limit() / PART_OF_DESCRIPTORS) as usize;
        Self { windows, forbids_exec, opened, most_open, copies }
    }

    /// Finds the file that a call asks for; `None` if the call does not ask for one.
    fn find(&mut self, notice: &Notice) -> Option<io::Result<Found>> {
        if !notice.is_of_64_bits() {
            return None;
        }
        let words = notice.arguments;
        let own = |name: &str, writes: bool| {
            let path = format!("/proc/{}/{name}", notice.tid);
            OpenOptions::new().read(true).write(writes).open(path).map(Found::Own)
        };
        match notice.number as u64 {
            GRANT_STORED => Some(self.stored(self.windows.stored_path(&words)).map(Found::Stored)),
            GRANT_SCRATCH => {
                let path = self.windows.scratch_path(words[0], words[1]);
                Some(open_plain(&path, true).map(Found::Own))
            }
            GRANT_MAPS => Some(own("maps", false)),
            GRANT_PAGEMAP => Some(own("pagemap", false)),
            GRANT_MEMORY => Some(own("mem", true)),
            _ => None,
        }
    }

    /// Returns a stored file. If it is stored in another form, or cannot be executed, returns its
    /// copy.
    fn stored(&mut self, path: PathBuf) -> io::Result<Rc<File>> {
        if let Some(file) = self.opened.get(&path).or_else(|| self.copies.get(&path)) {
            return Ok(Rc::clone(file));
        }
        let stored = open_plain(&path, false)?;
        let is_sparse = sparse::expanded_size(&stored)?.is_some();
        let (known, file) = if is_sparse || self.forbids_exec {
            (&mut self.copies, Rc::new(copy_of(&stored, is_sparse)?))
        } else {
            if self.opened.len() >= self.most_open {
                self.opened.clear();
            }
            (&mut self.opened, Rc::new(stored))
        };
        known.insert(path, Rc::clone(&file));
        Ok(file)
    }
}

/// Makes a copy of a stored file in memory, and opens it for reading.
fn copy_of(mut stored: &File, is_sparse: bool) -> io::Result<File> {
    let copy = memory::executable_file(c"retake-stored", &[])?;
    if is_sparse {
        sparse::expand(stored, &copy)?;
    } else {
        io::copy(&mut stored, &mut &copy)?;
    }
    File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))
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
