//! `cargo xtask scrambled`: builds the product with the fields of all shared and private structures
//! in another order, and runs tests of it. Code that knows the place of a field from elsewhere than
//! the contract fails.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::bench::Result;

/// Tests that record, replay, debug, trace, and take turns in parallel.
const TESTS: [&str; 10] = [
    "programs",
    "debug_engine",
    "debug_interrupts",
    "debug_copies",
    "debug_catch",
    "kept",
    "sync_policy",
    "passages",
    "cli_trace",
    "cli_trace_ends",
];

/// Options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The seed of the order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only these tests of the command line's.
    #[arg(long, value_delimiter = ',', value_name = "TEST")]
    tests: Vec<String>,
    /// Passed on to the test programs.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Builds and tests. True if all passed.
///
/// # Errors
/// Cargo cannot be run.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // A quick build, apart from the usual ones.
    command.args([
        "test",
        "--profile",
        "mutants",
        "--package",
        "retake",
        "--target-dir",
        "target/scrambled",
    ]);
    let chosen = if options.tests.is_empty() {
        TESTS.map(str::to_owned).to_vec()
    } else {
        options.tests.clone()
    };
    for test in chosen {
        command.args(["--test", &test]);
    }
    command.arg("--").args(&options.arguments).current_dir(repository);
    command.env(retake_contract_gen::SCRAMBLE, options.seed.to_string());
    Ok(command.status()?.success())
}
