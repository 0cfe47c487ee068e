//! Confines a process permanently to the few system calls that it needs, with a filter that its
//! children and later programs inherit. Calls that the filter does not allow go to the owner of the
//! [`Listener`], and wait for the answer.
//!
//! If the kernel has Landlock, the process also cannot reach files by name, ports, or processes
//! other than those confined with it.

pub mod filter;
mod listener;

pub use listener::{Listener, Notice};

use filter::{Rule, is};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// All that the kernel's version of Landlock can forbid.
#[repr(C)]
struct Forbidden {
    files: u64,
    ports: u64,
    processes: u64,
}

const LANDLOCK_VERSION_ONLY: u32 = 1;
const SEND_DESCRIPTOR_BYTES: usize = 24;

/// A confinement, prepared before the fork of the child that will enter it.
pub(crate) struct Confinement {
    program: Vec<libc::sock_filter>,
    channel: OwnedFd,
    landlock: Option<Forbidden>,
}

impl Confinement {
    /// Creates a confinement that allows the calls of the rules, and writing to `failure`. Also
    /// returns the socket from which the listener will come.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(rules: &[Rule], failure: RawFd) -> io::Result<(Self, OwnedFd)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: the kernel writes two descriptors.
        let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
        crate::check(i64::from(result))?;
        // SAFETY: the descriptors are new and ours.
        let [own, channel] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // Before its exec, the child sends the listener, or reports why the exec failed. The exec
        // closes both descriptors, and no socket ever gets their numbers.
        let before_exec = [(libc::SYS_sendmsg, channel.as_raw_fd()), (libc::SYS_write, failure)];
        let mut rules = rules.to_vec();
        for (number, descriptor) in before_exec {
            let way = vec![is(0, descriptor as u32)];
            match rules.iter_mut().find(|rule| rule.number == number as u32) {
                Some(rule) => rule.ways.push(way),
                None => rules.push(Rule { number: number as u32, ways: vec![way] }),
            }
        }
        let program = filter::program(&rules, libc::SECCOMP_RET_USER_NOTIF);
        Ok((Self { program, channel, landlock: forbidden() }, own))
    }

    /// Confines this process and sends the listener. Makes only system calls.
    ///
    /// # Errors
    /// The kernel lacks such filters, or a process outside already listens to the calls of this
    /// one.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: a plain system call.
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        crate::check(i64::from(result))?;
        if let Some(forbidden) = &self.landlock {
            restrict(forbidden)?;
        }
        let program = libc::sock_fprog {
            len: self.program.len() as u16,
            filter: self.program.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel reads the program, which outlives the call.
        let listener = crate::check(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            )
        })?;
        send_descriptor(self.channel.as_raw_fd(), listener as RawFd)
    }
}

/// Checks that the kernel has filters that report calls.
///
/// # Errors
/// The kernel has none, or does not tell.
pub fn is_available() -> io::Result<()> {
    let action = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the kernel reads one number.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    crate::check(result).map(drop)
}

/// Returns the kernel's version of Landlock; 0 if it has none.
pub fn landlock_version() -> i64 {
    // SAFETY: asks for a number only.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_VERSION_ONLY,
        )
    };
    version.max(0)
}

fn forbidden() -> Option<Forbidden> {
    let version = landlock_version();
    let files = match version {
        0 => return None,
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    Some(Forbidden {
        files: (1 << files) - 1,
        ports: if version >= 4 { 3 } else { 0 },
        processes: if version >= 6 { 3 } else { 0 },
    })
}

fn restrict(forbidden: &Forbidden) -> io::Result<()> {
    // Older kernels refuse fields that they do not know, unless the fields are 0.
    let bytes = std::mem::size_of::<Forbidden>();
    // SAFETY: the kernel reads the structure, and returns a descriptor.
    let rules = crate::check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const *forbidden, bytes, 0)
    })?;
    // SAFETY: a plain system call.
    let restricted = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) };
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(rules as RawFd) };
    crate::check(restricted).map(drop)
}

/// A control message for one descriptor, with the alignment that the kernel requires.
#[repr(C, align(8))]
struct Control([u8; SEND_DESCRIPTOR_BYTES]);

fn send_descriptor(channel: RawFd, descriptor: RawFd) -> io::Result<()> {
    let mut control = Control([0; SEND_DESCRIPTOR_BYTES]);
    let mut byte = 0u8;
    let mut piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let message = message(&mut piece, &mut control);
    // SAFETY: the message has room for one header with one descriptor, which CMSG_FIRSTHDR finds.
    let header = unsafe { &mut *libc::CMSG_FIRSTHDR(&raw const message) };
    header.cmsg_level = libc::SOL_SOCKET;
    header.cmsg_type = libc::SCM_RIGHTS;
    header.cmsg_len = SEND_DESCRIPTOR_BYTES - 4;
    control.0[16..20].copy_from_slice(&descriptor.to_ne_bytes());
    // SAFETY: all that the message points to outlives the call.
    crate::check(unsafe { libc::sendmsg(channel, &raw const message, 0) } as i64).map(drop)
}

/// Receives the listener. The error is of kind `UnexpectedEof` if the child has ended.
pub(crate) fn receive_listener(channel: &OwnedFd) -> io::Result<Listener> {
    let mut control = Control([0; SEND_DESCRIPTOR_BYTES]);
    let mut byte = 0u8;
    let mut piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut message = message(&mut piece, &mut control);
    // SAFETY: all that the message points to outlives the call.
    let result =
        unsafe { libc::recvmsg(channel.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = crate::check(result as i64)?;
    if received != 1 || message.msg_controllen < SEND_DESCRIPTOR_BYTES - 4 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let descriptor = RawFd::from_ne_bytes(control.0[16..20].try_into().expect("four bytes"));
    // SAFETY: the kernel has just put it there, new and ours.
    Listener::new(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn message(piece: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all zeros are valid for this structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = SEND_DESCRIPTOR_BYTES;
    message
}
