//! Runs every program of `tests/programs/` natively, recorded and replayed. Each program and mode
//! is one test.
//!
//! A test is called `MODE/PROGRAM`. Its kind is the program's group. Names on the command line
//! select tests as usual: `cargo test -p retake --test programs -- replay/signal_`.
//! `support/directives.rs` describes the comment directives in the programs.
//!
//! Environment: `RETAKE_KEEP_FOLDERS=1` keeps the folders of the tests, with their recordings, and
//! prints their paths.

mod support;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use retake_testing::{needs, report};
use rustix::process::{Resource, Rlimit, setrlimit};

use support::compile::Program;
use support::folders::Folders;
use support::modes::{self, Mode};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Programs that die of a signal would leave core files.
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, no_core).expect("lowering the core limit is always allowed");

    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let programs = match support::compile::find_programs(&sources) {
        Ok(programs) => programs,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let folders = match Folders::create(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(folders) => Arc::new(folders),
        Err(error) => {
            eprintln!("error: cannot make a folder for the tests: {error}");
            return ExitCode::FAILURE;
        }
    };
    let trials =
        programs.into_iter().flat_map(|program| trials_of(&Arc::new(program), &folders)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    folders.remove();
    conclusion.exit_code()
}

/// The trials of a program, one for each of its modes. If the machine lacks something, they are
/// ignored with a printed reason.
fn trials_of(program: &Arc<Program>, folders: &Arc<Folders>) -> Vec<Trial> {
    let lacking = program.directives.needs.iter().find_map(|need| needs::lacking(need));
    if let Some(lack) = &lacking {
        report::skip_test(&format!("programs::{}", program.name), lack.cause, &lack.reason);
    }
    program
        .directives
        .modes
        .iter()
        .map(|&mode| trial(program, mode, folders, lacking.is_some()))
        .collect()
}

fn trial(program: &Arc<Program>, mode: Mode, folders: &Arc<Folders>, ignored: bool) -> Trial {
    let name = format!("{}/{}", mode.name(), program.name);
    let kind = program.directives.group.clone();
    let program = Arc::clone(program);
    let folders = Arc::clone(folders);
    Trial::test(name, move || modes::check(&program, mode, &folders).map_err(Into::into))
        .with_kind(kind)
        .with_ignored_flag(ignored)
}
