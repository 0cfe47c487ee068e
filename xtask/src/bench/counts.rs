//! `cargo xtask bench --counts`: the cost of recording and replaying in numbers that do not change
//! on a busy machine: instructions, system calls, page faults, bytes. A gate on times would fail
//! when other programs use the cores. A gate on these fails when the code has changed.
//!
//! * **Instructions** of one call: `count_steps` single-steps a recorded process, and a replayed
//!   one, from one mark in the program to the next. That is exact: the processor stops after each
//!   instruction, and with fixed addresses each run executes the same ones. Emulators cannot run
//!   the runtime: qemu has no syscall user dispatch, and valgrind hides the vDSO. Stepping from
//!   inside, with the trap flag, needs a handler of SIGTRAP, and the runtime stands between a
//!   program and its handlers. Virtual machines lack hardware counters.
//! * **System calls** and **page faults**: `count_calls` has a seccomp filter that reports each
//!   call, and reads the kernel's accounting of processes that ended. strace would collide with the
//!   supervisor, which traces a process when it executes a program. perf's software events need a
//!   privilege. Calls that wait are left out, because their number depends on timing. The rest
//!   varies by a few, since the supervisor looks after its processes every few milliseconds. That
//!   can only add calls, so the least of several runs counts.
//! * **Bytes** of events, before and after compression, come from the headers of frames.
//!
//! All runs have fixed addresses (`setarch -R`) and a fixed environment, because the stack of a
//! program is part of its recording.

mod count;
mod frames;
mod limits;
mod take;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Result;
use super::harness::Bench;
use super::machine::Machine;
use super::stopwatch::Stopwatch;
use super::table::{NOTHING, Table};
use count::Count;
use limits::{Limits, Row};
use take::Taker;

/// The file of limits.
const LIMITS: &str = "benches/counts.limits";

/// The calls of `counted`. Their instructions are counted, and their bytes in a loop of
/// `operations`.
const CALLS: [&str; 6] = ["getppid", "read", "write", "clock_gettime", "futex", "open-close"];
/// The operations whose system calls and page faults are counted, for 50 of each.
const EVENTS: [&str; 3] = ["fork", "exec", "thread"];
/// The smallest program, from its start to its end.
const WHOLE: &str = "true";

/// How often counts that exceed their limits are taken. Chance only adds, so the least counts.
const ATTEMPTS: usize = 3;

/// Returns the names of everything that is counted.
pub fn names() -> impl Iterator<Item = &'static str> {
    CALLS.into_iter().chain(EVENTS).chain([WHOLE])
}

/// All counts, with their limits.
#[derive(Debug)]
pub struct Counts {
    machine: Machine,
    counts: Vec<Count>,
    rows: Vec<Row>,
    limits: Limits,
}

/// Takes the selected counts.
///
/// # Errors
/// A mistake in the file of limits, or a count that cannot be taken. It is never skipped.
pub fn run(bench: &Bench, wants: impl Fn(&str) -> bool) -> Result<Counts> {
    let limits = Limits::read(&bench.repository().join(LIMITS))?;
    let folder = bench.scratch().path().join("counts");
    fs::create_dir_all(&folder)?;
    let taker = Taker::new(Stopwatch::new(bench, &folder))?;
    let mut counts = take(&taker, &wants)?;
    let mut rows = limits.judge(&counts, &wants);
    for _ in 1..ATTEMPTS {
        let exceeds = |name: &str| rows.iter().any(|row| row.exceeds() && row.workload() == name);
        if !names().any(exceeds) {
            break;
        }
        println!("some counts exceed their limits; once more");
        let again = take(&taker, exceeds)?;
        keep_the_least(&mut counts, &again);
        rows = limits.judge(&counts, &wants);
    }
    Ok(Counts { machine: Machine::look(), counts, rows, limits })
}

/// Takes the selected counts once.
fn take(taker: &Taker<'_>, wants: impl Fn(&str) -> bool) -> Result<Vec<Count>> {
    let mut counts = Vec::new();
    if CALLS.iter().any(|name| wants(name)) {
        println!("instructions ...");
        let all = taker.instructions()?;
        counts.extend(all.into_iter().filter(|count| wants(count.workload())));
    }
    for name in CALLS.into_iter().filter(|name| wants(name)) {
        println!("{name} ...");
        counts.extend(taker.bytes(name)?);
    }
    for name in EVENTS.into_iter().filter(|name| wants(name)) {
        println!("{name} ...");
        counts.extend(taker.calls_of_events(name)?);
    }
    if wants(WHOLE) {
        println!("{WHOLE} ...");
        counts.extend(taker.whole(WHOLE, &format!("/bin/{WHOLE}"))?);
    }
    Ok(counts)
}

fn keep_the_least(counts: &mut [Count], again: &[Count]) {
    for count in counts {
        if let Some(other) = again.iter().find(|other| other.name == count.name) {
            count.count = count.count.min(other.count);
        }
    }
}

impl Counts {
    /// Returns the complaints, one per line. Empty if each count has a limit and keeps it.
    pub fn complaints(&self) -> Vec<String> {
        if self.counts.is_empty() {
            return vec!["nothing was counted".to_owned()];
        }
        self.rows.iter().filter_map(Row::complaint).collect()
    }

    /// Makes the counts the new limits. Returns the path of their file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn update(&self, repository: &Path, wants: impl Fn(&str) -> bool) -> Result<&'static str> {
        fs::write(repository.join(LIMITS), self.limits.updated(&self.counts, wants).print())?;
        Ok(LIMITS)
    }

    pub fn terminal(&self) -> String {
        let mut table = Table::new("", &["what", "count", "limit", "+", "verdict"]);
        let shown = |number: Option<u64>| number.map_or(NOTHING.to_owned(), |it| it.to_string());
        for row in &self.rows {
            let (limit, tolerance) =
                (row.limit.map(|it| it.count), row.limit.map(|it| it.tolerance));
            let [count, limit, tolerance] = [row.count, limit, tolerance].map(shown);
            let verdict = row.verdict.text().to_owned();
            table.push(vec![row.name.clone(), count, limit, tolerance, verdict]);
        }
        format!("{}\n\n{}", self.machine.describe(), table.terminal())
    }

    /// Returns all figures, for programs.
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "name": row.name,
                "count": row.count,
                "limit": row.limit.map(|limit| limit.count),
                "tolerance": row.limit.map(|limit| limit.tolerance),
                "verdict": row.verdict.text(),
                "good": row.complaint().is_none(),
            })
        };
        let counts: Value = self.rows.iter().map(row).collect();
        json!({"machine": self.machine.json(), "counts": counts})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_know_what_is_counted() {
        let knows = |source: &str, name: &str| source.contains(&format!("{{\"{name}\", "));
        let operations = include_str!("../../../benches/programs/operations.c");
        let counted = include_str!("../../../benches/programs/counted.c");
        for name in CALLS {
            assert!(knows(operations, name) && knows(counted, name), "{name}");
        }
        assert!(EVENTS.iter().all(|name| knows(operations, name)));
    }

    #[test]
    fn the_limits_of_this_repository_are_right() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let limits = Limits::read(&repository.join(LIMITS)).unwrap();
        for name in names() {
            assert!(limits.all().any(|(row, _)| count::workload(row) == name), "{name}");
        }
        assert!(limits.all().all(|(row, _)| names().any(|name| name == count::workload(row))));
    }

    #[test]
    fn the_least_is_kept() {
        let count = |name: &str, count| Count::new(name.to_owned(), count);
        let mut counts = [count("a.x", 5), count("a.y", 5), count("b.x", 5)];
        keep_the_least(&mut counts, &[count("a.y", 4), count("a.x", 6)]);
        assert_eq!(counts, [count("a.x", 5), count("a.y", 4), count("b.x", 5)]);
    }

    #[test]
    fn a_gate_that_saw_nothing_is_closed() {
        let limits = Limits::default();
        let counts =
            Counts { machine: Machine::look(), counts: Vec::new(), rows: Vec::new(), limits };
        assert_eq!(counts.complaints(), ["nothing was counted"]);
    }
}
