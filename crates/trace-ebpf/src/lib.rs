//! System calls seen from the kernel: eBPF programs at the trace points of system calls, forks,
//! execs, signals and exits, and the rings through which their records come here. What the records
//! mean is said in [`record`]; what is done with them is the business of who reads them.
//!
//! The programs (`bpf/`) are compiled by clang when this crate is built; without clang the crate is
//! whole but for them ([`is_built`]). They read the same rows of the system-call table as the
//! runtime, by including the same generated C. The running kernel's types are found by its BTF.

// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod programs;
pub mod record;
mod rings;
mod system;

pub use programs::{Counters, Mappers, Programs, Settings};
pub use record::{Body, Record};
pub use rings::Rings;

use std::io;

/// Why calls cannot be seen from the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no clang that compiles them when this was built.
    #[error(
        "this retake was built without its programs for the kernel: {0}\n  try       sudo apt-get \
        install clang, then build retake again; or --method ptrace"
    )]
    NotBuilt(&'static str),
    /// Not root.
    #[error(
        "tracing in the kernel needs privilege (CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE): \
        {0}\n  try       sudo retake trace --method ebpf ..., or --method ptrace, which needs none"
    )]
    Privilege(io::Error),
    /// The kernel does not describe its types.
    #[error(
        "this kernel does not say what its types are (/sys/kernel/btf/vmlinux): \
        {0}\n  try       a kernel with CONFIG_DEBUG_INFO_BTF, or --method ptrace"
    )]
    Types(String),
    /// Numbers of threads mean something else in the kernel.
    #[error(
        "this is a container with process numbers of its own, which the kernel's programs do not \
        see\n  try       the machine itself, or a container with --pid=host"
    )]
    Namespace,
    /// The kernel does not take the programs.
    #[error(
        "this kernel does not take the programs: {what}: {reason}\n  likely    it is older than \
        Linux 5.17, or forbids this (lockdown)\n  try       --method ptrace"
    )]
    Refused {
        /// Which of them, or what they need.
        what: String,
        /// What the kernel said.
        reason: String,
    },
    /// A thread cannot be marked.
    #[error("thread {tid} cannot be followed from the kernel: {source}")]
    Mark {
        /// Which.
        tid: i32,
        /// What the kernel said. EINVAL: it is older than Linux 6.9, where only whole processes can
        /// be named.
        source: io::Error,
    },
    /// What the machine refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Whether there was a clang when this was built.
pub fn is_built() -> bool {
    programs::is_built()
}

/// Whether tracing in the kernel can work here: loads the programs and forgets them.
///
/// # Errors
/// Why it cannot.
pub fn check() -> Result<(), Error> {
    Programs::load(&Settings::default()).map(drop)
}
