//! Files that the debugger reads: the recording's, where it has them; else this machine's, for
//! debug information that lies apart.

use super::inspect::part;
use super::target::Remote;
use crate::debuggee::Debuggee;
use crate::program::Program;
use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
    HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
    HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps, HostIoResult, HostIoSetfs, HostIoSetfsOps,
    HostIoStat,
};
use retake_snapshot::in_runtime;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The debugger may have this many open.
const MOST_OPEN: usize = 1024;

enum Open {
    Stored(File),
    Made(Vec<u8>),
}

/// The open ones, by descriptor.
#[derive(Default)]
pub(crate) struct Files {
    open: Vec<Option<Open>>,
}

impl Files {
    fn add(&mut self, file: Open) -> Option<u32> {
        let free = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
        if free >= MOST_OPEN {
            return None;
        }
        self.open.resize_with(self.open.len().max(free + 1), || None);
        self.open[free] = Some(file);
        u32::try_from(free).ok()
    }

    fn get(&self, descriptor: u32) -> HostIoResult<&Open, Remote> {
        self.open
            .get(descriptor as usize)
            .and_then(Option::as_ref)
            .ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

/// The lines of `/proc/PID/maps` without what is ours.
fn maps_text(debuggee: &Debuggee, program: &Program) -> String {
    let mut text = String::new();
    let names = program.names(debuggee);
    for mapping in debuggee.text.mappings().iter().filter(|mapping| {
        !in_runtime(mapping.start)
            && !debuggee.text.is_stub(mapping.start)
            && !debuggee.process.memory.is_probe_page(mapping.start)
    }) {
        let bit = |set, letter| if set { letter } else { '-' };
        let (read, write, execute) =
            (bit(mapping.readable, 'r'), bit(mapping.writable, 'w'), bit(mapping.executable, 'x'));
        let original = if mapping.name.starts_with('/') {
            debuggee.text.original_at(mapping.start)
        } else {
            None
        };
        let known = original
            .and_then(|file| names.get(&file))
            .map(String::as_str)
            .or_else(|| program.role(mapping));
        let (offset, name) = (debuggee.text.file_offset(mapping), known.unwrap_or(&mapping.name));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:08x}-{:08x} {read}{write}{execute}p {offset:08x} 00:00 0 {name}",
            mapping.start, mapping.end
        );
    }
    text
}

impl HostIo for Remote {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Remote {
    fn open(
        &mut self,
        name: &[u8],
        flags: HostIoOpenFlags,
        _mode: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        let writes = HostIoOpenFlags::O_WRONLY
            | HostIoOpenFlags::O_RDWR
            | HostIoOpenFlags::O_CREAT
            | HostIoOpenFlags::O_TRUNC;
        if flags.intersects(writes) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let name = String::from_utf8_lossy(name);
        let (program, debuggee) = (&self.session.program, &self.session.debuggee);
        let file = if name.starts_with("/proc/") {
            if !name.ends_with("/maps") {
                return Err(HostIoError::Errno(HostIoErrno::ENOENT));
            }
            Open::Made(maps_text(debuggee, program).into_bytes())
        } else {
            let stored = program.stored(debuggee, &name);
            Open::Stored(File::open(stored.as_deref().unwrap_or(name.as_ref().as_ref()))?)
        };
        self.files.add(file).ok_or(HostIoError::Errno(HostIoErrno::EMFILE))
    }
}

impl HostIoClose for Remote {
    fn close(&mut self, descriptor: u32) -> HostIoResult<(), Self> {
        self.files.get(descriptor)?;
        self.files.open[descriptor as usize] = None;
        Ok(())
    }
}

impl HostIoPread for Remote {
    fn pread(
        &mut self,
        descriptor: u32,
        count: usize,
        offset: u64,
        buffer: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        match self.files.get(descriptor)? {
            Open::Made(bytes) => Ok(part(bytes, offset, count, buffer)),
            Open::Stored(file) => {
                let count = count.min(buffer.len());
                Ok(file.read_at(&mut buffer[..count], offset)?)
            }
        }
    }
}

impl HostIoFstat for Remote {
    fn fstat(&mut self, descriptor: u32) -> HostIoResult<HostIoStat, Self> {
        let size = match self.files.get(descriptor)? {
            Open::Made(bytes) => bytes.len() as u64,
            Open::Stored(file) => file.metadata()?.len(),
        };
        let mode = HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: descriptor,
            st_mode: mode,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

impl HostIoReadlink for Remote {
    fn readlink(&mut self, name: &[u8], buffer: &mut [u8]) -> HostIoResult<usize, Self> {
        let target = std::fs::read_link(String::from_utf8_lossy(name).as_ref())?;
        Ok(part(target.to_string_lossy().as_bytes(), 0, buffer.len(), buffer))
    }
}

impl HostIoSetfs for Remote {
    fn setfs(&mut self, _fs: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
