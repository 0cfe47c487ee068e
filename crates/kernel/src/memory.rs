//! The memory and descriptors of other processes.

use crate::check;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Reads `bytes.len()` bytes at `address` of a process.
///
/// # Errors
/// Some of the memory is missing, or the process may not be inspected.
pub fn read(pid: i32, address: u64, bytes: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, which outlives the call; the kernel checks the remote
    // side.
    let got = check(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) } as i64)?;
    if got as usize == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("only {got} of {} bytes at {address:#x} of process {pid}", bytes.len()),
        ))
    }
}

/// As [`read`], into a new vector.
///
/// # Errors
/// As [`read`].
pub fn read_vec(pid: i32, address: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    read(pid, address, &mut bytes)?;
    Ok(bytes)
}

/// As [`read`], for a process that shares pages with copies of it. [`read`] pins pages, and the
/// kernel then gives the process its own copies of them.
///
/// # Errors
/// As [`read`].
pub fn peek(pid: i32, address: u64, bytes: &mut [u8]) -> io::Result<()> {
    of_process(pid)?.read_exact_at(bytes, address)
}

/// The memory of a process as a file, for those who [`peek`] often.
///
/// # Errors
/// The process is gone, or may not be inspected.
pub fn of_process(pid: i32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/mem"))
}

/// As [`peek`], into a new vector.
///
/// # Errors
/// As [`read`].
pub fn peek_vec(pid: i32, address: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    peek(pid, address, &mut bytes)?;
    Ok(bytes)
}

/// Writes into memory that the process itself may write.
///
/// # Errors
/// Some of the memory is missing, or the process may not be inspected.
pub fn write(pid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, which the kernel only reads; it checks the remote side.
    let done = check(unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) } as i64)?;
    if done as usize == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("only {done} of {} bytes at {address:#x} of process {pid}", bytes.len()),
        ))
    }
}

/// Writes into memory of a process, whatever its protection. Pages shared with a file are copied
/// first.
///
/// # Errors
/// Some of the memory is missing, or the process may not be traced.
pub fn write_protected(pid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let memory = File::options().write(true).open(format!("/proc/{pid}/mem"))?;
    memory.write_all_at(bytes, address)
}

/// Returns the file behind a descriptor of another process, with the same file position. A file
/// opened with `O_DIRECT`, which allows only reads of whole blocks, is opened again.
///
/// # Errors
/// The process or descriptor is gone, or the process belongs to another user.
pub fn descriptor_of(pid: i32, descriptor: i32) -> io::Result<File> {
    // SAFETY: plain system calls; the descriptors they return are new and ours.
    let (found, flags) = unsafe {
        let process = check(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        let process = File::from_raw_fd(process as i32);
        let found = check(libc::syscall(
            libc::SYS_pidfd_getfd,
            std::os::fd::AsRawFd::as_raw_fd(&process),
            descriptor,
            0,
        ))?;
        (File::from_raw_fd(found as i32), libc::fcntl(found as i32, libc::F_GETFL))
    };
    if flags >= 0 && flags & libc::O_DIRECT != 0 {
        return File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found)));
    }
    Ok(found)
}

/// Creates an anonymous file with these bytes. Children inherit it, at the same descriptor.
///
/// # Errors
/// No memory or descriptor is left.
pub fn executable_file(name: &std::ffi::CStr, bytes: &[u8]) -> io::Result<File> {
    // SAFETY: plain system call; the descriptor is new and ours. MFD_EXEC (0x10) is refused by
    // kernels that do not know it.
    let descriptor = unsafe {
        let with_exec = libc::memfd_create(name.as_ptr(), 0x10);
        if with_exec >= 0 { with_exec } else { libc::memfd_create(name.as_ptr(), 0) }
    };
    check(i64::from(descriptor))?;
    // SAFETY: as above.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

/// Whether files in a folder cannot be mapped executable. False if that is unknown.
pub fn forbids_exec(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: the structure is plain numbers, which the kernel writes.
    unsafe {
        let mut about: libc::statvfs = std::mem::zeroed();
        libc::statvfs(path.as_ptr(), &mut about) == 0 && about.f_flag & libc::ST_NOEXEC != 0
    }
}

/// Keeps an open file open across exec, at the same descriptor.
///
/// # Errors
/// None for a valid descriptor.
pub fn keep_across_exec(file: &File) -> io::Result<()> {
    // SAFETY: plain system call on a descriptor that is ours.
    check(i64::from(unsafe {
        libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(file), libc::F_SETFD, 0)
    }))?;
    Ok(())
}
