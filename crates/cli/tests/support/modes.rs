//! The modes in which a program is tested, and what each demands.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::compile::Program;
use super::folders::{Folders, TestFolder};
use super::run::{self, Outcome, Surroundings, excerpt};

/// A way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Without Retake. It proves that the program itself is right.
    Native,
    /// Recorded. The status must be the same, and the output too if every run prints the same.
    Record,
    /// Recorded once and replayed twice. Status and output must be those of the recording.
    Replay,
    /// As `Replay`, but every system call takes the slow path.
    Slow,
    /// Traced. It ends as natively, and the trace has its beginning and its end. If every run makes
    /// the same calls, the trace has each as often as a recording.
    Trace,
}

impl Mode {
    /// Every mode, in the order of the tests.
    pub const ALL: [Self; 5] = [Self::Native, Self::Record, Self::Replay, Self::Slow, Self::Trace];

    /// The name in directives and in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Record => "record",
            Self::Replay => "replay",
            Self::Slow => "slow",
            Self::Trace => "trace",
        }
    }
}

/// A program in one mode.
struct Test<'run> {
    program: &'run Program,
    executable: PathBuf,
    folder: TestFolder,
    home: PathBuf,
}

/// Runs a program in a mode.
///
/// # Errors
/// A message about a difference from the program's directives.
pub fn check(program: &Program, mode: Mode, folders: &Folders) -> Result<(), String> {
    let folder = folders
        .for_test(&format!("{}/{}", mode.name(), program.name))
        .map_err(|error| format!("cannot make a folder: {error}"))?;
    let test = Test { program, executable: program.executable()?, folder, home: folders.home() };
    match mode {
        Mode::Native => test.native().map(drop),
        Mode::Record => test.record_only(),
        Mode::Replay => test.record_and_replay(&[]),
        Mode::Slow => test.record_and_replay(&["--no-fast-path"]),
        Mode::Trace => test.trace(),
    }
}

impl Test<'_> {
    fn native(&self) -> Result<Outcome, String> {
        let mut command = Command::new(&self.executable);
        command.args(&self.program.directives.arguments);
        let outcome = self.run("native", command)?;
        self.demand_directives(&outcome)?;
        Ok(outcome)
    }

    fn record_only(&self) -> Result<(), String> {
        let recorded = self.record(&[])?;
        if self.program.directives.same_output {
            demand_same_output(&self.native()?, &recorded, "the native run")?;
        }
        Ok(())
    }

    fn trace(&self) -> Result<(), String> {
        let trace = self.folder.path_of("trace.txt");
        let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
        command
            .arg("trace")
            .arg("-o")
            .arg(&trace)
            .arg("--")
            .arg(&self.executable)
            .args(&self.program.directives.arguments);
        let traced = self.run("trace", command)?;
        self.demand_directives(&traced)?;
        let text = std::fs::read_to_string(&trace)
            .map_err(|error| format!("cannot read the trace: {error}"))?;
        let ends = text
            .lines()
            .any(|line| line.contains("+++ exited with ") || line.contains("+++ killed by "));
        let begins = text.lines().next().is_some_and(|line| line.contains("execve("));
        if !begins || !ends {
            return Err(format!(
                "the trace lacks its beginning or end:\n{}",
                excerpt("trace", text.as_bytes())
            ));
        }
        if self.program.directives.same_output {
            demand_same_output(&self.native()?, &traced, "the native run")?;
        }
        if self.program.directives.makes_same_calls() { self.demand_calls(&text) } else { Ok(()) }
    }

    /// Checks that the trace has the same calls as a recording, each equally often.
    fn demand_calls(&self, trace: &str) -> Result<(), String> {
        self.record(&[])?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
        command.args(["info", "--json", "--calls"]).arg(self.recording());
        let info = self.run("info", command)?;
        let info: serde_json::Value =
            serde_json::from_slice(&info.stdout).map_err(|error| format!("info: {error}"))?;
        let calls = info["calls"].as_object().ok_or("info has no calls")?;
        let count = |call: &serde_json::Value| call["count"].as_u64().unwrap_or(0);
        let mut recorded: BTreeMap<&str, u64> =
            calls.iter().map(|(name, call)| (name.as_str(), count(call))).collect();
        let mut traced: BTreeMap<&str, u64> = BTreeMap::new();
        trace.lines().filter_map(begun_call).for_each(|name| *traced.entry(name).or_default() += 1);
        for counts in [&mut recorded, &mut traced] {
            // A recording has events of other kinds for exits and executed programs.
            counts.retain(|name, _| !["exit", "exit_group", "execve", "execveat"].contains(name));
        }
        if recorded == traced {
            Ok(())
        } else {
            Err(format!("a recording has the calls\n{recorded:?}\nthe trace\n{traced:?}"))
        }
    }

    fn record_and_replay(&self, options: &[&str]) -> Result<(), String> {
        let recorded = self.record(options)?;
        for name in ["replay-1", "replay-2"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
            command.args(["replay", "--check=full"]).arg(self.recording());
            let replayed = self.run(name, command)?;
            if replayed.ending != recorded.ending {
                return Err(format!(
                    "recording ended with {}, but\n{}",
                    recorded.ending,
                    replayed.describe()
                ));
            }
            demand_same_output(&recorded, &replayed, "the recording")?;
        }
        Ok(())
    }

    /// Records the program, and checks the result like that of a native run.
    fn record(&self, options: &[&str]) -> Result<Outcome, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
        command.arg("record").arg("-o").arg(self.recording()).arg("--check=full").args(options);
        command.arg("--").arg(&self.executable).args(&self.program.directives.arguments);
        let outcome = self.run("record", command)?;
        self.demand_directives(&outcome)?;
        Ok(outcome)
    }

    fn recording(&self) -> PathBuf {
        self.folder.path_of("recording")
    }

    /// Runs a command in its own working folder. A replay gets an empty folder and no input: all
    /// that it reads must come from the recording.
    fn run(&self, name: &str, command: Command) -> Result<Outcome, String> {
        let is_replay = name.starts_with("replay");
        let surroundings = Surroundings {
            folder: self
                .folder
                .inner(name)
                .map_err(|error| format!("cannot make a folder: {error}"))?,
            streams: self.folder.path_of(name),
            home: self.home.clone(),
            stdin: if is_replay { "" } else { &self.program.directives.stdin },
        };
        // The tests may run with ignored signals, for example under nohup. The program would
        // inherit that.
        let mut without_ignored = Command::new("env");
        without_ignored.arg("--default-signal").arg(command.get_program()).args(command.get_args());
        run::run(without_ignored, &surroundings)
    }

    fn demand_directives(&self, outcome: &Outcome) -> Result<(), String> {
        let directives = &self.program.directives;
        if !outcome.ending.passes_on(directives.ending) {
            return Err(format!("expected {}, but\n{}", directives.ending, outcome.describe()));
        }
        let streams =
            [(&directives.stdout, &outcome.stdout), (&directives.stderr, &outcome.stderr)];
        for (expressions, bytes) in streams {
            let text = String::from_utf8_lossy(bytes);
            for expression in expressions.iter() {
                if !expression.is_match(&text) {
                    return Err(format!(
                        "nothing printed matches {expression}\n{}",
                        outcome.describe()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The text without the recorder's messages to its user.
fn without_notices(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"retake: runtime: ")).flatten().copied().collect()
}

fn demand_same_output(expected: &Outcome, actual: &Outcome, what: &str) -> Result<(), String> {
    let streams = [
        ("stdout", &expected.stdout, &actual.stdout),
        ("stderr", &expected.stderr, &actual.stderr),
    ];
    for (name, expected_bytes, actual_bytes) in streams {
        let expected_bytes = without_notices(expected_bytes);
        if let Some(at) = first_difference(&expected_bytes, actual_bytes) {
            let shown = excerpt(&format!("{name} of {what}"), &expected_bytes);
            return Err(format!(
                "{name} differs from {what}'s at byte {at}\n{shown}{}",
                actual.describe()
            ));
        }
    }
    Ok(())
}

/// The name of the call that begins in a line of a trace; `None` for signals, ends, and second
/// parts of calls.
fn begun_call(line: &str) -> Option<&str> {
    let line = line
        .strip_prefix("[pid")
        .and_then(|line| line.split_once("] "))
        .map_or(line, |(_, line)| line);
    let line = line.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ' ');
    let (name, _) = line.split_once('(')?;
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// The index of the first byte at which two outputs differ. That may be the end of the shorter one.
fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    if left == right {
        return None;
    }
    let common = left.iter().zip(right).take_while(|(one, other)| one == other).count();
    Some(common)
}
