//! The other measurements of `--micro`: forced points, designs of rings, start-up time, and memory.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::Result;
use super::gate::Finding;
use super::stage::environment;
use super::statistics::Series;
use super::stopwatch::Stopwatch;
use super::table::{NOTHING, Table, number};
use crate::watched::Watched;

/// The additions of each of two racing threads.
const RACING_ADDITIONS: &str = "400000000";

/// Seconds for each design of rings.
const QUICK_DESIGN_SECONDS: &str = "0.5";
const FULL_DESIGN_SECONDS: &str = "3";

/// The time before a process's memory is read. `APPEARING` is the time that it has to appear.
const SETTLING: Duration = Duration::from_millis(300);
const APPEARING: Duration = Duration::from_secs(5);

/// The cost of forced points: threads are stopped anywhere, and replay finds the places again.
#[derive(Debug, Default)]
pub struct Forced {
    one_core: Series,
    record: Series,
    replay: Series,
    points: Series,
}

impl Forced {
    /// # Errors
    /// A run fails.
    pub fn measure(stopwatch: &Stopwatch<'_>, rounds: usize) -> Result<Self> {
        let mut forced = Self::default();
        let program = stopwatch.folder().join("racing_counters").display().to_string();
        let command = [program, RACING_ADDITIONS.to_owned()];
        let one_core: Vec<String> =
            ["taskset", "-c", "0"].map(str::to_owned).into_iter().chain(command.clone()).collect();
        let recording = stopwatch.folder().join("forced");
        for _ in 0..rounds {
            forced.one_core.push(stopwatch.native(&one_core)?);
            forced.record.push(stopwatch.record(&command, &recording)?);
            forced.replay.push(stopwatch.replay(&recording)?);
            stopwatch.run(&stopwatch.retake(&["dump", "--kind", "forced"], &recording))?;
            forced.points.push(
                stopwatch
                    .output()?
                    .lines()
                    .filter(|line| line.contains("stopped between events"))
                    .count() as f64,
            );
        }
        Ok(forced)
    }

    /// Returns the result. Without a stopped thread the runs say nothing.
    pub fn finding(&self) -> Finding {
        let has_points = self.points.median().is_some_and(|points| points > 0.0);
        if has_points { Finding::Good } else { Finding::Failed("no thread was stopped".to_owned()) }
    }

    /// Returns the microseconds that one point adds to a series.
    fn added_us(&self, series: &Series) -> Option<f64> {
        let points = self.points.median().filter(|&points| points > 0.0)?;
        Some((series.median()? - self.one_core.median()?) * 1e6 / points)
    }

    /// Returns a row of the table of events.
    pub fn cells(&self) -> Vec<String> {
        let replayed = number(self.added_us(&self.replay), 1);
        vec![
            format!("forced point ({} of them)", number(self.points.median(), 0)),
            NOTHING.to_owned(),
            NOTHING.to_owned(),
            number(self.added_us(&self.record), 1),
            replayed,
            NOTHING.to_owned(),
        ]
    }

    pub fn json(&self) -> Value {
        json!({
            "one_core": self.one_core.json(),
            "record": self.record.json(),
            "replay": self.replay.json(),
            "points": self.points.json(),
        })
    }
}

/// A comparison of designs for logging in order from several threads.
#[derive(Debug)]
pub struct Designs {
    /// The name of each design, its million events a second, and the share of attempts without
    /// room.
    rows: Vec<(String, f64, f64)>,
}

impl Designs {
    /// # Errors
    /// The program fails.
    pub fn measure(stopwatch: &Stopwatch<'_>, is_quick: bool) -> Result<Self> {
        let seconds = if is_quick { QUICK_DESIGN_SECONDS } else { FULL_DESIGN_SECONDS };
        let program = stopwatch.folder().join("ring_designs").display().to_string();
        stopwatch.native(&[program, "2".to_owned(), seconds.to_owned()])?;
        let rows = stopwatch.output()?.lines().filter_map(design_row).collect();
        Ok(Self { rows })
    }

    pub fn finding(&self) -> Finding {
        match self.rows.is_empty() {
            true => Finding::Failed("no design was measured".to_owned()),
            false => Finding::Good,
        }
    }

    pub fn table(&self) -> Table {
        let headings = [
            "design",
            "million events/s",
            "found it full",
            "CASTOR's Figure 2, 4 cores, measured elsewhere",
        ];
        let mut table = Table::new("Rings: two producers and a drain, 64-byte events", &headings);
        for (name, rate, full) in &self.rows {
            let (title, elsewhere) = match name.as_str() {
                "lock" => ("one queue under a lock (*Lock*)", "the slowest by far"),
                "counter" => ("ring for each, one counter (*Atomic*)", "3 times *Lock*"),
                "stamp" => ("ring for each, time stamps (*TSC*)", "nearly 2 times *Atomic*"),
                "object" => ("ring for each, a number in each object", NOTHING),
                _ => ("ring for each, no order: threads that take turns, as in Retake", NOTHING),
            };
            table.push(vec![
                title.to_owned(),
                number(Some(*rate), 1),
                format!("{:.2} %", full * 100.0),
                elsewhere.to_owned(),
            ]);
        }
        table
    }

    pub fn json(&self) -> Value {
        let row = |(name, rate, full): &(String, f64, f64)| {
            json!({
                "name": name,
                "million_events_per_second": rate,
                "full": full,
            })
        };
        self.rows.iter().map(row).collect()
    }
}

fn design_row(line: &str) -> Option<(String, f64, f64)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let mut number = || words.next()?.parse::<f64>().ok().filter(|number| number.is_finite());
    Some((name, number()?, number()?))
}

/// The time of the smallest program.
#[derive(Debug, Default)]
pub struct Starting {
    native: Series,
    record: Series,
    replay: Series,
    log_bytes: u64,
}

impl Starting {
    /// # Errors
    /// A run fails.
    pub fn measure(stopwatch: &Stopwatch<'_>, rounds: usize) -> Result<Self> {
        let mut starting = Self::default();
        let command = ["/bin/true".to_owned()];
        let recording = stopwatch.folder().join("starting");
        for round in 0..=rounds {
            let times = [
                stopwatch.native(&command)?,
                stopwatch.record(&command, &recording)?,
                stopwatch.replay(&recording)?,
            ];
            if round > 0 {
                for (series, time) in
                    [&mut starting.native, &mut starting.record, &mut starting.replay]
                        .into_iter()
                        .zip(times)
                {
                    series.push(time);
                }
            }
        }
        starting.log_bytes = stopwatch.log_bytes(&recording);
        Ok(starting)
    }

    pub fn is_noisy(&self) -> bool {
        self.native.is_noisy()
    }

    pub fn finding(&self) -> Finding {
        match self.native.median() {
            None => Finding::Failed("no figure of native".to_owned()),
            Some(_) if self.is_noisy() => Finding::Noisy,
            Some(_) => Finding::Good,
        }
    }

    pub fn table(&self) -> Table {
        let mut table =
            Table::new("Starting: /bin/true, ms", &["native", "record", "replay", "log bytes"]);
        let shown = |series: &Series| number(series.median().map(|seconds| seconds * 1e3), 1);
        table.push(vec![
            shown(&self.native),
            shown(&self.record),
            shown(&self.replay),
            self.log_bytes.to_string(),
        ]);
        table
    }

    pub fn json(&self) -> Value {
        json!({
            "native": self.native.json(),
            "record": self.record.json(),
            "replay": self.replay.json(),
            "log_bytes": self.log_bytes,
        })
    }
}

/// The memory of a sleeping program, in KB of proportional set size.
#[derive(Debug, Serialize)]
pub struct Footprint {
    supervisor_kb: u64,
    native_kb: u64,
    recorded_kb: u64,
}

impl Footprint {
    /// # Errors
    /// A process does not start.
    pub fn measure(stopwatch: &Stopwatch<'_>) -> Result<Self> {
        let sleep = ["/bin/sleep".to_owned(), "1".to_owned()];
        let native = start(stopwatch, &sleep)?;
        std::thread::sleep(SETTLING);
        let native_kb = proportional_kb(native.id());
        drop(native);
        let recording = stopwatch.folder().join("footprint");
        let mut supervisor = start(stopwatch, &stopwatch.record_command(&sleep, &recording))?;
        let child = first_child(supervisor.id()).ok_or("the recorded program does not start")?;
        std::thread::sleep(SETTLING);
        let footprint = Self {
            supervisor_kb: proportional_kb(supervisor.id()),
            native_kb,
            recorded_kb: proportional_kb(child),
        };
        supervisor.wait(APPEARING);
        Ok(footprint)
    }

    /// Returns the result. Zero means that memory could not be read.
    pub fn finding(&self) -> Finding {
        match [self.supervisor_kb, self.native_kb, self.recorded_kb].contains(&0) {
            true => Finding::Failed("the memory of a process cannot be read".to_owned()),
            false => Finding::Good,
        }
    }

    pub fn table(&self) -> Table {
        let headings =
            ["supervisor MB", "the program alone MB", "the program recorded MB", "added MB"];
        let mut table = Table::new("Memory: /bin/sleep, in proportional set size", &headings);
        let added = self.recorded_kb.saturating_sub(self.native_kb);
        table.push(
            [self.supervisor_kb, self.native_kb, self.recorded_kb, added]
                .map(|kb| number(Some(kb as f64 / 1e3), 2))
                .to_vec(),
        );
        table
    }
}

fn start(stopwatch: &Stopwatch<'_>, words: &[String]) -> Result<Watched> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(stopwatch.folder()).envs(environment(stopwatch.bench()));
    Ok(Watched::start(command, Path::new("/dev/null"), Path::new("/dev/null"))?)
}

/// Returns the first child of any thread of a process. Waits until there is one.
fn first_child(process: u32) -> Option<u32> {
    let start = Instant::now();
    while start.elapsed() < APPEARING {
        for thread in fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            if let Some(child) =
                children.split_whitespace().next().and_then(|child| child.parse().ok())
            {
                return Some(child);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Returns the proportional set size, or zero if it cannot be read.
fn proportional_kb(process: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_are_read() {
        assert_eq!(design_row("lock 10.5 0.01"), Some(("lock".to_owned(), 10.5, 0.01)));
        assert_eq!(design_row("lock 10.5"), None);
        assert_eq!(design_row("lock NaN 1"), None);
    }

    #[test]
    fn points_share_what_they_add() {
        let series = |figure: f64| Series { figures: vec![figure] };
        let forced = Forced {
            one_core: series(1.0),
            record: series(1.5),
            replay: series(3.0),
            points: series(1000.0),
        };
        assert_eq!(&forced.cells()[3..5], ["500.0", "2000.0"]);
        assert_eq!(Forced::default().added_us(&series(1.0)), None);
    }

    #[test]
    fn a_gate_is_told_of_what_was_not_measured() {
        let is_good = |finding: Finding| finding == Finding::Good;
        let points = |points: &[f64]| Series { figures: points.to_vec() };
        let forced = |figures| Forced { points: points(figures), ..Forced::default() };
        assert!(is_good(forced(&[3.0]).finding()));
        assert!(!is_good(forced(&[0.0]).finding()) && !is_good(Forced::default().finding()));
        let rows = vec![("lock".to_owned(), 1.0, 0.0)];
        assert!(is_good(Designs { rows }.finding()));
        assert!(!is_good(Designs { rows: Vec::new() }.finding()));
        let starting = |figures| Starting { native: points(figures), ..Starting::default() };
        assert!(is_good(starting(&[1.0, 1.1]).finding()));
        assert_eq!(starting(&[1.0, 2.0]).finding(), Finding::Noisy);
        assert!(!is_good(Starting::default().finding()));
        let footprint = |supervisor_kb| Footprint { supervisor_kb, native_kb: 1, recorded_kb: 2 };
        assert!(is_good(footprint(3).finding()) && !is_good(footprint(0).finding()));
    }

    #[test]
    fn our_own_memory_is_seen() {
        assert!(proportional_kb(std::process::id()) > 100);
        assert_eq!(proportional_kb(0), 0);
    }
}
