//! The records of a trace, as plain data.

use crate::data::TraceData;
use retake_model::table::number;

/// One record of a trace. All but [`TraceRecord::Incomplete`] have an id; ids increase by one from
/// record to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceRecord {
    /// A system call.
    Call(TracedCall),
    /// The state of a process when tracing of it, or of its program, begins.
    ///
    /// It is boxed, because it is rare and so large that it would double the size of all records.
    ProcessStart(Box<ProcessStart>),
    /// Input or output through mapped memory.
    MappedPages(MappedPages),
    /// A gap: records are missing here. The text says which and why.
    Incomplete(String),
}

impl TraceRecord {
    /// The id; none for [`TraceRecord::Incomplete`].
    pub fn id(&self) -> Option<u64> {
        match self {
            Self::Call(call) => Some(call.id),
            Self::ProcessStart(start) => Some(start.id),
            Self::MappedPages(pages) => Some(pages.id),
            Self::Incomplete(_) => None,
        }
    }

    /// Returns the number of bytes of data in the record.
    pub fn data_bytes(&self) -> usize {
        match self {
            Self::Call(call) => call.buffers.iter().map(|buffer| buffer.data.len()).sum(),
            Self::MappedPages(pages) => pages.data.len(),
            Self::ProcessStart(_) | Self::Incomplete(_) => 0,
        }
    }
}

/// One system call, with all the data that it read and wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracedCall {
    /// Its number in the trace.
    pub id: u64,
    /// Process id as the program saw it.
    pub process: u32,
    /// Thread id as the program saw it.
    pub thread: u32,
    /// The time of entry: real time in nanoseconds since 1970.
    pub entered_ns: u64,
    /// The time of return, likewise. 0 if the call never returned (`exit`, or the trace ended
    /// first).
    pub returned_ns: u64,
    /// Number of the processor on which it returned.
    pub processor: u32,
    /// System call number of x86-64.
    pub number: u32,
    /// The value of `rax`. From -4095 to -1 it is a negated error number. 0 if the call never
    /// returned.
    pub result: i64,
    /// The argument registers. Those beyond the arguments of the call are 0.
    pub arguments: [u64; 6],
    /// The memory behind pointers: inputs in the order of arguments, then outputs. See
    /// [`TracedBuffer`].
    pub buffers: Vec<TracedBuffer>,
}

impl TracedCall {
    /// Returns whether the call failed.
    pub fn failed(&self) -> bool {
        (-4095..0).contains(&self.result)
    }

    /// Returns the error number, if the call failed.
    pub fn errno(&self) -> Option<u32> {
        self.failed().then(|| self.result.unsigned_abs() as u32)
    }

    /// Returns the bytes that the call moved between descriptors inside the kernel, if it is such a
    /// call and they are known. See [`moved_argument`].
    pub fn moved(&self) -> Option<&TracedBuffer> {
        let argument = moved_argument(self.number, self.arguments[1])?;
        self.buffers_of(argument, BufferDirection::Output).next()
    }

    /// Returns the buffers of one argument in one direction.
    pub fn buffers_of(
        &self,
        argument: u8,
        direction: BufferDirection,
    ) -> impl Iterator<Item = &TracedBuffer> {
        self.buffers
            .iter()
            .filter(move |buffer| buffer.argument == argument && buffer.direction == direction)
    }
}

/// Returns the argument that stands for the data which a call moves between descriptors inside the
/// kernel, where no pointer shows them. It is the argument with the number of bytes; for an `ioctl`
/// that clones files it is the third. `command` is the second argument of an `ioctl`. `None` for
/// all other calls.
pub fn moved_argument(number: u32, command: u64) -> Option<u8> {
    const SENDFILE: u32 = number::SENDFILE as u32;
    const SPLICE: u32 = number::SPLICE as u32;
    const TEE: u32 = number::TEE as u32;
    const COPY_FILE_RANGE: u32 = number::COPY_FILE_RANGE as u32;
    const IOCTL: u32 = number::IOCTL as u32;
    const FICLONE: u32 = 0x4004_9409;
    const FICLONERANGE: u32 = 0x4020_940d;
    match number {
        TEE => Some(2),
        SENDFILE => Some(3),
        SPLICE | COPY_FILE_RANGE => Some(4),
        IOCTL if matches!(command as u32, FICLONE | FICLONERANGE) => Some(2),
        _ => None,
    }
}

/// Whether the kernel read or wrote a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BufferDirection {
    /// The call read it.
    Input,
    /// The kernel wrote it.
    Output,
}

/// Memory behind a pointer argument.
///
/// The system-call table says how long it is. An argument can have several buffers:
/// * a *string* (the table's `path` and `string`) is one input: its bytes **without** the NUL, so
///   that an empty string is a buffer without bytes;
/// * *strings* (`execve`) are the array of pointers without its final null pointer, if it is not
///   empty, then one input for each string without its NUL;
/// * *vectors* (`readv`, `writev`) are the array of `struct iovec` as an input, then one buffer for
///   each piece: inputs as long as the piece, outputs up to the bytes that were transferred;
/// * *messages* (`sendmsg`, `recvmsg`) are the `struct msghdr`, its vector array, and (inputs when
///   sending, outputs when receiving) name, pieces and control data; pieces that are empty are left
///   out.
/// * data that are *moved* between descriptors inside the kernel are an output of the argument that
///   [`moved_argument`] names. It has no address of its own, and repeats the argument there.
///
/// Memory that could not be read has no buffer, just as a null pointer has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedBuffer {
    /// Index of the argument, from 0.
    pub argument: u8,
    /// Whether the call read it or the kernel wrote it.
    pub direction: BufferDirection,
    /// The address in the program's memory.
    pub address: u64,
    /// The size there, in bytes.
    pub total_bytes: u64,
    /// The bytes, or the first of them if the trace keeps no more.
    pub data: TraceData,
}

/// How a process entered the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartKind {
    /// It executed a program.
    Exec,
    /// It is a copy of its parent.
    Fork,
    /// It was already running when tracing began.
    Attach,
}

/// The state that a process has when its part of the trace begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStart {
    /// Its number in the trace.
    pub id: u64,
    /// Real time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Process id.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
    /// Process id of the parent.
    pub parent: u32,
    /// Session id; 0 if unknown.
    pub session: u32,
    /// Process group id; 0 if unknown.
    pub process_group: u32,
    /// How it entered the trace.
    pub how: StartKind,
    /// Absolute path of the working directory.
    pub working_directory: Vec<u8>,
    /// Absolute path of the root directory: `/` unless it was changed.
    pub root: Vec<u8>,
    /// The mode bits that new files do not get.
    pub umask: u32,
    /// Open descriptors in order of their numbers.
    pub descriptors: Vec<StartDescriptor>,
    /// Resource limits.
    pub limits: Vec<ResourceLimit>,
    /// Users and groups.
    pub credentials: Credentials,
    /// Absolute path of the program.
    pub executable: Vec<u8>,
    /// `argv`.
    pub arguments: Vec<Vec<u8>>,
}

/// A descriptor that was open at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartDescriptor {
    /// The descriptor.
    pub number: u32,
    /// What `/proc/PID/fd` says: a path, or a text such as `pipe:[123]`.
    pub path: Vec<u8>,
    /// The kind of object that it refers to.
    pub kind: DescriptorKind,
    /// File position.
    pub offset: u64,
    /// Flags of `open`, with `O_CLOEXEC` if it closes on exec.
    pub flags: u32,
}

/// The kind of object that a descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DescriptorKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A character device, such as a terminal.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A pipe or FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// A symbolic link, opened with `O_PATH`.
    SymbolicLink,
    /// An object without a file: epoll, eventfd, timerfd and the like.
    Anonymous,
    /// The kind is not known.
    Unknown,
}

/// One resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Number of the resource: `RLIMIT_*`.
    pub resource: u32,
    /// Soft limit; `u64::MAX` is unlimited.
    pub soft: u64,
    /// Hard limit.
    pub hard: u64,
}

/// Users and groups of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// Real user id.
    pub uid: u32,
    /// Effective user id.
    pub effective_uid: u32,
    /// Saved user id.
    pub saved_uid: u32,
    /// User id for access to files.
    pub filesystem_uid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub effective_gid: u32,
    /// Saved group id.
    pub saved_gid: u32,
    /// Group id for access to files.
    pub filesystem_gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Pages of a file that were read or written through a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedPages {
    /// Its number in the trace.
    pub id: u64,
    /// The time of observation: real time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Process id.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
    /// Whether the pages were written. Otherwise they were read.
    pub write: bool,
    /// Absolute path of the file.
    pub path: Vec<u8>,
    /// Offset in the file.
    pub file_offset: u64,
    /// Address in the program's memory.
    pub address: u64,
    /// The bytes.
    pub data: Vec<u8>,
}
