//! Runs the commands of a page in order, in a folder of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command as Process, Output, Stdio};

use retake_testing::pages::{Command, repository};
use retake_testing::shown::{Numbered, compare, translated};

use crate::cli_support::Place;
use crate::dialogue::Dialogue;

/// The command that builds retake and runs it. The test runs its own build instead.
pub const BUILD_AND_RUN: &str = "cargo run --release -p retake --";
/// The exit statuses with which retake, a shell and make report a failure.
const FAILURES: [i32; 6] = [2, 120, 124, 125, 126, 127];

/// The time limit of a command or a dialogue.
const TIME_LIMIT_S: &str = "120";

/// The state of a page's run.
pub struct Session<'place> {
    place: &'place Place,
    folder: PathBuf,
    numbered: Numbered,
    dialogue: Option<Dialogue>,
}

impl<'place> Session<'place> {
    pub fn new(place: &'place Place) -> Self {
        let programs = place.work("../programs");
        fs::create_dir(&programs).unwrap();
        let cargo = programs.join("cargo");
        let words = BUILD_AND_RUN.split(' ').count() - 1;
        fs::write(&cargo, format!("#!/bin/sh\nshift {words}\nexec retake \"$@\"\n")).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(place.work("../.gdbinit"), "set width 0\nset height 0\n").unwrap();
        Self { place, folder: place.work(""), numbered: Numbered::new(), dialogue: None }
    }

    /// Makes the files that later commands need.
    pub fn prepare(&self, script: &str) {
        let output = self.shell(&format!("set -e\n{script}")).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    }

    /// Runs a command. If it opens a dialogue, further commands go to the debugger.
    ///
    /// # Errors
    /// The output, and what is wrong with it.
    pub fn run(&mut self, command: &Command, opens: bool) -> Result<(), String> {
        let text = translated(&command.text, &self.numbered);
        let (printed, status) = if command.to_debugger {
            let dialogue = self.dialogue.as_mut().expect("a debugger runs");
            (dialogue.ask(&text), Some(0))
        } else if opens {
            let (dialogue, printed) = Dialogue::open(self.shell(&format!("exec 2>&1; {text}")));
            self.dialogue = Some(dialogue);
            (printed, Some(0))
        } else {
            self.dialogue = None;
            let Output { stdout, status, .. } = self.run_in_shell(&text);
            (String::from_utf8_lossy(&stdout).into_owned(), status.code())
        };
        let result = match &command.printed {
            Some(shown) => compare(shown, &printed, &mut self.numbered),
            None if command.to_debugger => Err("what it prints is not shown".to_owned()),
            None if status.is_some_and(|status| FAILURES.contains(&status)) => {
                Err(format!("status {status:?}"))
            }
            None => Ok(()),
        };
        result.map_err(|complaint| format!("{complaint}\nprinted:\n{printed}"))
    }

    /// Runs a command in a shell. It may change the working directory for later commands.
    fn run_in_shell(&mut self, text: &str) -> Output {
        let folder = self.place.work("../folder");
        let after = format!("status=$?; pwd > {}; exit $status", folder.display());
        let output = self.shell(&format!("exec 2>&1\n{text}\n{after}")).output().unwrap();
        if let Ok(folder) = fs::read_to_string(folder) {
            self.folder = folder.trim().into();
        }
        output
    }

    fn shell(&self, script: &str) -> Process {
        let programs = self.place.work("../programs");
        let folder = PathBuf::from(env!("CARGO_BIN_EXE_retake"));
        let folder = folder.parent().unwrap();
        let path =
            format!("{}:{}:/usr/local/bin:/usr/bin:/bin", programs.display(), folder.display());
        let arguments = ["-k", "5", TIME_LIMIT_S, "sh", "-c", script];
        let mut process = self.place.command_of("timeout", &arguments);
        process.current_dir(&self.folder).env("PATH", path).env("REPOSITORY", repository());
        process.stdout(Stdio::piped());
        process
    }
}
