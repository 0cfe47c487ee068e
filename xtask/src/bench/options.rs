//! The command line of `cargo xtask bench`.

use std::path::PathBuf;
use std::time::Duration;

use super::Result;
use super::pace::Pace;

pub const USAGE: &str = "cargo xtask bench [--micro | --scaling | --tracing] [--quick] [--rounds N] [--only NAME[,NAME]] [--list] [--update] [--gate] \
                         [--profile] [--keep] [--scratch DIR] [--retake FILE]";

const QUICK_ROUNDS: usize = 5;
const FULL_ROUNDS: usize = 15;

/// strace is a hundred times slower than what it is compared with, and need not be known as well.
const QUICK_STRACE_ROUNDS: usize = 1;
const FULL_STRACE_ROUNDS: usize = 5;
const QUICK_STRACE_LIMIT: Duration = Duration::from_secs(2);
const FULL_STRACE_LIMIT: Duration = Duration::from_secs(120);

/// How long servers are driven in each run.
const QUICK_LOAD_SECONDS: u64 = 1;
const FULL_LOAD_SECONDS: u64 = 3;

/// What a run may take, less what preparations take beyond their share.
const QUICK_TIME: Duration = Duration::from_secs(420);
const FULL_TIME: Duration = Duration::from_secs(2400);

/// Nobody waits for more, and every round's figures are kept.
const MAXIMUM_ROUNDS: usize = 1000;

/// What is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Subject {
    #[default]
    Workloads,
    /// What single operations cost.
    Micro,
    /// How cost grows.
    Scaling,
    /// What tracing costs, and running a trace again.
    Tracing,
}

/// The command line.
#[derive(Debug, Default)]
pub struct Options {
    pub subject: Subject,
    pub quick: bool,
    rounds: Option<usize>,
    /// Names; empty for all.
    pub only: Vec<String>,
    pub list: bool,
    /// Write tables and charts into docs/.
    pub update: bool,
    /// Fail if a limit is exceeded, not only if a workload fails.
    pub gate: bool,
    /// Say where the time goes in what exceeds a limit.
    profile: bool,
    /// Leave the scratch folder behind.
    pub keep: bool,
    pub scratch: Option<PathBuf>,
    pub retake: Option<PathBuf>,
}

impl Options {
    /// Reads it.
    ///
    /// # Errors
    /// A mistake, and how it is used.
    pub fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().copied().ok_or(format!("{argument} needs a value\nusage: {USAGE}"));
            match *argument {
                "--micro" => options.subject = Subject::Micro,
                "--scaling" => options.subject = Subject::Scaling,
                "--tracing" => options.subject = Subject::Tracing,
                "--quick" => options.quick = true,
                "--list" => options.list = true,
                "--update" => options.update = true,
                "--gate" => options.gate = true,
                "--profile" => options.profile = true,
                "--keep" => options.keep = true,
                "--rounds" => options.rounds = Some(parse_rounds(value()?)?),
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--scratch" => options.scratch = Some(PathBuf::from(value()?)),
                "--retake" => options.retake = Some(PathBuf::from(value()?)),
                _ => return Err(format!("no such option: {argument}\nusage: {USAGE}").into()),
            }
        }
        Ok(options)
    }

    pub fn rounds(&self) -> usize {
        let usual = if self.quick { QUICK_ROUNDS } else { FULL_ROUNDS };
        self.rounds.unwrap_or(usual)
    }

    /// What all workloads may take together.
    pub fn whole_time(&self) -> Option<Duration> {
        // Somebody who says how many rounds, or which workloads, wants them.
        let whole = if self.quick { QUICK_TIME } else { FULL_TIME };
        (self.rounds.is_none() && self.only.is_empty()).then_some(whole)
    }

    /// How a workload is measured that may take `share`.
    pub fn pace(&self, share: Option<Duration>) -> Pace {
        let (strace_rounds, strace_limit, load_seconds) = match self.quick {
            true => (QUICK_STRACE_ROUNDS, QUICK_STRACE_LIMIT, QUICK_LOAD_SECONDS),
            false => (FULL_STRACE_ROUNDS, FULL_STRACE_LIMIT, FULL_LOAD_SECONDS),
        };
        Pace { rounds: self.rounds(), strace_rounds: strace_rounds.min(self.rounds()), share, strace_limit, load_seconds, profile: self.profile }
    }

    /// Whether something of this name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

fn parse_rounds(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(rounds @ 1..=MAXIMUM_ROUNDS) => Ok(rounds),
        _ => Err(format!("--rounds needs a number from 1 to {MAXIMUM_ROUNDS}, not {text}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--quick", "--only", "a,b", "--rounds", "3", "--micro"]).unwrap();
        assert!(options.quick && !options.update && options.subject == Subject::Micro);
        assert!(options.wants("a") && options.wants("b") && !options.wants("c"));
        assert_eq!((options.rounds(), options.pace(None).strace_rounds, options.whole_time()), (3, 1, None));
        assert_eq!(Options::parse(&[]).unwrap().rounds(), FULL_ROUNDS);
        let whole_time = |arguments: &[&str]| Options::parse(arguments).unwrap().whole_time();
        assert!(whole_time(&["--quick"]) < whole_time(&[]) && whole_time(&["--quick"]).is_some());
    }

    #[test]
    fn wrong_options_are_refused() {
        for arguments in [&["--fast"][..], &["--rounds"], &["--rounds", "0"], &["--rounds", "many"]] {
            assert!(Options::parse(arguments).is_err(), "{arguments:?}");
        }
    }
}
