//! The records of a trace, as plain data.

use crate::data::TraceData;
use retake_model::table::number;

/// One record of a trace. All but [`TraceRecord::Incomplete`] have an id; ids increase by one from
/// record to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceRecord {
    /// A system call.
    Call(TracedCall),
    /// What a process was given when tracing of it, or its program, began.
    ///
    /// In a box: there are few, and it is so large that all others would take twice the room.
    ProcessStart(Box<ProcessStart>),
    /// Input or output through mapped memory.
    MappedPages(MappedPages),
    /// Records are missing here; says which and why.
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

    /// How many bytes of data it holds.
    pub fn data_bytes(&self) -> usize {
        match self {
            Self::Call(call) => call.buffers.iter().map(|buffer| buffer.data.len()).sum(),
            Self::MappedPages(pages) => pages.data.len(),
            Self::ProcessStart(_) | Self::Incomplete(_) => 0,
        }
    }
}

/// One system call, with all the data that went in and out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracedCall {
    /// Its place in the trace.
    pub id: u64,
    /// Process id as the program saw it.
    pub process: u32,
    /// Thread id as the program saw it.
    pub thread: u32,
    /// When it was entered: real time in nanoseconds since 1970.
    pub entered_ns: u64,
    /// When it returned, likewise; 0 if it never did (`exit`, or the trace ended first).
    pub returned_ns: u64,
    /// Number of the processor on which it returned.
    pub processor: u32,
    /// System call number of x86-64.
    pub number: u32,
    /// What the kernel put in `rax`: from -4095 to -1 a negated error number. 0 if the call never
    /// returned.
    pub result: i64,
    /// The argument registers. Those beyond the arguments of the call are 0.
    pub arguments: [u64; 6],
    /// The memory behind pointers: inputs in the order of arguments, then outputs. See
    /// [`TracedBuffer`].
    pub buffers: Vec<TracedBuffer>,
}

impl TracedCall {
    /// Whether it failed.
    pub fn failed(&self) -> bool {
        (-4095..0).contains(&self.result)
    }

    /// The error number, if it failed.
    pub fn errno(&self) -> Option<u32> {
        self.failed().then(|| self.result.unsigned_abs() as u32)
    }

    /// What the call moved between descriptors inside the kernel, if it is such a call and the
    /// bytes are known. See [`moved_argument`].
    pub fn moved(&self) -> Option<&TracedBuffer> {
        let argument = moved_argument(self.number, self.arguments[1])?;
        self.buffers_of(argument, BufferDirection::Output).next()
    }

    /// The buffers of one argument in one direction.
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

/// Which argument stands for the data that a call moves between descriptors inside the kernel,
/// where no pointer shows them: the one that says how many bytes, and of an `ioctl` that clones
/// files (`command` is its second argument) the third. `None` for all other calls.
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
/// Memory that could not be read has no buffer, and so has a null pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedBuffer {
    /// Index of the argument, from 0.
    pub argument: u8,
    /// Who wrote it.
    pub direction: BufferDirection,
    /// Where it is in the program's memory.
    pub address: u64,
    /// How long it is there.
    pub total_bytes: u64,
    /// Its bytes, or the first of them if the trace was told to keep no more.
    pub data: TraceData,
}

/// How a process came to be traced from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartKind {
    /// It executed a program.
    Exec,
    /// It is a copy of its parent.
    Fork,
    /// It ran already when tracing began.
    Attach,
}

/// The state that a process has when its part of the trace begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStart {
    /// Its place in the trace.
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
    /// Why it begins here.
    pub how: StartKind,
    /// Absolute path of the working directory.
    pub working_directory: Vec<u8>,
    /// Absolute path of the root directory: `/` unless it was changed.
    pub root: Vec<u8>,
    /// Mode bits that new files do not get.
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
    /// What it refers to.
    pub kind: DescriptorKind,
    /// File position.
    pub offset: u64,
    /// Flags of `open`, with `O_CLOEXEC` if it closes on exec.
    pub flags: u32,
}

/// What a descriptor refers to.
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
    /// Something without a file: epoll, eventfd, timerfd and their like.
    Anonymous,
    /// Not known.
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
    /// Its place in the trace.
    pub id: u64,
    /// When it was seen: real time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Process id.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
    /// Written, else read.
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
