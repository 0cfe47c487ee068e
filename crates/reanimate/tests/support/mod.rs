//! Traces made by hand, and their replay in a new directory.

#![allow(dead_code, reason = "not every test file uses everything")]

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use retake_reanimate::{Options, Report, reanimate};
use retake_trace_format::{
    BufferDirection, Credentials, ProcessStart, StartDescriptor, StartKind, TraceRecord,
    TracedBuffer, TracedCall,
};

/// `AT_FDCWD` as programs pass it.
pub const HERE: u64 = libc::AT_FDCWD as u32 as u64;

/// A folder with a file to protect, and a root in it.
pub struct Scene {
    pub folder: tempfile::TempDir,
}

impl Scene {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("victim"), "untouched").unwrap();
        std::fs::create_dir(folder.path().join("victims")).unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        Self { folder }
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }
}

/// A trace in the making. Each call takes a microsecond, and starts when the one before ends,
/// unless a test changes that.
#[derive(Default)]
pub struct Trace {
    pub records: Vec<TraceRecord>,
    clock_ns: u64,
    thread: u32,
    process: u32,
}

impl Trace {
    /// Starts a trace of process 1 in `/`, without descriptors, as the user who runs the test.
    pub fn new() -> Self {
        Self { clock_ns: 1_700_000_000_000_000_000, thread: 1, process: 1, ..Self::default() }
    }

    /// Adds the state that a process starts with.
    pub fn start(&mut self, working_directory: &str, descriptors: Vec<StartDescriptor>) {
        let id = self.records.len() as u64;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        self.clock_ns += 1000;
        self.records.push(TraceRecord::ProcessStart(Box::new(ProcessStart {
            id,
            time_ns: self.clock_ns,
            process: self.process,
            thread: self.thread,
            parent: 0,
            session: 0,
            process_group: 0,
            how: StartKind::Exec,
            working_directory: working_directory.into(),
            root: b"/".to_vec(),
            umask: 0o022,
            descriptors,
            limits: Vec::new(),
            credentials: Credentials {
                filesystem_uid: uid,
                filesystem_gid: gid,
                ..Credentials::default()
            },
            executable: b"/bin/test".to_vec(),
            arguments: Vec::new(),
        })));
    }

    /// Sets the process and thread of the following calls.
    pub fn by(&mut self, process: u32, thread: u32) -> &mut Self {
        (self.process, self.thread) = (process, thread);
        self
    }

    /// Adds a call. [`Trace::input`] and [`Trace::output`] add its data.
    pub fn call(&mut self, number: i64, arguments: &[u64], result: i64) -> &mut Self {
        self.clock_ns += 1000;
        let mut registers = [0; 6];
        registers[..arguments.len()].copy_from_slice(arguments);
        self.records.push(TraceRecord::Call(TracedCall {
            id: self.records.len() as u64,
            process: self.process,
            thread: self.thread,
            entered_ns: self.clock_ns,
            returned_ns: self.clock_ns + 500,
            processor: 0,
            number: number as u32,
            result,
            arguments: registers,
            buffers: Vec::new(),
        }));
        self
    }

    /// Returns the call added last.
    pub fn last(&mut self) -> &mut TracedCall {
        match self.records.last_mut() {
            Some(TraceRecord::Call(call)) => call,
            _ => panic!("no call yet"),
        }
    }

    /// Adds data that the kernel read in the last call.
    pub fn input(&mut self, argument: u8, data: impl AsRef<[u8]>) -> &mut Self {
        self.buffer(argument, BufferDirection::Input, data.as_ref())
    }

    /// Adds data that the kernel wrote in the last call.
    pub fn output(&mut self, argument: u8, data: impl AsRef<[u8]>) -> &mut Self {
        self.buffer(argument, BufferDirection::Output, data.as_ref())
    }

    fn buffer(&mut self, argument: u8, direction: BufferDirection, data: &[u8]) -> &mut Self {
        let address = 0x1000 * (u64::from(argument) + 1);
        self.last().buffers.push(TracedBuffer {
            argument,
            direction,
            address,
            total_bytes: data.len() as u64,
            data: data.into(),
        });
        self
    }

    /// `openat` of a path.
    pub fn open(&mut self, path: &str, flags: i32, mode: u64, result: i64) -> &mut Self {
        self.call(libc::SYS_openat, &[HERE, 1, flags as u64, mode], result).input(1, path)
    }

    /// A call with one path in argument 0.
    pub fn path(&mut self, number: i64, path: &str, rest: &[u64], result: i64) -> &mut Self {
        let arguments: Vec<u64> = [1].iter().chain(rest).copied().collect();
        self.call(number, &arguments, result).input(0, path)
    }

    /// A call with paths in arguments 0 and 1.
    pub fn paths(&mut self, number: i64, first: &str, second: &str, result: i64) -> &mut Self {
        self.call(number, &[1, 2], result).input(0, first).input(1, second)
    }

    /// `write` of all data.
    pub fn write(&mut self, descriptor: u64, data: &[u8]) -> &mut Self {
        self.call(libc::SYS_write, &[descriptor, 1, data.len() as u64], data.len() as i64)
            .input(1, data)
    }

    /// `read` of up to `count` bytes.
    pub fn read(&mut self, descriptor: u64, count: u64, data: &[u8]) -> &mut Self {
        self.call(libc::SYS_read, &[descriptor, 1, count], data.len() as i64).output(1, data)
    }

    /// `close`.
    pub fn close(&mut self, descriptor: u64) -> &mut Self {
        self.call(libc::SYS_close, &[descriptor], 0)
    }

    /// `fstat` or `stat` of a file with that mode and size.
    pub fn status(&mut self, number: i64, descriptor: u64, mode: u32, size: u64) -> &mut Self {
        self.call(number, &[descriptor, 1], 0).output(1, status(mode, size))
    }

    /// Replays the trace with these options.
    pub fn replay_with(&self, options: &Options) -> Report {
        let open =
            |_| Ok::<_, Infallible>(self.records.clone().into_iter().map(Ok::<_, Infallible>));
        reanimate(options, open, &mut |_| {}).unwrap()
    }

    /// Replays the trace below a directory.
    pub fn replay(&self, root: &Path) -> Report {
        self.replay_with(&Options { keeps_going: true, ..Options::new(root) })
    }

    /// Replays the trace below a directory, and checks that every call does what was traced.
    pub fn replay_faithfully(&self, root: &Path) -> Report {
        let report = self.replay(root);
        assert!(report.is_faithful(), "{:#?}", report.mismatches);
        assert_eq!(report.skipped.values().sum::<u64>(), 0, "{:?}", report.skipped);
        report
    }
}

/// `struct stat` of a file that belongs to the user who runs the test.
pub fn status(mode: u32, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; 144];
    bytes[16..24].copy_from_slice(&1_u64.to_le_bytes());
    bytes[24..28].copy_from_slice(&mode.to_le_bytes());
    bytes[28..32].copy_from_slice(&rustix::process::geteuid().as_raw().to_le_bytes());
    bytes[32..36].copy_from_slice(&rustix::process::getegid().as_raw().to_le_bytes());
    bytes[48..56].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// Entries in the format of `getdents64`.
pub fn entries(names: &[(&str, u8)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, kind) in names {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let start = bytes.len();
        bytes.resize(start + length, 0);
        bytes[start + 16..start + 18].copy_from_slice(&(length as u16).to_le_bytes());
        bytes[start + 18] = *kind;
        bytes[start + 19..start + 19 + name.len()].copy_from_slice(name.as_bytes());
    }
    bytes
}
