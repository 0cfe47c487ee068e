//! One program: natively, recorded, and replayed under ever other conditions.

use std::fs;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::case::Case;
use crate::bench::Result;
use crate::bench::process::{Ran, Run, kill_group};

/// A program, and where to run it.
#[derive(Debug)]
pub struct Trial<'a> {
    pub case: &'a Case,
    pub retake: &'a Path,
    /// A folder of its own, which is made.
    pub folder: PathBuf,
    pub replays: usize,
}

/// How it went.
#[derive(Debug, Default)]
pub struct Report {
    pub native_seconds: Option<f64>,
    pub record_seconds: Option<f64>,
    /// The median.
    pub replay_seconds: Option<f64>,
    pub replays: usize,
    pub good_replays: usize,
    /// For people; empty if everything was right.
    pub complaints: Vec<String>,
}

/// What a run printed and how it ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    status: i32,
    output: Vec<u8>,
    errors: Vec<u8>,
}

/// Under which conditions a recording is replayed. Its work folder is gone in all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Condition {
    Plain,
    /// In a network namespace without a network.
    Unplugged,
    /// Packed, moved, and unpacked for another home of recordings.
    Moved,
}

impl Trial<'_> {
    /// Runs it all.
    ///
    /// # Errors
    /// What goes wrong in the harness itself; what the program or retake do wrong is in the report.
    pub fn run(&self) -> Result<Report> {
        let mut report = Report { replays: self.replays, ..Report::default() };
        fs::create_dir_all(&self.folder)?;
        let (native, ran) = self.run_program("native", &["bash", "script"])?;
        report.native_seconds = Some(ran.seconds);
        if native.status != self.case.status || ran.was_stopped {
            report.complaints.push(format!("natively it ends with {}, not {}: {}", native.status, self.case.status, last_line(&native.errors)));
            return Ok(report);
        }
        let recording = self.path("recording");
        let retake = self.retake.to_string_lossy();
        let (recorded, ran) = self.run_program("record", &[&retake, "record", "--check=full", "-o", &recording, "--", "bash", "script"])?;
        report.record_seconds = Some(ran.seconds);
        if ran.was_stopped || recorded.status != native.status {
            report.complaints.push(format!("recorded it ends with {}, natively {}: {}", recorded.status, native.status, last_line(&recorded.errors)));
        } else if self.case.same_output && recorded != native {
            report.complaints.push(format!("recorded it prints other things than natively: {}", difference(&native, &recorded)));
        }
        fs::remove_dir_all(self.work())?;
        let mut seconds = Vec::new();
        for number in 0..self.replays {
            self.replay(number, &recorded, &mut report, &mut seconds)?;
        }
        seconds.sort_by(f64::total_cmp);
        report.replay_seconds = seconds.get(seconds.len() / 2).copied();
        Ok(report)
    }

    fn replay(&self, number: usize, recorded: &Outcome, report: &mut Report, seconds: &mut Vec<f64>) -> Result<()> {
        let condition = match number {
            1 if is_allowed("unshare", &["-n", "true"]) => Condition::Unplugged,
            2 => Condition::Moved,
            _ => Condition::Plain,
        };
        let mut recording = self.path("recording");
        if condition == Condition::Moved {
            recording = self.move_recording()?;
        }
        let (retake, home) = (self.retake.to_string_lossy().into_owned(), self.path("home"));
        let mut command = vec![retake, "replay".to_owned(), "--check=full".to_owned(), recording];
        if condition == Condition::Unplugged {
            command.splice(0..0, ["unshare".to_owned(), "-n".to_owned()]);
        }
        let (replayed, ran) = self.run_command(&format!("replay-{number}"), &command, Path::new("/"), &home)?;
        seconds.push(ran.seconds);
        if ran.was_stopped {
            report.complaints.push(format!("replay {number} ({condition:?}) takes more than {} s", self.case.limit.as_secs()));
        } else if replayed != *recorded {
            report.complaints.push(format!("replay {number} ({condition:?}): {}", difference(recorded, &replayed)));
        } else {
            report.good_replays += 1;
        }
        Ok(())
    }

    /// Packs the recording, moves the file, and unpacks it elsewhere. The original is out of reach for as long as that takes.
    fn move_recording(&self) -> Result<String> {
        let (packed, moved, copy) = (self.path("packed"), self.path("moved.retake"), self.path("copy"));
        self.tool("home", &["pack", "-o", &packed, &self.path("recording")])?;
        fs::rename(&packed, &moved)?;
        self.tool("other-home", &["unpack", "-o", &copy, &moved])?;
        fs::remove_file(&moved)?;
        Ok(copy)
    }

    fn tool(&self, home: &str, arguments: &[&str]) -> Result<()> {
        let output = Command::new(self.retake).args(arguments).env("RETAKE_DIR", self.folder.join(home)).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("retake {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into())
    }

    /// In a fresh work folder, with what runs beside it.
    fn run_program(&self, name: &str, command: &[&str]) -> Result<(Outcome, Ran)> {
        let work = self.work();
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir_all(&work)?;
        fs::write(work.join("script"), &self.case.script)?;
        let prepared = Command::new("bash").args(["-euo", "pipefail", "-c", &self.case.prepare]).current_dir(&work).stdin(Stdio::null()).output()?;
        if !prepared.status.success() {
            return Err(format!("{}: prepare fails: {}", self.case.name, String::from_utf8_lossy(&prepared.stderr)).into());
        }
        let beside = self.start_beside(&work)?;
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let ran = self.run_command(name, &command, &work, &self.path("home"));
        if let Some(mut beside) = beside {
            kill_group(beside.id());
            beside.wait()?;
        }
        ran
    }

    fn start_beside(&self, work: &Path) -> Result<Option<Child>> {
        if self.case.beside.is_empty() {
            return Ok(None);
        }
        let mut command = Command::new("bash");
        command.args(["-c", &self.case.beside]).current_dir(work).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        for _ in 0..100 {
            if work.join("ready").exists() {
                return Ok(Some(child));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        kill_group(child.id());
        Err(format!("{}: what runs beside it makes no file `ready`", self.case.name).into())
    }

    fn run_command(&self, name: &str, command: &[String], folder: &Path, home: &str) -> Result<(Outcome, Ran)> {
        let (output, errors) = (self.folder.join(format!("{name}.out")), self.folder.join(format!("{name}.err")));
        let environment = [("RETAKE_DIR".to_owned(), PathBuf::from(home)), ("LC_ALL".to_owned(), "C".into()), ("HOME".to_owned(), self.work())];
        let run =
            Run { command, folder, environment: &environment, output: &output, errors: &errors, time_limit: self.case.limit, watched_name: None };
        let ran = run.run()?;
        Ok((Outcome { status: shell_status(ran.status), output: fs::read(output)?, errors: fs::read(errors)? }, ran))
    }

    fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }
}

/// As a shell says it: a death by signal is 128 and the signal's number.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn is_allowed(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().last().unwrap_or("nothing printed").to_owned()
}

/// What is different, for people.
fn difference(wanted: &Outcome, got: &Outcome) -> String {
    if wanted.status != got.status {
        return format!("status {}, not {}: {}", got.status, wanted.status, last_line(&got.errors));
    }
    let (name, wanted, got) =
        if wanted.output == got.output { ("error", &wanted.errors, &got.errors) } else { ("output", &wanted.output, &got.output) };
    let at = wanted.iter().zip(got).take_while(|(left, right)| left == right).count();
    let excerpt = |bytes: &[u8]| String::from_utf8_lossy(&bytes[at.min(bytes.len())..bytes.len().min(at + 60)]).into_owned();
    format!("standard {name} differs from byte {at}: {:?}, not {:?}", excerpt(got), excerpt(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told() {
        let outcome = |status, output: &str| Outcome { status, output: output.into(), errors: Vec::new() };
        assert_eq!(difference(&outcome(0, "abc"), &outcome(1, "abc")), "status 1, not 0: nothing printed");
        assert_eq!(difference(&outcome(0, "abc"), &outcome(0, "abd")), "standard output differs from byte 2: \"d\", not \"c\"");
    }
}
