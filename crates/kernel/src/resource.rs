//! The resource limits of processes.

/// Returns the soft and the hard limit of a process for a resource (`RLIMIT_*`); `None` if there is
/// no such resource, or the process belongs to another user. Process 0 is the calling one.
pub fn limit(pid: i32, resource: u32) -> Option<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one structure of that type.
    let result = unsafe { libc::prlimit(pid, resource, std::ptr::null(), &mut limit) };
    (result == 0).then_some((limit.rlim_cur, limit.rlim_max))
}

/// Returns how far the stack of a process may grow, in bytes (its soft RLIMIT_STACK).
pub fn stack_limit(pid: i32) -> u64 {
    limit(pid, libc::RLIMIT_STACK).map_or(libc::RLIM_INFINITY, |(soft, _)| soft)
}

/// Returns how many descriptors this process may have.
pub fn descriptor_limit() -> u64 {
    limit(0, libc::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft)
}
