//! Runs the built `retake` in folders of its own.

// Each test file uses only a part.
#![allow(dead_code)]

pub mod altered_copy;
pub mod debugging;
pub mod parallel;
pub mod started;
pub mod traces;

use retake_testing::c::compiler;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// The time limit of a command.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Compiles a C program of the folder `tests/`, whose name is given without its extension.
pub fn compile_program(program: &str, options: &[&str], executable: &Path) {
    compile_with(
        &compiler(),
        &format!("{program}.c"),
        &[&["-std=gnu11", "-pthread"], options].concat(),
        executable,
    );
}

/// Compiles a program of the folder `tests/faults` into the place, and returns its path.
pub fn compile_fault(place: &Place, name: &str, options: &[&str]) -> String {
    let executable = place.work(name);
    compile_program(&format!("faults/{name}"), &[&["-O1"], options].concat(), &executable);
    executable.to_str().unwrap().to_owned()
}

/// Compiles a program of the folder `tests/` with the given compiler.
pub fn compile_with(compiler: &str, source: &str, options: &[&str], executable: &Path) {
    let output = Command::new(compiler)
        .arg("-o")
        .arg(executable)
        .arg(source_file(source))
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The path of a file in the folder `tests/`.
pub fn source_file(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(source)
}

/// Whether the images in a folder up to this number are dropped, and there is another one.
pub fn has_dropped_image(folder: &Path, number: u64) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = names.filter_map(|name| name.parse::<u64>().ok());
    numbers.min().is_some_and(|first| first > number)
}

/// The folders of one test. They are removed when the test succeeds.
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// Creates empty folders.
    pub fn new(test: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("cli-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for folder in ["work", "scratch"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        Self { root }
    }

    /// A path in the folder in which commands run.
    pub fn work(&self, name: &str) -> PathBuf {
        self.root.join("work").join(name)
    }

    /// The entries of the folder of recordings.
    pub fn recordings(&self) -> Vec<String> {
        names(&self.root.join("retake/recordings"))
    }

    /// The path of a recording.
    pub fn recording(&self, name: &str) -> PathBuf {
        self.root.join("retake/recordings").join(name)
    }

    /// The names of the stored files of a recording made with `-o`.
    pub fn files_of(&self, name: &str) -> Vec<String> {
        names(&self.work(name).join("files"))
    }

    /// The names in replay's folder for scratch files.
    pub fn scratch(&self) -> Vec<String> {
        names(&self.root.join("scratch"))
    }

    /// The command with some arguments, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_retake"), arguments)
    }

    /// A program in the environment of the tests, not started yet.
    pub fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        // The tests may run with ignored signals, for example under nohup. Programs would inherit
        // that.
        let mut command = Command::new("setpriv");
        command
            // Nothing may live on when the tests are killed.
            .args(["--pdeathsig", "KILL", "env", "--default-signal", program])
            .args(arguments)
            .current_dir(self.root.join("work"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.root)
            .env("LC_ALL", "C")
            .env("RETAKE_DIR", self.root.join("retake"))
            .env("TMPDIR", self.root.join("scratch"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the command.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_within(arguments, TIME_LIMIT)
    }

    /// Runs the command with a time limit.
    pub fn run_within(&self, arguments: &[&str], limit: Duration) -> Ran {
        self.run_command(arguments, limit, |_| {})
    }

    /// Runs the command in an environment that `change` modifies.
    pub fn run_command(
        &self,
        arguments: &[&str],
        limit: Duration,
        change: impl FnOnce(&mut Command),
    ) -> Ran {
        let mut command = self.command(arguments);
        change(&mut command);
        let child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (ended, has_ended) = mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            let is_late = has_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if let (true, Some(group)) = (is_late, group) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            is_late
        });
        let output = child.wait_with_output().unwrap();
        drop(ended);
        let ran = Ran::of(output, arguments);
        assert!(!watch.join().unwrap(), "took too long: {ran:?}");
        ran
    }

    /// Runs the command. It must succeed, and print nothing on standard error.
    pub fn run_well(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        ran.stdout
    }

    /// Runs the command. It must succeed, and print JSON.
    pub fn run_json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run_well(arguments)).expect("JSON")
    }

    /// Runs the command. It must fail with this status and an error that contains all of `parts`.
    pub fn run_badly(&self, arguments: &[&str], status: i32, parts: &[&str]) {
        let ran = self.run(arguments);
        assert_eq!(ran.status, Some(status), "{ran:?}");
        assert!(ran.stderr.contains("error: "), "{ran:?}");
        for part in parts {
            assert!(ran.stderr.contains(part), "{part:?} is not in {ran:?}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    pub arguments: Vec<String>,
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output, arguments: &[&str]) -> Self {
        Self {
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            status: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
