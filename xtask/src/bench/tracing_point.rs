//! All figures of one load of `bench --tracing`, their result, and their row of the table.

use super::Result;
use super::figures::Outcome;
use super::gate::Finding;
use super::statistics::Series;
use super::table::{NOTHING, number};
use super::tracing_loads::Load;

/// The ways to run a load, in the order of a round.
pub const WAYS: [(&str, &[&str]); 5] = [
    ("native", &[]),
    ("in-process", &["RETAKE", "trace", "--method", "in-process", "-o", "x.ds", "--"]),
    ("ebpf", &["RETAKE", "trace", "--method", "ebpf", "-o", "ebpf.ds", "--"]),
    ("ptrace", &["RETAKE", "trace", "--method", "ptrace", "-o", "ptrace.ds", "--"]),
    ("strace", &["strace", "-f", "-xx", "-s", "65536", "-o", "strace.txt"]),
];

/// The figures of one way: the program's own seconds, and its user and system time.
#[derive(Debug, Default)]
pub struct Figures {
    pub seconds: Series,
    pub user: Series,
    pub system: Series,
}

impl Figures {
    /// Adds the times that `bash`'s `time` wrote.
    pub fn push(&mut self, said: &str) -> Result<f64> {
        let words: Vec<f64> =
            said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [seconds, user, system] = words[..] else {
            return Err(format!("not three times: {said}").into());
        };
        self.add([seconds, user, system]);
        Ok(seconds)
    }

    pub fn add(&mut self, [seconds, user, system]: [f64; 3]) {
        self.seconds.push(seconds);
        self.user.push(user);
        self.system.push(system);
    }

    fn processor_seconds(&self) -> Option<f64> {
        Some(self.user.median()? + self.system.median()?)
    }
}

/// All figures of a load.
pub struct Point {
    pub load: &'static Load,
    pub ways: [Figures; WAYS.len()],
    /// Seconds and user time of running the trace again, with all verification.
    pub again: Figures,
    /// The user time of that run, including the time to make what the program had found.
    pub whole_again: Series,
    /// The speed of conversion after the program's end, in MB of trace a second. `peak_kb` is the
    /// peak memory of `retake`.
    pub conversion: Series,
    pub peak_kb: u64,
    pub outcome: Outcome,
    /// The ways without figures.
    pub lacking: Vec<&'static str>,
}

/// A way that cannot be measured here, and the reason.
pub type Lacking = (&'static str, String);

impl Point {
    pub fn new(load: &'static Load, lacking: &[Lacking]) -> Self {
        Self {
            load,
            ways: Default::default(),
            again: Figures::default(),
            whole_again: Series::default(),
            conversion: Series::default(),
            peak_kb: 0,
            outcome: Outcome::Done,
            lacking: lacking.iter().map(|(way, _)| *way).collect(),
        }
    }

    pub fn is_noisy(&self) -> bool {
        self.outcome == Outcome::Done && self.ways[0].seconds.is_noisy()
    }

    pub fn ratio(&self, way: &str) -> Option<f64> {
        let native = &self.ways[0].seconds;
        Some(self.way(way).seconds.median()? / native.median()?)
    }

    fn processor_ratio(&self, way: &str) -> Option<f64> {
        Some(self.way(way).processor_seconds()? / self.ways[0].processor_seconds()?)
    }

    fn way(&self, name: &str) -> &Figures {
        let index = WAYS.iter().position(|(way, _)| *way == name);
        &self.ways[index.unwrap_or(0)]
    }

    /// Returns how many times faster ptrace tracing is than strace.
    fn beside_strace(&self) -> Option<f64> {
        Some(self.way("strace").seconds.median()? / self.way("ptrace").seconds.median()?)
    }

    /// Returns the ways that have a limit and are measured here.
    fn limited(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let kernel = self.load.kernel_limit.filter(|_| !self.lacking.contains(&"ebpf"));
        std::iter::once(("in-process", self.load.in_process_limit))
            .chain(kernel.map(|limit| ("ebpf", limit)))
    }

    /// Returns the ways that exceed their limits.
    fn exceeded(&self) -> Vec<&'static str> {
        let is_over =
            |(way, limit): &(&str, f64)| self.ratio(way).is_some_and(|ratio| ratio > *limit);
        self.limited().filter(is_over).map(|(way, _)| way).collect()
    }

    /// Returns the result, for the gate.
    pub fn finding(&self) -> Finding {
        if let Some(finding) = self.outcome.finding() {
            return finding;
        }
        let exceeded = self.exceeded();
        let missing = WAYS
            .iter()
            .map(|(way, _)| *way)
            .find(|way| !self.lacking.contains(way) && self.ratio(way).is_none());
        match missing {
            Some(way) => Finding::Failed(format!("no figure of {way}")),
            None if self.is_noisy() => Finding::Noisy,
            None if !exceeded.is_empty() => Finding::Over(exceeded.join(", ")),
            None => Finding::Good,
        }
    }

    pub fn cells(&self) -> Vec<String> {
        let limited = |ratio: Option<f64>, limit: Option<f64>| {
            let limit = limit
                .filter(|limit| limit.is_finite())
                .map_or(String::new(), |limit| format!(" (≤ {limit})"));
            format!("{}{limit}", number(ratio, 2))
        };
        let native = &self.ways[0];
        let again = self
            .again
            .seconds
            .median()
            .zip(native.seconds.median())
            .map(|(again, native)| again / native);
        let beside_system = |user: &Series| {
            user.median().zip(native.system.median()).map(|(user, system)| user / system.max(1e-3))
        };
        vec![
            self.load.title.to_owned(),
            number(native.seconds.median(), 3),
            native
                .seconds
                .spread()
                .map_or(NOTHING.to_owned(), |spread| format!("{:.0} %", spread * 100.0)),
            limited(self.ratio("in-process"), Some(self.load.in_process_limit)),
            number(self.processor_ratio("in-process"), 2),
            limited(self.ratio("ebpf"), self.load.kernel_limit),
            number(self.processor_ratio("ebpf"), 2),
            number(self.ratio("ptrace"), 1),
            number(self.beside_strace(), 1),
            number(self.conversion.median(), 0),
            number((self.peak_kb > 0).then_some(self.peak_kb as f64 * 1.024 / 1e3), 0),
            number(again, 2),
            number(beside_system(&self.again.user), 2),
            number(beside_system(&self.whole_again), 2),
        ]
    }
}

/// The headings of [`Point::cells`].
pub const HEADINGS: [&str; 14] = [
    "program",
    "native s",
    "spread",
    "in-process ×",
    "its CPU ×",
    "kernel ×",
    "its CPU ×",
    "ptrace ×",
    "strace / ptrace (≥ 3)",
    "conversion MB/s",
    "MB",
    "again × (≤ 1)",
    "again user / native system (≤ 1.5)",
    "with preparation",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tracing_loads::LOADS;

    #[test]
    fn figures_are_read() {
        let mut figures = Figures::default();
        assert_eq!(figures.push("1.5 0.25 0.5\n").unwrap(), 1.5);
        assert_eq!(figures.processor_seconds(), Some(0.75));
        assert!(figures.push("bash: no such file").is_err());
    }

    #[test]
    fn ratios_are_to_the_native_runs() {
        let mut point = Point::new(&LOADS[0], &[]);
        assert_eq!((point.ratio("ebpf"), point.exceeded().is_empty()), (None, true));
        for (way, seconds) in [2.0, 3.2, 3.0, 8.0, 32.0].into_iter().enumerate() {
            point.ways[way].push(&format!("{seconds} 1 1")).unwrap();
        }
        assert_eq!(
            (point.ratio("ebpf"), point.beside_strace(), point.processor_ratio("ptrace")),
            (Some(1.5), Some(4.0), Some(1.0))
        );
        assert_eq!(point.exceeded(), ["in-process"]);
        assert_eq!(point.cells().len(), HEADINGS.len());
    }

    /// Makes a point of one round with these seconds for each way, except for ways in `lacking`.
    fn point(seconds: [f64; WAYS.len()], lacking: &[Lacking]) -> Point {
        let mut point = Point::new(&LOADS[0], lacking);
        for ((name, _), (figures, seconds)) in WAYS.iter().zip(point.ways.iter_mut().zip(seconds)) {
            if !point.lacking.contains(name) {
                figures.push(&format!("{seconds} 1 1")).unwrap();
            }
        }
        point
    }

    const GOOD: [f64; WAYS.len()] = [1.0, 1.1, 1.1, 9.0, 30.0];

    #[test]
    fn every_way_that_there_is_must_be_measured() {
        assert_eq!(point(GOOD, &[]).finding(), Finding::Good);
        assert_eq!(
            point([1.0, 1.1, 5.0, 9.0, 30.0], &[]).finding(),
            Finding::Over("ebpf".to_owned())
        );
        let no_ebpf = [("ebpf", "not allowed".to_owned())];
        assert_eq!(point([1.0, 1.1, 5.0, 9.0, 30.0], &no_ebpf).finding(), Finding::Good);
        // The trial of this way worked, so it failed.
        let mut failed = point(GOOD, &no_ebpf);
        failed.lacking.clear();
        assert_eq!(failed.finding(), Finding::Failed("no figure of ebpf".to_owned()));
        failed.outcome = Outcome::of(Err("ebpf fails: x".into()));
        assert_eq!(failed.finding(), Finding::Failed("ebpf fails: x".to_owned()));
        let mut noisy = point([1.0, 9.0, 9.0, 9.0, 9.0], &[]);
        noisy.ways[0].push("2 1 1").unwrap();
        assert_eq!(noisy.finding(), Finding::Noisy);
    }
}
