//! Opening files.

use libc as sys;
use retake_trace_format::TracedCall;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::{Done, Effect, Executor, Failure};
use crate::action::Place;
use crate::handle::Handle;

impl Executor<'_> {
    pub(super) fn open(
        &mut self,
        call: &TracedCall,
        place: &Place,
        flags: u32,
        mode: u32,
        handle: &Handle,
    ) -> Done {
        // We wait for FIFOs here, not in the kernel. The flag has no effect on files.
        let flags = OFlags::from_bits_retain(flags & !(sys::O_ASYNC as u32)) | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(mode);
        let opened = match self.open_once(place, flags, mode) {
            Err(Errno::NXIO) if !call.failed() && flags.contains(OFlags::WRONLY) => {
                self.open_when_read(place, flags, mode)?
            }
            opened => opened?,
        };
        let (file, is_direct) = opened;
        if !call.failed() {
            handle.open(file, is_direct);
        }
        // The number of the descriptor is known only to the traced program.
        Ok(Effect::success())
    }

    /// Opens a file. If the file system refuses direct access, or the owner refuses `O_NOATIME`,
    /// opens it without that flag.
    fn open_once(
        &self,
        place: &Place,
        flags: OFlags,
        mode: Mode,
    ) -> Result<(std::os::fd::OwnedFd, bool), Errno> {
        let is_direct = flags.contains(OFlags::DIRECT);
        match self.places.open_place(place, flags, mode) {
            Err(Errno::INVAL) if is_direct => {
                Ok((self.places.open_place(place, flags - OFlags::DIRECT, mode)?, false))
            }
            Err(Errno::PERM) if flags.contains(OFlags::NOATIME) => {
                Ok((self.places.open_place(place, flags - OFlags::NOATIME, mode)?, is_direct))
            }
            opened => Ok((opened?, is_direct)),
        }
    }

    /// Opens the write end of a FIFO as soon as it has a reader.
    fn open_when_read(
        &self,
        place: &Place,
        flags: OFlags,
        mode: Mode,
    ) -> Result<(std::os::fd::OwnedFd, bool), Failure> {
        let mut patience = self.pulse.patience();
        loop {
            match self.open_once(place, flags, mode) {
                Err(Errno::NXIO) if patience.wait() => {}
                Err(Errno::NXIO) => return Err(Failure::Stalled),
                opened => return Ok(opened?),
            }
        }
    }

    pub(super) fn open_at_start(
        &mut self,
        place: &Place,
        flags: u32,
        offset: u64,
        handle: &Handle,
    ) -> Done {
        let makes = (sys::O_CREAT | sys::O_EXCL | sys::O_TRUNC | sys::O_NOFOLLOW) as u32;
        let flags = OFlags::from_bits_retain(flags & !makes) | OFlags::NONBLOCK;
        let (file, is_direct) = self.open_once(place, flags, Mode::empty())?;
        if offset > 0 && !flags.contains(OFlags::PATH) {
            rustix::fs::seek(&file, SeekFrom::Start(offset))?;
        }
        handle.open(file, is_direct);
        Ok(Effect::success())
    }
}
