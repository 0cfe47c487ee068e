//! The command lines of `cargo xtask real`, `corpus` and `debugger`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::List;

const USUAL_REPLAYS: usize = 3;
const MOST_REPLAYS: u64 = 10_000;
const USUAL_SEEKS: usize = 100;
const MOST_SEEKS: u64 = 1_000_000;

/// The options that all of them have.
#[derive(Debug, Args)]
pub struct Options {
    /// Programs; all if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// A program, given as an option; may be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only print all names.
    #[arg(long)]
    pub list: bool,
    /// Leave recordings and outputs behind.
    #[arg(long)]
    pub keep: bool,
    /// Run the programs in this folder.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Test this program; without it, one is built.
    #[arg(long, value_name = "FILE")]
    pub retake: Option<PathBuf>,
}

/// The command line of `cargo xtask real` and `cargo xtask corpus`.
#[derive(Debug, Args)]
pub struct Replaying {
    #[command(flatten)]
    pub options: Options,
    /// Replay each recording this often.
    #[arg(long, value_name = "N", default_value_t = USUAL_REPLAYS,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_REPLAYS))]
    pub replays: usize,
}

/// The command line of `cargo xtask debugger`.
#[derive(Debug, Args)]
pub struct Debugging {
    #[command(flatten)]
    pub options: Options,
    /// Go to this many places of each recording.
    #[arg(long, value_name = "N", default_value_t = USUAL_SEEKS,
        value_parser = RangedU64ValueParser::<usize>::new().range(0..=MOST_SEEKS))]
    pub seeks: usize,
}

impl Options {
    /// Returns the names of programs. Empty for all.
    pub fn names(&self) -> Vec<String> {
        [&self.names[..], &self.only].concat()
    }

    /// Returns the folder in which programs of `list` run.
    pub fn scratch(&self, list: &List) -> PathBuf {
        let name = format!("retake-{}-{}", list.name, std::process::id());
        self.scratch.clone().unwrap_or_else(|| std::env::temp_dir().join(name))
    }
}

#[cfg(test)]
mod tests {
    use clap::{FromArgMatches, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct CommandLine<T: Args + FromArgMatches> {
        #[command(flatten)]
        options: T,
    }

    fn parse<T: Args>(arguments: &[&str]) -> Result<T, clap::Error> {
        CommandLine::try_parse_from([&["it"], arguments].concat()).map(|line| line.options)
    }

    #[test]
    fn programs_are_named_with_and_without_an_option() {
        let names = |arguments: &[&str]| parse::<Options>(arguments).unwrap().names();
        assert!(names(&[]).is_empty());
        assert_eq!(names(&["redis", "--keep", "nginx"]), ["redis", "nginx"]);
        assert_eq!(names(&["--only", "race,go", "--only", "c++"]), ["race", "go", "c++"]);
    }

    #[test]
    fn numbers_have_limits() {
        let replays = |arguments: &[&str]| parse::<Replaying>(arguments).map(|it| it.replays).ok();
        assert_eq!(replays(&[]), Some(USUAL_REPLAYS));
        assert_eq!(replays(&["--replays", "20", "git"]), Some(20));
        assert_eq!((replays(&["--replays", "0"]), replays(&["--replays", "10001"])), (None, None));
        let seeks = |arguments: &[&str]| parse::<Debugging>(arguments).map(|it| it.seeks).ok();
        assert_eq!((seeks(&[]), seeks(&["--seeks", "0"])), (Some(USUAL_SEEKS), Some(0)));
        assert_eq!((seeks(&["--seeks", "1000001"]), seeks(&["--seeks", "x"])), (None, None));
    }

    #[test]
    fn wrong_options_are_refused() {
        for wrong in [&["--seeks", "1"][..], &["--fast"], &["--retake"]] {
            assert!(parse::<Replaying>(wrong).is_err(), "{wrong:?}");
        }
        assert!(parse::<Debugging>(&["--replays", "1"]).is_err());
    }
}
