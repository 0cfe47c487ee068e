//! System calls seen from the kernel: eBPF programs at the trace points of system calls, forks,
//! execs, signals and exits, and the rings through which their records come here. [`record`] says
//! what the records mean.
//!
//! The programs (`bpf/`) are compiled by clang when this crate is built. Without clang, only they
//! are missing ([`is_built`]). They use the same rows of the system-call table as the runtime, by
//! including the same generated C. They find the running kernel's types by its BTF.

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

/// The reason why calls cannot be seen from the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The build had no clang that compiles the programs.
    #[error(
        "this retake was built without its programs for the kernel: {0}\n  try       sudo apt-get \
        install clang, then build retake again; or --method ptrace"
    )]
    NotBuilt(&'static str),
    /// The user lacks the privilege.
    #[error(
        "tracing in the kernel needs privilege (CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE): \
        {0}\n  try       sudo retake trace --method ebpf ..., or --method ptrace, which needs none"
    )]
    Privilege(io::Error),
    /// The kernel does not describe its types.
    #[error(
        "this kernel does not describe its types (/sys/kernel/btf/vmlinux): {0}\n  try       a \
        kernel with CONFIG_DEBUG_INFO_BTF, or --method ptrace"
    )]
    Types(String),
    /// Thread numbers have another meaning in the kernel, because this is a PID namespace.
    #[error(
        "this is a container with process numbers of its own, which the kernel's programs do not \
        see\n  try       the machine itself, or a container with --pid=host"
    )]
    Namespace,
    /// The kernel refuses the programs.
    #[error(
        "this kernel does not take the programs: {what}: {reason}\n  likely    it is older than \
        Linux 5.17, or forbids this (lockdown)\n  try       --method ptrace"
    )]
    Refused {
        /// The program, or what the programs need.
        what: String,
        /// The error of the kernel.
        reason: String,
    },
    /// A thread cannot be marked.
    #[error("thread {tid} cannot be followed from the kernel: {source}")]
    Mark {
        /// The thread.
        tid: i32,
        /// The error of the kernel. EINVAL: the kernel is older than Linux 6.9, where only whole
        /// processes can be named.
        source: io::Error,
    },
    /// Another error of the system.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Whether the build had a clang.
pub fn is_built() -> bool {
    programs::is_built()
}

/// Checks that tracing in the kernel works here: loads the programs and drops them.
///
/// # Errors The reason why it does not work.
pub fn check() -> Result<(), Error> {
    Programs::load(&Settings::default()).map(drop)
}
