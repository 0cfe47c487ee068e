//! The command line of `cargo xtask bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::gate;
use super::pace::Pace;
use crate::selection;

const QUICK_ROUNDS: usize = 5;
const FULL_ROUNDS: usize = 15;

/// strace is a hundred times slower than the program, and its figures need not be as exact.
const QUICK_STRACE_ROUNDS: usize = 1;
const FULL_STRACE_ROUNDS: usize = 5;
const QUICK_STRACE_LIMIT: Duration = Duration::from_secs(2);
const FULL_STRACE_LIMIT: Duration = Duration::from_secs(120);

/// The seconds that a server is driven in each run.
const QUICK_LOAD_SECONDS: u64 = 1;
const FULL_LOAD_SECONDS: u64 = 3;

/// The time for a whole benchmark. Preparations may exceed their share of it.
const QUICK_TIME: Duration = Duration::from_secs(420);
const FULL_TIME: Duration = Duration::from_secs(2400);

/// A bound, since the figures of every round are kept.
const MAXIMUM_ROUNDS: u64 = 1000;

/// The subject of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Workloads,
    /// The cost of single operations.
    Micro,
    /// The growth of cost with size.
    Scaling,
    /// The cost of tracing, and of running a trace again.
    Tracing,
    /// Counts of instructions, system calls and the like.
    Counts,
}

/// The options that select a subject other than the workloads.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Subjects {
    /// Measure what single operations cost.
    #[arg(long)]
    micro: bool,
    /// Measure how cost grows.
    #[arg(long)]
    scaling: bool,
    /// Measure what tracing costs, and running a trace again.
    #[arg(long)]
    tracing: bool,
    /// Count instructions, system calls, page faults and bytes, which noise does not change.
    #[arg(long)]
    counts: bool,
}

/// The command line.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    subjects: Subjects,
    /// Take less time: fewer rounds, smaller sizes.
    #[arg(long)]
    pub quick: bool,
    /// Measure this many rounds.
    #[arg(long, value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAXIMUM_ROUNDS))]
    rounds: Option<usize>,
    /// Measure only these; may be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only print all names.
    #[arg(long)]
    pub list: bool,
    /// Write tables and charts into docs/. Counts go to the file of limits.
    #[arg(long)]
    pub update: bool,
    /// Fail also if a limit is exceeded, or a row is noisy or skipped.
    #[arg(long)]
    pub gate: bool,
    /// Let the gate pass these rows if they are skipped for want of a program; may be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "gate")]
    pub may_skip: Vec<String>,
    /// Show a profile of workloads that exceed a limit.
    #[arg(long)]
    profile: bool,
    /// Leave the scratch folder behind.
    #[arg(long)]
    pub keep: bool,
    /// Measure in this folder.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Measure this program; without it, one is built.
    #[arg(long, value_name = "FILE")]
    pub retake: Option<PathBuf>,
}

impl Options {
    pub fn subject(&self) -> Subject {
        match self.subjects {
            Subjects { micro: true, .. } => Subject::Micro,
            Subjects { scaling: true, .. } => Subject::Scaling,
            Subjects { tracing: true, .. } => Subject::Tracing,
            Subjects { counts: true, .. } => Subject::Counts,
            _ => Subject::Workloads,
        }
    }

    pub fn rounds(&self) -> usize {
        let usual = if self.quick { QUICK_ROUNDS } else { FULL_ROUNDS };
        self.rounds.unwrap_or(usual)
    }

    /// Returns how often a noisy row is measured.
    pub fn most_measurements(&self) -> usize {
        if self.gate { gate::MOST_MEASUREMENTS } else { 1 }
    }

    /// Returns the time that all workloads may take together.
    pub fn whole_time(&self) -> Option<Duration> {
        // A user who asks for a number of rounds, or for some workloads, gets all of them.
        let whole = if self.quick { QUICK_TIME } else { FULL_TIME };
        (self.rounds.is_none() && self.only.is_empty()).then_some(whole)
    }

    /// Returns the pace of a workload that may take `share`.
    pub fn pace(&self, share: Option<Duration>) -> Pace {
        let (strace_rounds, strace_limit, load_seconds) = match self.quick {
            true => (QUICK_STRACE_ROUNDS, QUICK_STRACE_LIMIT, QUICK_LOAD_SECONDS),
            false => (FULL_STRACE_ROUNDS, FULL_STRACE_LIMIT, FULL_LOAD_SECONDS),
        };
        Pace {
            rounds: self.rounds(),
            strace_rounds: strace_rounds.min(self.rounds()),
            share,
            strace_limit,
            load_seconds,
            profile: self.profile,
        }
    }

    /// Returns whether this name is selected.
    pub fn wants(&self, name: &str) -> bool {
        selection::wants(&self.only, name)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        let line = CommandLine::try_parse_from([&["bench"], arguments].concat());
        line.map(|line| line.options)
    }

    #[test]
    fn options_are_read() {
        let options = parse(&["--quick", "--only", "a,b", "--rounds", "3", "--micro"]).unwrap();
        assert!(options.quick && !options.update && options.subject() == Subject::Micro);
        assert!(options.wants("a") && options.wants("b") && !options.wants("c"));
        assert_eq!(
            (options.rounds(), options.pace(None).strace_rounds, options.whole_time()),
            (3, 1, None)
        );
        assert_eq!(parse(&["--only", "a", "--only", "b,c"]).unwrap().only, ["a", "b", "c"]);
        let whole_time = |arguments: &[&str]| parse(arguments).unwrap().whole_time();
        assert!(whole_time(&["--quick"]) < whole_time(&[]) && whole_time(&["--quick"]).is_some());
    }

    #[test]
    fn workloads_are_measured_unless_something_else_is_asked_for() {
        let subject = |arguments: &[&str]| parse(arguments).unwrap().subject();
        assert_eq!((subject(&[]), parse(&[]).unwrap().rounds()), (Subject::Workloads, FULL_ROUNDS));
        assert_eq!(subject(&["--scaling"]), Subject::Scaling);
        assert_eq!(subject(&["--tracing"]), Subject::Tracing);
        assert_eq!(subject(&["--counts"]), Subject::Counts);
        assert!(parse(&["--micro", "--tracing"]).is_err(), "one at a time");
    }

    #[test]
    fn only_a_gate_measures_again_and_allows_skips() {
        let gate = parse(&["--gate", "--may-skip", "a,b", "--may-skip", "c"]).unwrap();
        assert_eq!((gate.may_skip.len(), gate.most_measurements()), (3, gate::MOST_MEASUREMENTS));
        assert_eq!(parse(&[]).unwrap().most_measurements(), 1);
        assert!(parse(&["--may-skip", "a"]).is_err());
    }

    #[test]
    fn wrong_options_are_refused() {
        for arguments in [&["--fast"][..], &["--rounds"], &["xz"]] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
        for rounds in ["0", "1001", "many", ""] {
            assert!(parse(&["--rounds", rounds]).is_err(), "{rounds}");
        }
        assert_eq!(parse(&["--rounds", "1000"]).unwrap().rounds(), 1000);
    }
}
