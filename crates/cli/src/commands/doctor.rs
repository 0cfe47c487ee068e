//! `retake doctor`: checks what this machine offers, what is missing, and how to fix that.

use clap::Args;
use serde::Serialize;

use crate::checks::{self, Check, State};
use crate::failure::{Failure, Result};
use crate::output::{Output, Style};

/// Options of `retake doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each line says `ok`, `limited` (recording works, something is slower or unavailable) or `missing` \
(recording cannot work), and, where possible, the command that fixes it. The status is 0 if \
recording can work, else 125.

Examples:
  retake doctor
  retake doctor --json
")]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    can_record: bool,
    checks: Vec<Check>,
}

/// Runs the checks, and prints their results.
pub fn run(options: &Options) -> Result<()> {
    let checks = checks::all();
    let can_record = checks.iter().all(|check| check.state != State::Missing);
    let mut output = Output::new();
    if options.json {
        output.json(&Report { can_record, checks })?;
    } else {
        for check in &checks {
            print(check, &mut output)?;
        }
    }
    output.finish()?;
    if can_record { Ok(()) } else { Err(Failure::new("this machine cannot record yet")) }
}

fn print(check: &Check, output: &mut Output) -> Result<()> {
    let (word, style) = match check.state {
        State::Ok => ("ok", Style::Green),
        State::Limited => ("limited", Style::Yellow),
        State::Missing => ("missing", Style::Red),
    };
    let word = output.styled(style, format!("{word:<8}"));
    output.line(format!("{word} {:<22} {}", check.name, check.detail))?;
    match &check.mend {
        Some(mend) => output.line(format!("{:9}try  {mend}", "")),
        None => Ok(()),
    }
}
