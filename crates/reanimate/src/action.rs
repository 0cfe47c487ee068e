//! What a worker has to do for one call. An action shares no state with the planner.

use std::sync::Arc;

use retake_trace_format::{BufferDirection, TracedCall};

use crate::access::Tickets;
use crate::folder::Folder;
use crate::handle::Handle;

/// The most bytes that Linux moves in one call.
pub const MAXIMUM_TRANSFER: u64 = 0x7fff_f000;

/// A call on its way to a worker.
#[derive(Debug)]
pub struct Task {
    /// The call as it was traced, with its data.
    pub call: TracedCall,
    /// What the worker does.
    pub action: Action,
    /// The calls that must be done first.
    pub dependencies: Tickets,
    /// The users and groups under which the worker does it.
    pub identity: Option<Arc<Identity>>,
}

/// The users and groups with which files are accessed and made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A place below the root: a directory and a name in it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory.
    pub directory: Arc<Folder>,
    /// The name; empty for the directory itself.
    pub name: Vec<u8>,
    /// Whether a link of that name is followed.
    pub follows: bool,
}

impl Place {
    /// Returns the path below the root.
    pub fn path(&self) -> Vec<u8> {
        match (self.directory.path(), self.name.as_slice()) {
            (b"", b"") => b".".to_vec(),
            (b"", name) => name.to_vec(),
            (directory, b"") => directory.to_vec(),
            (directory, name) => [directory, b"/", name].concat(),
        }
    }
}

/// The object of a call.
#[derive(Debug, Clone)]
pub enum Target {
    /// An open file.
    Handle(Arc<Handle>),
    /// A path.
    Place(Place),
}

/// The structure that a status is returned in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusLayout {
    /// `struct stat`.
    Stat,
    /// `struct statx`.
    Statx,
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, or `UTIME_NOW`, or `UTIME_OMIT`.
    pub nanoseconds: i64,
}

/// The buffers of a call that have the data to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    /// Index of the argument.
    pub argument: u8,
    /// An input; an output for calls that move data inside the kernel.
    pub direction: BufferDirection,
}

/// One thing to do. Numbers are those of the traced program.
#[derive(Debug)]
pub enum Action {
    /// Only keep the order.
    Order,
    /// Open a file.
    Open { place: Place, flags: u32, mode: u32, handle: Arc<Handle> },
    /// Open a file that was open when the trace began, and seek to the offset.
    OpenAtStart { place: Place, flags: u32, offset: u64, handle: Arc<Handle> },
    /// Drop open files. The last reference closes a file.
    Close(#[expect(dead_code, reason = "held, not read")] Vec<Arc<Handle>>),
    /// Make a pipe.
    Pipe { reader: Arc<Handle>, writer: Arc<Handle>, flags: u32 },
    /// Read, at an offset or at the file position.
    Read { handle: Arc<Handle>, offset: Option<u64>, requested: u64, buffers: u8 },
    /// Write, at an offset or at the file position.
    Write { handle: Arc<Handle>, offset: Option<u64>, requested: u64, data: Data, flags: u32 },
    /// Read from a pipe, and expect the traced data.
    ReadPipe { handle: Arc<Handle>, requested: u64, buffers: u8 },
    /// Write the traced data to a pipe.
    WritePipe { handle: Arc<Handle>, data: Data },
    /// Move data between two open files.
    Transfer {
        how: Transfer,
        from: Arc<Handle>,
        to: Arc<Handle>,
        from_offset: Option<u64>,
        to_offset: Option<u64>,
        requested: u64,
    },
    /// Make one file share the blocks of another, or copy them.
    Clone { from: Arc<Handle>, to: Arc<Handle>, range: Option<CloneRange> },
    /// `lseek`.
    Seek { handle: Arc<Handle>, offset: i64, whence: u32 },
    /// Set the size of an open file.
    Resize { handle: Arc<Handle>, size: u64 },
    /// Set the size of a file.
    Truncate { place: Place, size: u64 },
    /// `fallocate`.
    Allocate { handle: Arc<Handle>, mode: u32, offset: u64, bytes: u64 },
    /// `fsync` and similar calls.
    Sync { handle: Arc<Handle>, how: Sync },
    /// `fadvise64` and `readahead`.
    Advise { handle: Arc<Handle>, offset: u64, bytes: u64, advice: u32 },
    /// Get the status flags of an open file.
    GetFlags { handle: Arc<Handle> },
    /// Set the status flags of an open file.
    SetFlags { handle: Arc<Handle>, flags: u32 },
    /// List a directory.
    List { handle: Arc<Handle>, has_type: bool },
    /// `stat` and similar calls.
    Status { target: Target, layout: StatusLayout, buffer: u8, counts_links: bool },
    /// `access`.
    Access { target: Target, mode: u32 },
    /// `readlink`.
    ReadLink { target: Target, buffer: u8 },
    /// Check that a directory can be made the current one.
    Enter { target: Target },
    /// Make a directory.
    MakeDirectory { place: Place, mode: u32 },
    /// Make a file, a FIFO or a socket.
    MakeNode { place: Place, mode: u32 },
    /// Make a symbolic link.
    MakeSymlink { place: Place, target: Vec<u8> },
    /// Make another name for a file.
    Link { from: Target, to: Place },
    /// Remove a name.
    Remove { place: Place, is_directory: bool },
    /// Move a name.
    Rename { from: Place, to: Place, flags: u32 },
    /// Set the mode.
    SetMode { target: Target, mode: u32 },
    /// Set the owners. An id of all ones leaves that owner as it is.
    SetOwner { target: Target, user: u32, group: u32 },
    /// Set the access and modification times, both to now if there are none.
    SetTimes { target: Target, times: Option<[Time; 2]> },
    /// Read an extended attribute.
    GetAttribute { target: Target, name: Vec<u8>, capacity: u64 },
    /// List the extended attributes.
    ListAttributes { target: Target, capacity: u64 },
    /// Set an extended attribute.
    SetAttribute { target: Target, name: Vec<u8>, flags: u32 },
    /// Remove an extended attribute.
    RemoveAttribute { target: Target, name: Vec<u8> },
    /// Repeat what was written through a mapping.
    WriteMapped { place: Place, offset: u64 },
}

/// The call that moves data between open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// `copy_file_range`.
    CopyFileRange,
    /// `sendfile`.
    SendFile,
    /// `splice`.
    Splice,
}

/// Part of a file to be cloned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneRange {
    /// First byte in the source.
    pub from_offset: u64,
    /// Bytes; 0 for all.
    pub bytes: u64,
    /// First byte in the destination.
    pub to_offset: u64,
}

/// What a sync writes to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// `fsync`.
    All,
    /// `fdatasync` and `sync_file_range`.
    Data,
    /// `syncfs`.
    FileSystem,
}
