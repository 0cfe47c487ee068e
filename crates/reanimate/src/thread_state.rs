//! State that the kernel keeps for each thread, if it is asked to.

#![allow(unsafe_code)]

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// Gives the calling thread a mask for new files of its own, which hides nothing: the masks of the traced processes are
/// applied to each call.
///
/// # Errors
/// If the kernel refuses.
pub fn own_umask() -> Result<(), Errno> {
    // SAFETY: only working directory, root and mask become the thread's own; the table of descriptors stays shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
    rustix::process::umask(Mode::empty());
    Ok(())
}
