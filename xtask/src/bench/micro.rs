//! `cargo xtask bench --micro`: the cost of single operations natively, armed, recorded and
//! replayed. Each is timed from outside, as the difference between many and few operations, so that
//! a replay can be timed in the same way.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Result;
use super::gate::{self, Finding};
use super::harness::Bench;
use super::machine::Machine;
use super::micro_extras::{Designs, Footprint, Forced, Starting};
use super::statistics::Series;
use super::stopwatch::Stopwatch;
use super::svg::{Bar, Chart};
use super::table::{Table, number};

/// A way to run an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Native,
    /// With syscall user dispatch armed, but all calls let through. This shows the kernel's share.
    Armed,
    Record,
    Replay,
}

impl Way {
    const ALL: [Self; 4] = [Self::Native, Self::Armed, Self::Record, Self::Replay];

    fn name(self) -> &'static str {
        ["native", "armed", "record", "replay"][self as usize]
    }
}

/// One kind of operation.
#[derive(Debug)]
struct Operation {
    name: &'static str,
    /// How many operations are timed at once.
    count: u64,
    /// The number of system calls, turns or bytes in one operation.
    units: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// System calls and instructions, in nanoseconds.
    Call,
    /// Rarer operations, in microseconds.
    Event,
    /// Bytes, in gigabytes a second.
    Payload,
}

const fn call(name: &'static str, units: u64) -> Operation {
    Operation { name, count: 300_000, units, kind: Kind::Call }
}

const fn event(name: &'static str, count: u64) -> Operation {
    Operation { name, count, units: 1, kind: Kind::Event }
}

const fn payload(name: &'static str) -> Operation {
    Operation { name, count: 8000, units: 65536, kind: Kind::Payload }
}

/// The operations, by their names in the program `operations`.
const OPERATIONS: [Operation; 33] = [
    call("getppid", 1),
    call("read", 1),
    call("write", 1),
    call("pread64", 1),
    call("lseek", 1),
    call("open-close", 2),
    call("fstat", 1),
    call("stat", 1),
    call("access", 1),
    call("readlink", 1),
    call("getdents64", 2),
    call("brk", 1),
    call("mprotect", 1),
    call("mmap-munmap", 2),
    call("sigprocmask", 1),
    call("sigaction", 1),
    call("ioctl", 1),
    call("fcntl", 1),
    call("poll", 1),
    call("epoll_wait", 1),
    call("send-recv", 2),
    call("futex", 1),
    call("getrandom", 1),
    call("clock_gettime", 1),
    call("rdtsc", 1),
    Operation { name: "cpuid", count: 20_000, units: 1, kind: Kind::Call },
    event("signal", 20_000),
    event("fork", 300),
    event("exec", 150),
    event("thread", 2000),
    payload("payload-in"),
    payload("payload-text"),
    payload("payload-out"),
];

/// The few operations are this fraction of the many.
const FEW: u64 = 100;

const QUICK_ROUNDS: usize = 3;
const FULL_ROUNDS: usize = 9;

/// The cost of one unit in nanoseconds, by way.
#[derive(Debug, Default)]
struct Cost {
    nanoseconds: [Series; Way::ALL.len()],
    /// Bytes of the recording per unit.
    log_bytes: f64,
}

impl Cost {
    fn of(&self, way: Way) -> Option<f64> {
        self.nanoseconds[way as usize].median()
    }

    /// Returns whether the native times vary too much, or many operations take no longer than few.
    fn is_noisy(&self) -> bool {
        let takes_nothing = |way| self.of(way).is_some_and(|nanoseconds| nanoseconds <= 0.0);
        self.nanoseconds[Way::Native as usize].is_noisy() || Way::ALL.into_iter().any(takes_nothing)
    }

    fn finding(&self) -> Finding {
        let missing = Way::ALL.into_iter().find(|&way| self.of(way).is_none());
        match missing {
            Some(way) => Finding::Failed(format!("no figure of {}", way.name())),
            None if self.is_noisy() => Finding::Noisy,
            None => Finding::Good,
        }
    }
}

/// All results.
#[derive(Debug)]
pub struct Micro {
    machine: Machine,
    costs: Vec<(&'static Operation, Cost)>,
    ping_pong: Cost,
    forced: Forced,
    designs: Designs,
    starting: Starting,
    footprint: Footprint,
}

/// Returns the names of all operations.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|operation| operation.name)
}

/// Measures everything, and noisy operations up to `most` times.
///
/// # Errors
/// A program does not build, or an operation fails.
pub fn run(
    bench: &Bench,
    is_quick: bool,
    most: usize,
    wants: impl Fn(&str) -> bool,
) -> Result<Micro> {
    let machine = Machine::look();
    machine.warn();
    let folder = bench.scratch().path().join("micro");
    fs::create_dir_all(&folder)?;
    let rounds = if is_quick { QUICK_ROUNDS } else { FULL_ROUNDS };
    let stopwatch = Stopwatch::new(bench, &folder);
    let quietly = |count, units, command: &dyn Fn(u64) -> Vec<String>| {
        gate::until_quiet(most, Cost::is_noisy, || {
            measure(&stopwatch, rounds, count, units, command)
        })
    };
    for program in ["operations", "futex_ping_pong", "racing_counters", "ring_designs"] {
        stopwatch.compile(program)?;
    }
    let mut costs = Vec::new();
    for operation in OPERATIONS.iter().filter(|operation| wants(operation.name)) {
        println!("{} ...", operation.name);
        let command = |count: u64| {
            vec![text(&folder.join("operations")), operation.name.to_owned(), count.to_string()]
        };
        costs.push((operation, quietly(operation.count, operation.units, &command)?));
    }
    println!("turns, forced points, rings, starting ...");
    let command = |count: u64| vec![text(&folder.join("futex_ping_pong")), count.to_string()];
    // Each round passes the baton twice.
    let ping_pong = quietly(5000, 2, &command)?;
    Ok(Micro {
        machine,
        costs,
        ping_pong,
        forced: Forced::measure(&stopwatch, rounds)?,
        designs: Designs::measure(&stopwatch, is_quick)?,
        starting: gate::until_quiet(most, Starting::is_noisy, || {
            Starting::measure(&stopwatch, rounds)
        })?,
        footprint: Footprint::measure(&stopwatch)?,
    })
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Measures an operation in all ways, a few and many in each round.
fn measure(
    stopwatch: &Stopwatch<'_>,
    rounds: usize,
    count: u64,
    units: u64,
    command: &dyn Fn(u64) -> Vec<String>,
) -> Result<Cost> {
    let mut cost = Cost::default();
    let few = (count / FEW).max(1);
    let recordings: [PathBuf; 2] = ["few", "many"].map(|name| stopwatch.folder().join(name));
    let commands = [command(few), command(count)];
    // The first round fills the store and does not count.
    for round in 0..=rounds {
        for way in Way::ALL {
            let mut seconds = [0.0; 2];
            for (index, command) in commands.iter().enumerate() {
                seconds[index] = match way {
                    Way::Native => stopwatch.native(command)?,
                    Way::Armed => {
                        stopwatch.native(&[command.as_slice(), &["armed".to_owned()]].concat())?
                    }
                    Way::Record => stopwatch.record(command, &recordings[index])?,
                    Way::Replay => stopwatch.replay(&recordings[index])?,
                };
            }
            if round > 0 {
                let whole_units = (count - few) as f64 * units as f64;
                cost.nanoseconds[way as usize]
                    .push((seconds[1] - seconds[0]).max(0.0) * 1e9 / whole_units);
            }
        }
        cost.log_bytes = stopwatch.log_bytes(&recordings[1]) as f64 / (count * units) as f64;
    }
    Ok(cost)
}

impl Micro {
    /// Returns the result of each row, for the gate.
    pub fn findings(&self) -> Vec<gate::Row> {
        let costs = self.costs.iter().map(|(operation, cost)| (operation.name, cost.finding()));
        let others = [
            ("turn", self.ping_pong.finding()),
            ("forced", self.forced.finding()),
            ("ring_designs", self.designs.finding()),
            ("starting", self.starting.finding()),
            ("footprint", self.footprint.finding()),
        ];
        costs.chain(others).map(|(name, finding)| (name.to_owned(), finding)).collect()
    }

    /// Returns all tables.
    pub fn tables(&self) -> Vec<Table> {
        let mut calls = Table::new(
            "Calls and instructions, ns each",
            &["call", "native", "armed", "recorded", "added", "replayed", "log bytes", "log MB/s"],
        );
        let mut events = Table::new(
            "Rarer events, µs each",
            &["event", "native", "recorded", "added", "replayed", "log bytes"],
        );
        let mut payloads = Table::new(
            "Payload by 64 KB, GB/s",
            &[
                "payload",
                "native",
                "recorded",
                "into the recording",
                "replayed",
                "log bytes per byte",
            ],
        );
        for (operation, cost) in &self.costs {
            match operation.kind {
                Kind::Call => calls.push(call_cells(operation.name, cost)),
                Kind::Event => events.push(event_cells(operation.name, cost)),
                Kind::Payload => payloads.push(payload_cells(operation.name, cost)),
            }
        }
        events.push(event_cells("turn (futex ping-pong)", &self.ping_pong));
        events.push(self.forced.cells());
        let mut tables: Vec<Table> =
            [calls, events, payloads].into_iter().filter(|table| !table.rows.is_empty()).collect();
        tables.extend([self.designs.table(), self.starting.table(), self.footprint.table()]);
        tables
    }

    /// Returns machine and tables as Markdown.
    pub fn markdown(&self) -> String {
        let tables: Vec<String> = self.tables().iter().map(Table::markdown).collect();
        format!("{}.\n\n{}", self.machine.describe(), tables.join("\n"))
    }

    /// Returns the same for a terminal.
    pub fn terminal(&self) -> String {
        let tables: Vec<String> = self.tables().iter().map(Table::terminal).collect();
        format!("{}\n\n{}", self.machine.describe(), tables.join("\n"))
    }

    /// Returns the chart of the cost of each call.
    pub fn chart(&self) -> Chart {
        let bar = |series: &Series| {
            Some(Bar { value: series.median()?, low: series.minimum()?, high: series.maximum()? })
        };
        let group = |(operation, cost): &(&Operation, Cost)| {
            let shown = [Way::Native, Way::Record, Way::Replay]
                .map(|way| bar(&cost.nanoseconds[way as usize]));
            (operation.name.to_owned(), shown.to_vec())
        };
        Chart {
            title: "One call".to_owned(),
            subtitle: "nanoseconds; medians, error bars from the fastest to the slowest round"
                .to_owned(),
            series: ["native", "record", "replay"].map(str::to_owned).to_vec(),
            groups: self
                .costs
                .iter()
                .filter(|(operation, _)| operation.kind == Kind::Call)
                .map(group)
                .collect(),
            reference: None,
            longest: 1000.0,
        }
    }

    /// Returns all figures, for programs.
    pub fn json(&self) -> Value {
        let cost_json = |(name, cost): (&str, &Cost)| {
            let mut figures = json!({"name": name, "log_bytes": cost.log_bytes});
            for way in Way::ALL {
                figures[way.name()] = cost.nanoseconds[way as usize].json();
            }
            figures
        };
        let operations = self.costs.iter().map(|(operation, cost)| (operation.name, cost));
        let costs = operations.chain([("turn", &self.ping_pong)]);
        json!({
            "machine": self.machine.json(),
            "nanoseconds": costs.map(cost_json).collect::<Value>(),
            "forced": self.forced.json(),
            "ring_designs": self.designs.json(),
            "starting": self.starting.json(),
            "footprint": self.footprint,
        })
    }
}

fn difference(cost: &Cost) -> Option<f64> {
    Some(cost.of(Way::Record)? - cost.of(Way::Native)?)
}

fn call_cells(name: &str, cost: &Cost) -> Vec<String> {
    let shown = |way| number(cost.of(way), 0);
    vec![
        name.to_owned(),
        shown(Way::Native),
        shown(Way::Armed),
        shown(Way::Record),
        number(difference(cost), 0),
        shown(Way::Replay),
        number(Some(cost.log_bytes), 1),
        number(
            cost.of(Way::Record)
                .filter(|&nanoseconds| nanoseconds > 0.0)
                .map(|nanoseconds| cost.log_bytes * 1e3 / nanoseconds),
            1,
        ),
    ]
}

fn event_cells(name: &str, cost: &Cost) -> Vec<String> {
    let shown =
        |nanoseconds: Option<f64>| number(nanoseconds.map(|nanoseconds| nanoseconds / 1e3), 1);
    vec![
        name.to_owned(),
        shown(cost.of(Way::Native)),
        shown(cost.of(Way::Record)),
        shown(difference(cost)),
        shown(cost.of(Way::Replay)),
        number(Some(cost.log_bytes), 0),
    ]
}

fn payload_cells(name: &str, cost: &Cost) -> Vec<String> {
    // Bytes a nanosecond are gigabytes a second.
    let shown = |nanoseconds: Option<f64>| {
        number(nanoseconds.filter(|&nanoseconds| nanoseconds > 0.0).map(f64::recip), 1)
    };
    vec![
        name.to_owned(),
        shown(cost.of(Way::Native)),
        shown(cost.of(Way::Record)),
        shown(difference(cost)),
        shown(cost.of(Way::Replay)),
        number(Some(cost.log_bytes), 2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_shown_in_their_units() {
        let mut cost = Cost { log_bytes: 3.25, ..Cost::default() };
        for (way, nanoseconds) in Way::ALL.into_iter().zip([100.0, 110.0, 150.0, 20.0]) {
            cost.nanoseconds[way as usize].push(nanoseconds);
        }
        assert_eq!(call_cells("a", &cost), ["a", "100", "110", "150", "50", "20", "3.2", "21.7"]);
        assert_eq!(event_cells("a", &cost), ["a", "0.1", "0.1", "0.1", "0.0", "3"]);
        assert_eq!(payload_cells("a", &cost), ["a", "0.0", "0.0", "0.0", "0.1", "3.25"]);
    }

    #[test]
    fn a_gate_is_told_of_missing_and_noisy_costs() {
        let cost = |figures: [&[f64]; 4]| Cost {
            nanoseconds: figures.map(|figures| Series { figures: figures.to_vec() }),
            log_bytes: 0.0,
        };
        let native = &[100.0, 110.0, 120.0][..];
        assert_eq!(cost([native, &[1.0], &[1.0], &[1.0]]).finding(), Finding::Good);
        let expected = Finding::Failed("no figure of replay".to_owned());
        assert_eq!(cost([native, &[1.0], &[1.0], &[]]).finding(), expected);
        assert_eq!(cost([&[100.0, 200.0], &[1.0], &[1.0], &[1.0]]).finding(), Finding::Noisy);
        assert_eq!(cost([native, &[1.0], &[0.0], &[1.0]]).finding(), Finding::Noisy);
    }

    #[test]
    fn the_program_knows_all_operations() {
        let source = include_str!("../../../benches/programs/operations.c");
        for operation in &OPERATIONS {
            assert!(source.contains(&format!("{{\"{}\", ", operation.name)), "{}", operation.name);
        }
    }
}
