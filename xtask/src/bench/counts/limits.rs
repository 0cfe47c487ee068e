//! The limits of counts: a file of lines `NAME = COUNT + TOLERANCE`, `#` for comments. A count
//! fails if it exceeds the sum. A count without a limit fails, and so does a limit without a count.

use std::collections::BTreeMap;
use std::path::Path;

use super::count::{Count, workload};
use crate::bench::Result;

/// The beginning of the file.
const PREFACE: &str = "\
# The limits of `cargo xtask bench --counts`, which writes this file with --update: the count, and by
# how much it may be exceeded. docs/BENCHMARKS.md (\"Counts\") says what is counted. Tolerances are kept;
# change them here. Compilers, C libraries and kernels have some influence: these were counted on
# Debian 12 with gcc 12.
";

/// The tolerances of new counts, by the end of the name: a percentage of the count, and a number to
/// add.
const USUAL_TOLERANCES: [(&str, u64, u64); 8] = [
    // Another compiler can change the runtime.
    (".instructions", 3, 5),
    (".calls.program", 1, 5),
    // The supervisor looks after its processes every few milliseconds.
    (".calls.supervisor", 5, 40),
    (".faults.program", 2, 10),
    (".faults.supervisor", 5, 30),
    // Two thirds are pages of our own file. The kernel maps them 16 at a time around each that is
    // touched, so moving code moves this by half a megabyte.
    (".peak_kb", 5, 1200),
    // Exact but for paths.
    (".log.bytes", 0, 256),
    // Pieces are compressed as they arrive.
    ("_bytes", 5, 512),
];

/// A count and its tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub count: u64,
    pub tolerance: u64,
}

/// All limits, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Limits(BTreeMap<String, Limit>);

/// The result for one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// It is lower by more than the tolerance, so the limit should be lowered.
    Less,
    Over,
    /// It has a limit, but was not counted.
    Missing,
    /// It was counted, but has no limit.
    Unknown,
}

/// A count with its limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    pub count: Option<u64>,
    pub limit: Option<Limit>,
    pub verdict: Verdict,
}

impl Limits {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake, with its line.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        Self::parse(&text).map_err(|error| format!("{shown}:{error}").into())
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut limits = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let line_number = index + 1;
            let (name, limit) = parse_line(line)
                .ok_or_else(|| format!("{line_number}: not `NAME = COUNT + TOLERANCE`"))?;
            if limits.insert(name.clone(), limit).is_some() {
                return Err(format!("{line_number}: {name} has a limit already"));
            }
        }
        Ok(Self(limits))
    }

    /// Returns the text of the file.
    pub fn print(&self) -> String {
        let line = |(name, limit): (&String, &Limit)| {
            format!("{name} = {} + {}\n", limit.count, limit.tolerance)
        };
        std::iter::once(PREFACE.to_owned()).chain(self.0.iter().map(line)).collect()
    }

    /// Returns names and limits.
    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = (&str, Limit)> {
        self.0.iter().map(|(name, &limit)| (name.as_str(), limit))
    }

    /// Returns a row for every count and every limit of the selected workloads, in the order of
    /// names.
    pub fn judge(&self, counts: &[Count], wants: impl Fn(&str) -> bool) -> Vec<Row> {
        let mut both: BTreeMap<&str, (Option<u64>, Option<Limit>)> = BTreeMap::new();
        for count in counts {
            both.entry(&count.name).or_default().0 = Some(count.count);
        }
        for (name, &limit) in self.0.iter().filter(|(name, _)| wants(workload(name))) {
            both.entry(name).or_default().1 = Some(limit);
        }
        let row = |(name, (count, limit)): (&str, (Option<u64>, Option<Limit>))| Row {
            name: name.to_owned(),
            count,
            limit,
            verdict: Verdict::of(count, limit),
        };
        both.into_iter().map(row).collect()
    }

    /// Returns the counts as new limits, with the old tolerances. Limits of other workloads stay.
    pub fn updated(&self, counts: &[Count], wants: impl Fn(&str) -> bool) -> Self {
        let others = self.0.iter().filter(|(name, _)| !wants(workload(name)));
        let mut limits: BTreeMap<_, _> =
            others.map(|(name, &limit)| (name.clone(), limit)).collect();
        for count in counts {
            let known = self.0.get(&count.name).map(|limit| limit.tolerance);
            let tolerance = known.unwrap_or_else(|| usual_tolerance(count));
            limits.insert(count.name.clone(), Limit { count: count.count, tolerance });
        }
        Self(limits)
    }
}

fn parse_line(line: &str) -> Option<(String, Limit)> {
    let (name, numbers) = line.split_once('=')?;
    let (count, tolerance) = numbers.split_once('+')?;
    let number = |text: &str| text.trim().parse().ok();
    Some((name.trim().to_owned(), Limit { count: number(count)?, tolerance: number(tolerance)? }))
}

fn usual_tolerance(count: &Count) -> u64 {
    let usual = USUAL_TOLERANCES.iter().find(|(ending, ..)| count.name.ends_with(ending));
    usual.map_or(0, |(_, percent, number)| count.count * percent / 100 + number)
}

impl Verdict {
    fn of(count: Option<u64>, limit: Option<Limit>) -> Self {
        match (count, limit) {
            (_, None) => Self::Unknown,
            (None, Some(_)) => Self::Missing,
            (Some(count), Some(limit)) if count > limit.count + limit.tolerance => Self::Over,
            (Some(count), Some(limit)) if count + limit.tolerance < limit.count => Self::Less,
            _ => Self::Good,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Less => "less: --update lowers the limit",
            Self::Over => "OVER",
            Self::Missing => "MISSING: it was not counted",
            Self::Unknown => "UNKNOWN: it has no limit",
        }
    }
}

impl Row {
    /// Returns whether the count exceeds its limit.
    pub fn exceeds(&self) -> bool {
        self.verdict == Verdict::Over
    }

    pub fn workload(&self) -> &str {
        workload(&self.name)
    }

    /// Returns the complaint about the row, if there is any.
    pub fn complaint(&self) -> Option<String> {
        match (self.verdict, self.count, self.limit) {
            (Verdict::Good | Verdict::Less, ..) => None,
            (Verdict::Over, Some(count), Some(limit)) => {
                let (allowed, tolerance) = (limit.count, limit.tolerance);
                Some(format!("{}: {count} exceeds {allowed} + {tolerance}", self.name))
            }
            (verdict, ..) => Some(format!("{}: {}", self.name, verdict.text())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Vec<Count> {
        all.iter().map(|&(name, count)| Count::new(name.to_owned(), count)).collect()
    }

    fn complaints(limits: &str, all: &[(&str, u64)]) -> Vec<String> {
        let rows = Limits::parse(limits).unwrap().judge(&counts(all), |_| true);
        rows.iter().filter_map(Row::complaint).collect()
    }

    #[test]
    fn what_exceeds_its_limit_fails() {
        let limits = "a.x = 100 + 5\n";
        for count in [0, 94, 95, 100, 105] {
            assert!(complaints(limits, &[("a.x", count)]).is_empty(), "{count}");
        }
        assert_eq!(complaints(limits, &[("a.x", 106)]), ["a.x: 106 exceeds 100 + 5"]);
        assert_eq!(complaints("a.x = 100 + 0\n", &[("a.x", 101)]), ["a.x: 101 exceeds 100 + 0"]);
    }

    #[test]
    fn what_is_missing_or_unknown_fails() {
        let missing = complaints("a.x = 1 + 0\nb.y = 1 + 0\n", &[("a.x", 1)]);
        assert_eq!(missing, ["b.y: MISSING: it was not counted"]);
        let unknown = complaints("a.x = 1 + 0\n", &[("a.x", 1), ("c.z", 0)]);
        assert_eq!(unknown, ["c.z: UNKNOWN: it has no limit"]);
    }

    #[test]
    fn limits_of_other_workloads_are_not_missing() {
        let limits = Limits::parse("a.x = 1 + 0\nb.y = 1 + 0\n").unwrap();
        let rows = limits.judge(&counts(&[("a.x", 1)]), |name| name == "a");
        assert_eq!(rows.iter().map(|row| row.verdict).collect::<Vec<_>>(), [Verdict::Good]);
    }

    #[test]
    fn much_less_is_told() {
        assert_eq!(Verdict::of(Some(94), Some(Limit { count: 100, tolerance: 5 })), Verdict::Less);
        assert_eq!(Verdict::of(Some(95), Some(Limit { count: 100, tolerance: 5 })), Verdict::Good);
    }

    #[test]
    fn an_update_keeps_tolerances_and_what_was_not_counted() {
        let old = "a.record.instructions = 100 + 7\na.gone = 1 + 1\nb.x = 5 + 2\n";
        let all = counts(&[("a.record.instructions", 90), ("a.replay.instructions", 200)]);
        let updated = Limits::parse(old).unwrap().updated(&all, |name| name == "a");
        let expected =
            "a.record.instructions = 90 + 7\na.replay.instructions = 200 + 11\nb.x = 5 + 2\n";
        assert_eq!(updated, Limits::parse(expected).unwrap());
        assert_eq!(Limits::parse(&updated.print()).unwrap(), updated);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            ("# why\na.x = 1\n", "2: not `NAME = COUNT + TOLERANCE`"),
            ("a.x = 1 + -1\n", "1: not `NAME = COUNT + TOLERANCE`"),
            ("a.x = 1 + 1\na.x = 2 + 1\n", "2: a.x has a limit already"),
        ] {
            assert_eq!(Limits::parse(text), Err(expected.to_owned()));
        }
    }
}
