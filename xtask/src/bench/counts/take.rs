//! Takes the counts, with programs of `benches/programs`.

use std::collections::BTreeMap;
use std::fs;

use super::count::Count;
use super::frames::{EventBytes, event_bytes};
use crate::bench::Result;
use crate::bench::scratch::folder_bytes;
use crate::bench::stopwatch::Stopwatch;

/// The start of every command: fixed addresses, and the same environment everywhere.
const SAME: [&str; 7] =
    ["env", "-i", "PATH=/usr/bin:/bin", "LC_ALL=C", "RETAKE_DIR=recordings", "setarch", "-R"];

/// The part of `counted` without a call.
const NOTHING: &str = "nothing";
/// The numbers of calls in two loops. The difference of their recordings is counted.
const LOOP_CALLS: [u64; 2] = [100, 10_100];
/// The same for slower operations.
const EVENTS: [u64; 2] = [2, 52];
/// The number of runs. The least of their counts is taken, since chance only adds.
const RUNS: usize = 4;

const RECORDING: &str = "recording";

/// Numbers by name.
type Numbers = BTreeMap<String, u64>;

/// Takes counts in one folder.
#[derive(Debug)]
pub struct Taker<'a> {
    stopwatch: Stopwatch<'a>,
}

impl<'a> Taker<'a> {
    /// Builds the programs.
    ///
    /// # Errors
    /// A program does not build.
    pub fn new(stopwatch: Stopwatch<'a>) -> Result<Self> {
        for program in ["counted", "count_steps", "count_calls", "operations"] {
            stopwatch.compile(program)?;
        }
        Ok(Self { stopwatch })
    }

    /// Counts the instructions of one call, without those of the program around it.
    ///
    /// # Errors
    /// A run fails. This holds for the other functions, too.
    pub fn instructions(&self) -> Result<Vec<Count>> {
        let mut counts = Vec::new();
        for (mode, arguments) in [("record", Some("./counted")), ("replay", None)] {
            let said = self.retake(&["./count_steps"], mode, arguments.as_slice())?;
            let all = least(&said)?;
            let nothing = *all.get(NOTHING).ok_or("no empty stretch was counted")?;
            for (name, number) in all.iter().filter(|(name, _)| *name != NOTHING) {
                let instructions =
                    number.checked_sub(nothing).ok_or("a call takes less than none")?;
                counts.push(Count::new(format!("{name}.{mode}.instructions"), instructions));
            }
        }
        Ok(counts)
    }

    /// Counts the bytes of 10,000 calls in a loop.
    ///
    /// # Errors
    /// See above.
    pub fn bytes(&self, name: &str) -> Result<Vec<Count>> {
        let mut both = [EventBytes { events: u64::MAX, stored: u64::MAX }; 2];
        for _ in 0..RUNS {
            for (least, calls) in both.iter_mut().zip(LOOP_CALLS) {
                let command = ["./operations", name, &calls.to_string()];
                self.retake(&[], "record", &command)?;
                let bytes = self.event_bytes()?;
                least.events = least.events.min(bytes.events);
                least.stored = least.stored.min(bytes.stored);
            }
        }
        let [few, many] = both;
        let more = |few: u64, many: u64| many.checked_sub(few).ok_or("more calls take fewer bytes");
        Ok(vec![
            Count::new(format!("{name}.log.bytes"), more(few.events, many.events)?),
            Count::new(format!("{name}.log.stored_bytes"), more(few.stored, many.stored)?),
        ])
    }

    /// Counts the system calls and page faults of 50 more forks, programs or threads.
    ///
    /// # Errors
    /// See above.
    pub fn calls_of_events(&self, name: &str) -> Result<Vec<Count>> {
        let mut both = [Numbers::new(), Numbers::new()];
        for (least, events) in both.iter_mut().zip(EVENTS) {
            *least = self.least_calls(&["./operations", name, &events.to_string()])?;
        }
        let [few, many] = both;
        let is_wanted = |(what, _): &(&String, &u64)| !what.ends_with("peak_kb");
        let more = |(what, many): (&String, &u64)| {
            // Counts that do not depend on the number of operations may be a few lower.
            Count::new(
                format!("{name}.{what}"),
                many.saturating_sub(few.get(what).copied().unwrap_or(0)),
            )
        };
        Ok(many.iter().filter(is_wanted).map(more).collect())
    }

    /// Counts everything in the run of a program that does next to nothing.
    ///
    /// # Errors
    /// See above.
    pub fn whole(&self, name: &str, program: &str) -> Result<Vec<Count>> {
        let least = self.least_calls(&[program])?;
        let mut counts: Vec<Count> = least
            .iter()
            .map(|(what, &count)| Count::new(format!("{name}.{what}"), count))
            .collect();
        let bytes = self.event_bytes()?;
        let recording = self.stopwatch.folder().join(RECORDING);
        for (what, count) in [
            ("bytes", bytes.events),
            ("stored_bytes", bytes.stored),
            ("folder_bytes", self.stopwatch.log_bytes(&recording)),
            ("file_bytes", folder_bytes(&recording.join("files"))),
        ] {
            counts.push(Count::new(format!("{name}.log.{what}"), count));
        }
        Ok(counts)
    }

    /// Counts the cost of recording and replaying a command, by `MODE.WHAT`. Leaves the recording.
    fn least_calls(&self, command: &[&str]) -> Result<Numbers> {
        let mut least = Numbers::new();
        for _ in 0..RUNS {
            for (mode, arguments) in [("record", command), ("replay", &[])] {
                let said = self.retake(&["./count_calls"], mode, arguments)?;
                for line in said.lines() {
                    let (what, number) = number_of(line)?;
                    let one = least.entry(format!("{mode}.{what}")).or_insert(u64::MAX);
                    *one = number.min(*one);
                }
            }
        }
        Ok(least)
    }

    /// Records a command, or replays that recording, under a counter. Returns the counter's output.
    fn retake(&self, counter: &[&str], mode: &str, command: &[&str]) -> Result<String> {
        let retake = self.stopwatch.bench().retake().display().to_string();
        let recording = self.stopwatch.folder().join(RECORDING);
        let mut words = [&SAME, counter, &[retake.as_str(), mode]].concat();
        if mode == "record" {
            if recording.exists() {
                fs::remove_dir_all(recording)?;
            }
            words.extend(["-o", RECORDING, "--"]);
            words.extend(command);
        } else {
            words.push(RECORDING);
        }
        self.stopwatch.run(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())?;
        self.stopwatch.output()
    }

    fn event_bytes(&self) -> Result<EventBytes> {
        event_bytes(&fs::read(self.stopwatch.folder().join(RECORDING).join("events"))?)
    }
}

/// Parses a line of a name and a number.
fn number_of(line: &str) -> Result<(&str, u64)> {
    let parsed = line.split_once(' ').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    parsed.ok_or_else(|| format!("not a name and a number: {line}").into())
}

/// Returns the least number of each name. Chance can add: a call may begin the next piece of the
/// log, or the kernel may update its clock while the vDSO reads it.
fn least(said: &str) -> Result<Numbers> {
    let mut all = Numbers::new();
    for line in said.lines() {
        let (name, number) = number_of(line)?;
        let least = all.entry(name.to_owned()).or_insert(number);
        *least = number.min(*least);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_counts() {
        let numbers = least("a 5\na 6\nb 1\na 900\n").unwrap();
        assert_eq!(
            numbers.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), 5), ("b".to_owned(), 1)]
        );
    }

    #[test]
    fn other_lines_are_refused() {
        for line in ["a", "a b", "a -1", "a 1.5", ""] {
            assert!(number_of(line).is_err(), "{line}");
        }
        assert_eq!(number_of("calls.program 7").unwrap(), ("calls.program", 7));
    }
}
