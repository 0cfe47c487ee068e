//! The command line of `cargo xtask real`, `cargo xtask corpus` and `cargo xtask debugger`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::List;
use crate::bench::Result;

/// What follows the command's name.
pub const OPTIONS: &str = "[NAME...] [--only NAME,...] [--replays N | --seeks N] [--list] [--keep] [--scratch DIR] [--retake FILE]";

const USUAL_REPLAYS: usize = 3;
const MOST_REPLAYS: usize = 10_000;
const USUAL_SEEKS: usize = 100;
const MOST_SEEKS: usize = 1_000_000;

#[derive(Debug)]
pub struct Options {
    /// Names of programs; empty for all.
    pub names: Vec<String>,
    pub replays: usize,
    /// How often the debugger goes to some place of each recording.
    pub seeks: usize,
    /// Only print what there is.
    pub list: bool,
    /// Leave recordings and outputs behind.
    pub keep: bool,
    pub scratch: PathBuf,
    /// The program to test; else it is built.
    pub retake: Option<PathBuf>,
}

impl Options {
    /// Reads the command line of `list`.
    ///
    /// # Errors
    /// A mistake in it, with how it should be.
    pub fn parse(list: &List, arguments: &[&str]) -> Result<Self> {
        let scratch = std::env::temp_dir().join(format!("retake-{}-{}", list.name, std::process::id()));
        let mut options = Self { names: Vec::new(), replays: USUAL_REPLAYS, seeks: USUAL_SEEKS, list: false, keep: false, scratch, retake: None };
        let usage = format!("usage: cargo xtask {} {OPTIONS}", list.name);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().copied().ok_or(format!("{argument} needs a value\n{usage}"));
            match *argument {
                "--replays" if !list.is_debugged() => options.replays = number(argument, value()?, 1..=MOST_REPLAYS)?,
                "--seeks" if list.is_debugged() => options.seeks = number(argument, value()?, 0..=MOST_SEEKS)?,
                "--only" => options.names.extend(value()?.split(',').map(str::to_owned)),
                "--list" => options.list = true,
                "--keep" => options.keep = true,
                "--scratch" => options.scratch = PathBuf::from(value()?),
                "--retake" => options.retake = Some(PathBuf::from(value()?)),
                name if !name.starts_with('-') => options.names.push(name.to_owned()),
                _ => return Err(format!("no such option: {argument}\n{usage}").into()),
            }
        }
        Ok(options)
    }
}

fn number(option: &str, text: &str, range: RangeInclusive<usize>) -> Result<usize> {
    let parsed = text.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| format!("{option} needs a number from {} to {}, not {text}", range.start(), range.end()).into())
}

#[cfg(test)]
mod tests {
    use super::super::{CORPUS, DEBUGGER};
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&CORPUS, &["redis", "--replays", "20", "nginx"]).unwrap();
        assert_eq!((options.names, options.replays), (vec!["redis".to_owned(), "nginx".to_owned()], 20));
        let options = Options::parse(&DEBUGGER, &["--only", "race,go", "--seeks", "0"]).unwrap();
        assert_eq!((options.names, options.seeks), (vec!["race".to_owned(), "go".to_owned()], 0));
        for wrong in [&["--replays", "0"][..], &["--seeks", "1"], &["--fast"], &["--retake"]] {
            assert!(Options::parse(&CORPUS, wrong).is_err(), "{wrong:?}");
        }
    }
}
