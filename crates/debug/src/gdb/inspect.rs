//! Questions about the program as a whole.

use super::files::part;
use super::remote::Remote;
use crate::error::Result;
use gdbstub::common::{Pid, Tid};
use gdbstub::target::TargetResult;
use gdbstub::target::ext::auxv::Auxv;
use gdbstub::target::ext::exec_file::ExecFile;
use gdbstub::target::ext::thread_extra_info::ThreadExtraInfo;

impl Auxv for Remote {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(part(&self.session.replay().program.auxv, offset, length, buffer))
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
        Ok(part(self.session.program_path().as_bytes(), offset, length, buffer))
    }
}
