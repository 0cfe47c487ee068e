//! Starts processes and observes them.

mod ending;

use crate::check;
use crate::confinement::filter::Rule;
use crate::confinement::{Confinement, Listener, receive_listener};
use crate::inheritance::{self, Limits};
use retake_contract::context::{FORCE_SIGNAL, FORCE_VALUE};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

pub(crate) use ending::is_readable;
pub use ending::{ended, is_hung_up, reap, reap_adopted, status_of_ended, watch};

/// A child that waits for [`Prepared::start`] before it executes its program.
#[derive(Debug)]
pub struct Prepared {
    pub pid: i32,
    go: File,
    failure: File,
    listener: Option<OwnedFd>,
}

/// The program to execute.
#[derive(Debug)]
pub struct Program<'a> {
    /// A path. Unused with `by_descriptor`.
    pub path: &'a CStr,
    /// An open file to execute instead of a path.
    pub by_descriptor: Option<i32>,
    /// Inherited limits to restore, if this process has changed them for itself.
    pub limits: Option<&'a Limits>,
    /// The descriptor for its standard output and error, if not ours.
    pub output: Option<i32>,
    pub arguments: &'a [CString],
    pub environment: &'a [CString],
    /// The calls that it may make from before its exec on. Its only descriptors are then standard
    /// output and error, an empty standard input, and `by_descriptor`; and it leaves no core file.
    pub confined_to: Option<&'a [Rule]>,
}

/// Creates a pipe. Returns its reading and its writing end.
///
/// # Errors
/// No descriptor is left.
pub fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which are new and ours.
    unsafe {
        check(i64::from(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)))?;
        Ok((File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])))
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Forks a child that waits before its exec.
///
/// # Errors
/// No process or descriptor is left.
pub fn prepare(program: &Program<'_>) -> io::Result<Prepared> {
    let (go_read, go_write) = pipe()?;
    let (failure_read, failure_write) = pipe()?;
    let arguments = pointers(program.arguments);
    let environment = pointers(program.environment);
    let nothing = File::open("/dev/null")?;
    let (confinement, listener) = program
        .confined_to
        .map(|rules| Confinement::new(rules, failure_write.as_raw_fd()))
        .transpose()?
        .unzip();
    // The parent checks this: in the child, the check would fault in more pages.
    let changed = program.limits.filter(|limits| inheritance::has_changed(limits));
    // SAFETY: the child calls only functions that are safe after fork in a process with threads:
    // close, read, dup2, signal, those of `confine`, exec, write, _exit.
    let pid = unsafe { libc::fork() };
    check(i64::from(pid))?;
    if pid == 0 {
        // SAFETY: as above; all pointers were made before the fork and live in the copied memory.
        unsafe {
            // The child's own copies, which would keep it waiting forever after our end.
            libc::close(go_write.as_raw_fd());
            libc::close(failure_read.as_raw_fd());
            let mut byte = 0u8;
            if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(127);
            }
            if let Some(limits) = changed {
                inheritance::hand_on(limits);
            }
            if let Some(output) = program.output {
                for standard in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
                    libc::dup2(output, standard);
                }
            }
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let confined = confinement
                .as_ref()
                .map_or(Ok(()), |confinement| confine(confinement, program, &nothing));
            let code = match confined {
                Ok(()) => exec(program, &arguments, &environment),
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            };
            libc::write(failure_write.as_raw_fd(), (&raw const code).cast(), 4);
            libc::_exit(127);
        }
    }
    Ok(Prepared { pid, go: go_write, failure: failure_read, listener })
}

/// Called in the child: leaves it only what [`Program::confined_to`] says.
fn confine(confinement: &Confinement, program: &Program<'_>, nothing: &File) -> io::Result<()> {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls; the kernel reads the limit. What the parent has open stays open
    // there.
    unsafe {
        check(i64::from(libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO)))?;
        let everything = libc::CLOSE_RANGE_CLOEXEC as i32;
        check(i64::from(libc::close_range(3, u32::MAX, everything)))?;
        if let Some(descriptor) = program.by_descriptor {
            check(i64::from(libc::fcntl(descriptor, libc::F_SETFD, 0)))?;
        }
        check(i64::from(libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core)))?;
    }
    confinement.enter()
}

/// Called in the child: executes its program. Returns the `errno` if that failed.
fn exec(
    program: &Program<'_>,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) -> i32 {
    // SAFETY: both lists end with a null pointer, and what they point to lives in copied memory.
    unsafe {
        match program.by_descriptor {
            Some(descriptor) => libc::syscall(
                libc::SYS_execveat,
                descriptor,
                c"".as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            ),
            None => i64::from(libc::execve(
                program.path.as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
            )),
        };
        *libc::__errno_location()
    }
}

impl Prepared {
    /// Lets the child execute its program.
    ///
    /// # Errors
    /// The child is gone.
    pub fn start(&mut self) -> io::Result<()> {
        self.go.write_all(&[1])
    }

    /// Returns the listener for the calls that the child may not make. Call it after
    /// [`Self::start`].
    ///
    /// # Errors
    /// The kernel's reason if the child could not be confined, or that it is not to be confined.
    pub fn listener(&mut self) -> io::Result<Listener> {
        let channel = self.listener.take().ok_or(io::ErrorKind::NotFound)?;
        receive_listener(&channel).map_err(|error| self.failure().unwrap_or(error))
    }

    /// Returns why the exec failed, after the child ended without one.
    pub fn failure(&mut self) -> Option<io::Error> {
        let mut code = [0; 4];
        self.failure.read_exact(&mut code).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
    }
}

/// Puts a new child into its own process group, which the terminal's signals do not reach.
pub fn own_group(pid: i32) {
    // SAFETY: plain system call; if the child is gone there is nothing to protect.
    unsafe { libc::setpgid(pid, pid) };
}

/// Sends a signal. Returns whether the process exists.
pub fn kill(pid: i32, signal: i32) -> bool {
    // SAFETY: plain system call.
    pid > 0 && unsafe { libc::kill(pid, signal) } == 0
}

/// Sends a thread the signal that stops it between sync points. Returns whether it exists.
pub fn force(pid: i32, tid: i32) -> bool {
    #[repr(C)]
    struct Queued {
        number: i32,
        error: i32,
        code: i32,
        padding: i32,
        pid: i32,
        user: u32,
        value: usize,
        rest: [u64; 12],
    }
    // SAFETY: a plain system call; it always succeeds.
    let (own, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let info = Queued {
        number: FORCE_SIGNAL,
        error: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        pid: own,
        user,
        value: FORCE_VALUE as usize,
        rest: [0; 12],
    };
    // SAFETY: `info` has the size and layout of the kernel's siginfo, which is only read.
    unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, FORCE_SIGNAL, &raw const info) == 0
    }
}

/// The state letter of a process or thread in `/proc` (`R`, `S`, `T`, `Z`…); `None` if it is gone.
pub fn state(pid: i32) -> Option<char> {
    stat_field(pid, 0)?.chars().next()
}

/// Returns the system call in which a thread of a process waits; `None` if there is none, or the
/// process may not be inspected.
pub fn call_of(pid: i32, tid: i32) -> Option<i64> {
    let text = read_proc(pid, &format!("task/{tid}/syscall")).ok()?;
    std::str::from_utf8(&text).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether a thread of a process waits until its child executes a program or ends. Meanwhile the
/// kernel delivers it no signal that has a handler.
pub fn waits_for_child(pid: i32, tid: i32) -> bool {
    const CALLS: [i64; 3] = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    state(tid) == Some('D') && call_of(pid, tid).is_some_and(|call| CALLS.contains(&call))
}

/// Returns the name of a process in displayable form; empty if it is gone.
pub fn name(pid: i32) -> String {
    let name = read_proc(pid, "comm").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().escape_default().to_string()
}

/// Returns the parent of a process; `None` if the process is gone.
pub fn parent(pid: i32) -> Option<i32> {
    stat_field(pid, 1)?.parse().ok()
}

/// Returns the process of a thread; `None` if the thread is gone.
pub fn group_leader(tid: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Returns the thread that traces a thread; `None` if there is none, or the thread is gone.
pub fn tracer(tid: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let tracer =
        text.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok())?;
    (tracer != 0).then_some(tracer)
}

/// Returns the threads of a process, including those that have ended and were not reaped; none if
/// it is gone.
pub fn threads(pid: i32) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the thread of a process that has this ID in its own PID namespace.
pub fn thread_called(pid: i32, inner: i32) -> Option<i32> {
    threads(pid).find(|tid| {
        let status = read_proc(pid, &format!("task/{tid}/status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()) == Some(inner)
    })
}

/// Returns a field of `/proc/PID/stat`. Field 0 is the state, because the name before it may hold
/// any characters.
fn stat_field(pid: i32, index: usize) -> Option<String> {
    stat_fields(pid).into_iter().nth(index)
}

/// Returns the fields of `/proc/PID/stat` from the state on; none if the process is gone.
pub fn stat_fields(pid: i32) -> Vec<String> {
    let text = read_proc(pid, "stat").unwrap_or_default();
    let close = text.iter().rposition(|&b| b == b')').unwrap_or(text.len());
    let fields = text
        .get(close + 1..)
        .and_then(|fields| std::str::from_utf8(fields).ok())
        .unwrap_or_default();
    fields.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Returns the IDs of all processes.
pub fn all() -> Vec<i32> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the processor time of all threads of a process; zero if it is gone.
pub fn computed(pid: i32) -> Duration {
    const OF_PROCESS_AS_SCHEDULED: i32 = 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call; the kernel checks the number that the clock is made of.
    unsafe { libc::clock_gettime(!pid << 3 | OF_PROCESS_AS_SCHEDULED, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// As [`computed`], for one thread; `None` if it is gone, or the kernel does not count that.
pub fn computed_by_thread(tid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Whether a process or thread has ended, even if it has not been reaped yet.
pub fn is_gone(pid: i32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// Returns the file that a process executes, as device and inode; `None` if it has ended, or may
/// not be inspected.
pub fn executed(pid: i32) -> Option<(u64, u64)> {
    let about = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((about.dev(), about.ino()))
}

/// As [`is_gone`], for a thread of a process. Reads `/proc` only for the first thread, of which a
/// zombie stays until it is reaped.
pub fn is_thread_gone(pid: i32, tid: i32) -> bool {
    if pid == tid {
        return is_gone(pid);
    }
    // SAFETY: plain system call; signal 0 only asks whether the thread is there.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    result != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
}

/// Whether a process still has an address space. A process that is being killed gives it up before
/// it counts as gone.
pub fn has_memory(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

/// Makes orphans of the tree children of this process instead of init.
pub fn adopt_orphans() {
    // SAFETY: plain system call.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Returns the signals pending for this thread alone; bit 0 is signal 1. None if it is gone.
pub fn pending_signals(tid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let pending = text.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    pending.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// Returns the effective user of a process. The owner of its folder in `/proc` is root for
/// processes that may not be dumped.
///
/// # Errors
/// The process is gone.
pub fn effective_user(pid: i32) -> io::Result<u32> {
    let text = read_proc(pid, "status")?;
    String::from_utf8_lossy(&text)
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no Uid line in status"))
}

/// Reads a file of `/proc/PID`, with a buffer that holds most of these files at once: the kernel
/// generates the text anew for every read, and an exec waits for it.
///
/// # Errors
/// The process is gone, or may not be inspected.
pub fn read_proc(pid: i32, name: &str) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut file = std::fs::File::open(format!("/proc/{pid}/{name}"))?;
    let mut bytes = vec![0; 16 << 10];
    let mut filled = 0;
    loop {
        let count = file.read(&mut bytes[filled..])?;
        filled += count;
        if count == 0 && filled < bytes.len() {
            bytes.truncate(filled);
            return Ok(bytes);
        }
        if filled == bytes.len() {
            bytes.resize(2 * filled, 0);
        }
    }
}

/// Lets threads that wake up on this thread's core run at once, instead of after this thread's time
/// slice: it asks for a longer slice than all others. Its share of processor time stays the same.
/// For background work: a server on the same busy core answers within a tenth of the time.
///
/// Kernels before 6.12 lack this, and nothing changes. The same is true of threads with another
/// scheduling policy.
pub fn let_waking_threads_go_first() {
    const LONGEST_SLICE_NS: u64 = 100_000_000;
    let mut attributes = std::mem::MaybeUninit::<libc::sched_attr>::zeroed();
    let bytes = std::mem::size_of::<libc::sched_attr>();
    // SAFETY: the kernel fills at most that many bytes of the structure, for which all zeros are
    // valid.
    let mut attributes = unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), bytes, 0) != 0 {
            return;
        }
        attributes.assume_init()
    };
    if attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = LONGEST_SLICE_NS;
        // SAFETY: the kernel only reads the structure. If it refuses, all stays as it is.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}
