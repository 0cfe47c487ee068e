//! Questions about the program as a whole.

use super::target::Remote;
use crate::error::Result;
use gdbstub::common::{Pid, Tid};
use gdbstub::target::TargetResult;
use gdbstub::target::ext::auxv::Auxv;
use gdbstub::target::ext::exec_file::ExecFile;
use gdbstub::target::ext::thread_extra_info::ThreadExtraInfo;

/// Copies the part of `bytes` that was asked for; 0 at the end.
pub(super) fn part(bytes: &[u8], offset: u64, length: usize, buffer: &mut [u8]) -> usize {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let count = (bytes.len() - start).min(length).min(buffer.len());
    buffer[..count].copy_from_slice(&bytes[start..start + count]);
    count
}

impl Auxv for Remote {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(part(&self.session.program.auxv, offset, length, buffer))
    }
}

impl ThreadExtraInfo for Remote {
    fn thread_extra_info(&self, tid: Tid, buffer: &mut [u8]) -> Result<usize> {
        let name = u32::try_from(tid.get()).map_or("", |thread| self.session.thread_name(thread));
        Ok(part(name.as_bytes(), 0, buffer.len(), buffer))
    }
}

impl ExecFile for Remote {
    fn get_exec_file(
        &self,
        _pid: Option<Pid>,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        Ok(part(self.session.program.path.as_bytes(), offset, length, buffer))
    }
}
