//! `cargo xtask`: gen, gen --check, tidy, bench, real, corpus, debugger, mutants.

#![forbid(unsafe_code)]

mod bench;
mod mutants;
mod programs;
mod watched;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

const USAGE: &str = "usage: cargo xtask gen [--check] | tidy | bench [--quick] [OPTIONS] | real [NAME...] [OPTIONS] | \
                     corpus [NAME...] [OPTIONS] | debugger [NAME...] [OPTIONS] | mutants [OPTIONS]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let outcome = match arguments.as_slice() {
        ["gen"] => xtask::generate::write(&repository).map(|written| {
            for path in written {
                println!("wrote {path}");
            }
            true
        }),
        ["gen", "--check"] => xtask::generate::stale(&repository).map(|stale| {
            for path in &stale {
                eprintln!("{path} is not what tables/ says: run `cargo xtask gen`");
            }
            stale.is_empty()
        }),
        ["tidy"] => xtask::tidy::check(&repository).map_err(Into::into).map(|complaints| {
            for complaint in &complaints {
                eprintln!("{complaint}");
            }
            complaints.is_empty()
        }),
        ["bench", "--help" | "-h"] => {
            println!("usage: {}", bench::USAGE);
            Ok(true)
        }
        ["bench", options @ ..] => bench::run(&repository, options),
        ["mutants", options @ ..] => {
            let options = mutants::Options::try_parse_from(["mutants"].iter().chain(options)).unwrap_or_else(|error| error.exit());
            mutants::run(&repository, &options)
        }
        [name, options @ ..] => match programs::List::named(name) {
            Some(_) if matches!(options, ["--help" | "-h"]) => {
                println!("usage: cargo xtask {name} {}", programs::OPTIONS);
                Ok(true)
            }
            Some(list) => programs::run(&list, &repository, options),
            None => Err(USAGE.into()),
        },
        [] => Err(USAGE.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
