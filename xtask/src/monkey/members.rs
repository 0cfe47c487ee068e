//! The processes of a run: all that are in its process namespace, but for the harness.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use crate::watched::POLL;

/// Children that have ended, by their numbers. As the first process of the namespace, the harness
/// inherits orphans too.
#[derive(Debug, Default)]
pub struct Ended(BTreeMap<i32, WaitStatus>);

impl Ended {
    /// How a child ended, if it has.
    fn of(&mut self, child: u32) -> Option<WaitStatus> {
        self.reap();
        self.0.get(&(child as i32)).copied()
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            self.0.insert(pid.as_raw_nonzero().get(), status);
        }
    }

    /// Waits for a child, but no longer than `limit`.
    pub fn wait(&mut self, child: u32, limit: Duration) -> Option<WaitStatus> {
        let start = Instant::now();
        loop {
            let status = self.of(child);
            if status.is_some() || start.elapsed() >= limit {
                return status;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until no process is left, but no longer than `limit`. Returns those that are left.
    pub fn wait_for_all(&mut self, limit: Duration) -> Vec<Pid> {
        let start = Instant::now();
        loop {
            self.reap();
            let left = all();
            if left.is_empty() || start.elapsed() >= limit {
                return left;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// All processes but this one and zombies.
pub fn all() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut members: Vec<Pid> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != 1 && state(pid).is_some_and(|state| state != 'Z'))
        .filter_map(Pid::from_raw)
        .collect();
    members.sort_by_key(|pid| pid.as_raw_nonzero());
    members
}

/// Sends a signal. A process that has ended meanwhile is no mistake.
pub fn send(member: Pid, signal: Signal) {
    let _ = kill_process(member, signal);
}

fn state(pid: i32) -> Option<char> {
    state_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the state letter in the text of a `stat` file.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The arguments of a process, with spaces between them; empty if it has ended.
pub fn command_line(member: Pid) -> String {
    let path = format!("/proc/{}/cmdline", member.as_raw_nonzero());
    fs::read_to_string(path).unwrap_or_default().replace('\0', " ")
}

/// What a process is, and what each of its threads waits for, in a line each.
pub fn describe(member: Pid) -> String {
    let pid = member.as_raw_nonzero();
    let mut text = format!("{pid}: {}", command_line(member));
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return text };
    for thread in threads.flatten() {
        let file = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let state = state_in(&file("stat")).unwrap_or('?');
        let (wchan, call) = (file("wchan"), file("syscall"));
        text += &format!("\n    {state} {wchan} {}", call.trim_end());
    }
    text
}
