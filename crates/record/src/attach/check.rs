//! What cannot be recorded from the middle on is refused, by name, before the program is touched.

use super::freeze::Frozen;
use crate::RecordError;
use retake_kernel::maps::{self, Mapping};
use retake_kernel::process;
use retake_kernel::shared::{Header, RUNTIME_END, RUNTIME_TEXT};
use retake_snapshot::image::SharedMemory;
use std::collections::BTreeSet;
use std::io;

const CODE_OF_64_BITS: u64 = 0x33;

fn refused<T>(why: impl std::fmt::Display) -> io::Result<T> {
    Err(io::Error::other(format!("the program cannot be recorded from here on: {why}")))
}

/// Checks a process that runs.
///
/// # Errors
/// It cannot be recorded, or another process traces it.
pub(super) fn process(pid: i32) -> Result<(), RecordError> {
    let Some(state) = process::state(pid).filter(|_| process::group_leader(pid) == Some(pid))
    else {
        return Err(io::Error::other(format!("there is no process {pid}")).into());
    };
    if let Some(tracer) = process::tracer(pid) {
        return Err(RecordError::Traced { pid: tracer, name: process::name(tracer) });
    }
    match state {
        'Z' | 'X' => refused("it has ended")?,
        'T' => refused(format!("it is stopped; try kill -CONT {pid}"))?,
        _ => {}
    }
    if status_field(pid, "NSpid:").split_whitespace().count() > 1
        && status_field(std::process::id() as i32, "NSpid:").split_whitespace().count()
            != status_field(pid, "NSpid:").split_whitespace().count()
    {
        refused("it is in a PID namespace of its own")?;
    }
    let filters = |pid| status_field(pid, "Seccomp_filters:").trim().parse().unwrap_or(0);
    let (its, ours): (u32, u32) = (filters(pid), filters(std::process::id() as i32));
    if its > ours {
        refused("it filters its system calls (seccomp)")?;
    }
    let mappings = maps::of_process(pid)?;
    if mappings.iter().any(|one| one.start < RUNTIME_END && one.end > RUNTIME_TEXT) {
        refused("it is recorded already")?;
    }
    if let Some(name) = kept_by_kernel(pid) {
        refused(format!("it uses {name}"))?;
    }
    if let Some(device) = mappings.iter().find(|one| is_device(one)) {
        refused(format!("it maps a device: {}", device.name))?;
    }
    Ok(())
}

/// The descendants of a process that have not ended, parents before their children. This process,
/// and those that it makes, are none of them.
pub(super) fn descendants(pid: i32) -> Vec<i32> {
    let own = std::process::id() as i32;
    // One whose first thread alone has ended is refused by name.
    let lives = |one: &i32| !process::is_gone(*one) || process::threads(*one).nth(1).is_some();
    let others = process::all().into_iter().filter(|one| ![pid, own].contains(one));
    let mut others: Vec<(i32, i32)> =
        others.filter(lives).filter_map(|one| Some((one, process::parent(one)?))).collect();
    let (mut makers, mut found) = (vec![pid], Vec::new());
    while !makers.is_empty() {
        let (children, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(_, parent)| makers.contains(parent));
        others = rest;
        makers = children.into_iter().map(|(child, _)| child).collect();
        found.extend(&makers);
    }
    found
}

/// These processes, and all that share writable memory with them or with those. Those that we may
/// not look at belong to other users.
pub(super) fn with_sharers(mut found: Vec<i32>) -> Vec<i32> {
    let shared_by = |pid: i32| -> Option<BTreeSet<(u64, u64)>> {
        let all = maps::of_process(pid).ok()?;
        Some(shared_memory(&all).map(|one| (one.device, one.inode)).collect())
    };
    let mut known: BTreeSet<(u64, u64)> =
        found.iter().filter_map(|one| shared_by(*one)).flatten().collect();
    if known.is_empty() {
        return found;
    }
    let others = process::all().into_iter().filter(|other| !found.contains(other));
    let mut others: Vec<(i32, BTreeSet<(u64, u64)>)> =
        others.filter_map(|other| Some((other, shared_by(other)?))).collect();
    loop {
        let (sharing, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(_, shared)| !shared.is_disjoint(&known));
        if sharing.is_empty() {
            break;
        }
        others = rest;
        for (other, shared) in sharing {
            found.push(other);
            known.extend(shared);
        }
    }
    found
}

/// The mappings by which the process may share writable memory with others.
pub(super) fn shared_memory(mappings: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    mappings.iter().filter(|one| one.shared && one.writable)
}

/// Whether a mapping shares memory with the kernel.
fn is_device(mapping: &Mapping) -> bool {
    const MEMORY: [&str; 2] = ["/dev/zero", "/dev/shm/"];
    mapping.shared
        && mapping.name.starts_with("/dev/")
        && !MEMORY.iter().any(|name| mapping.name.starts_with(name))
}

/// A descriptor that the kernel works on beside the program.
fn kept_by_kernel(pid: i32) -> Option<String> {
    const NAMES: [&str; 3] = ["[io_uring]", "[userfaultfd]", "[perf_event]"];
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links
        .map(|link| link.to_string_lossy().into_owned())
        .find(|link| NAMES.iter().any(|name| link.ends_with(name)))
}

fn status_field(pid: i32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().to_owned()
}

/// Checks the threads of all processes when they are stopped, and the memory of those processes
/// that share some.
///
/// # Errors
/// They cannot be recorded.
pub(super) fn stopped(all: &[&Frozen], sharers: &[i32], header: &Header) -> io::Result<()> {
    for thread in all.iter().flat_map(|frozen| &frozen.threads) {
        if thread.registers.cs != CODE_OF_64_BITS {
            refused("it executes code of 32 bits")?;
        }
        if thread.registers.gs_base != 0 {
            refused("it uses %gs")?;
        }
    }
    SharedMemory::check(sharers, header).or_else(refused)
}
