//! The command line of `cargo xtask real` and `cargo xtask corpus`.

use std::path::PathBuf;

use super::List;
use crate::bench::Result;

/// What follows the command's name.
pub const OPTIONS: &str = "[NAME...] [--replays N] [--list] [--keep] [--scratch DIR] [--retake FILE]";

const USUAL_REPLAYS: usize = 3;
const MOST_REPLAYS: usize = 10_000;

#[derive(Debug)]
pub struct Options {
    /// Names of programs; empty for all.
    pub names: Vec<String>,
    pub replays: usize,
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
        let mut options = Self { names: Vec::new(), replays: USUAL_REPLAYS, list: false, keep: false, scratch, retake: None };
        let usage = format!("usage: cargo xtask {} {OPTIONS}", list.name);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().copied().ok_or(format!("{argument} needs a value\n{usage}"));
            match *argument {
                "--replays" => options.replays = parse_replays(value()?)?,
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

fn parse_replays(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(replays @ 1..=MOST_REPLAYS) => Ok(replays),
        _ => Err(format!("--replays needs a number from 1 to {MOST_REPLAYS}, not {text}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CORPUS;
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&CORPUS, &["redis", "--replays", "20", "nginx"]).unwrap();
        assert_eq!((options.names, options.replays), (vec!["redis".to_owned(), "nginx".to_owned()], 20));
        for wrong in [&["--replays", "0"][..], &["--fast"], &["--retake"]] {
            assert!(Options::parse(&CORPUS, wrong).is_err(), "{wrong:?}");
        }
    }
}
