//! Terminals.

use libc::c_uint;

/// TIOCGDEV: gets the device number of the terminal, even for /dev/tty.
const GET_DEVICE: libc::c_ulong = 0x8004_5432;

/// Returns the device number of the terminal that is open at a descriptor, as programs see it;
/// `None` if it is no terminal.
pub fn device(descriptor: i32) -> Option<u32> {
    let mut device: c_uint = 0;
    // SAFETY: the kernel writes one number of that type.
    let result = unsafe { libc::ioctl(descriptor, GET_DEVICE, &mut device) };
    (result == 0).then_some(device)
}
