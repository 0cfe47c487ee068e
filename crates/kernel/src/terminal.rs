//! Terminals.

use libc::c_uint;

/// TIOCGDEV: asks for the number of the terminal, also where /dev/tty stands for it.
const GET_DEVICE: libc::c_ulong = 0x8004_5432;

/// The device number of the terminal that a descriptor of ours leads to, as the kernel passes it to
/// programs; `None` if it leads to something else.
pub fn device(descriptor: i32) -> Option<u32> {
    let mut device: c_uint = 0;
    // SAFETY: the kernel writes one number of that type.
    let result = unsafe { libc::ioctl(descriptor, GET_DEVICE, &mut device) };
    (result == 0).then_some(device)
}
