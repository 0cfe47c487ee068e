//! Files that the debugger reads: those of the recording, and this machine's files for what the
//! recording lacks, such as separate debug information.

use super::files::{Open, maps_text, part};
use super::remote::Remote;
use crate::error::DebugError;
use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
    HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
    HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps, HostIoResult, HostIoSetfs, HostIoSetfsOps,
    HostIoStat,
};
use std::fs::File;
use std::os::unix::fs::FileExt;

fn not_open() -> HostIoError<DebugError> {
    HostIoError::Errno(HostIoErrno::EBADF)
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
        let (program, inferior) = (&self.session.replay().program, self.session.inferior());
        let file = if name.starts_with("/proc/") {
            if !name.ends_with("/maps") {
                return Err(HostIoError::Errno(HostIoErrno::ENOENT));
            }
            Open::Made(maps_text(inferior, program).into_bytes())
        } else {
            let stored = program.stored(inferior, &name);
            Open::Stored(File::open(stored.as_deref().unwrap_or(name.as_ref().as_ref()))?)
        };
        self.files.add(file).ok_or(HostIoError::Errno(HostIoErrno::EMFILE))
    }
}

impl HostIoClose for Remote {
    fn close(&mut self, descriptor: u32) -> HostIoResult<(), Self> {
        if self.files.close(descriptor) { Ok(()) } else { Err(not_open()) }
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
        match self.files.get(descriptor).ok_or_else(not_open)? {
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
        let size = match self.files.get(descriptor).ok_or_else(not_open)? {
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
