//! One program: runs it natively, records it, and replays it under varying conditions.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::List;
use super::place::Place;
use super::program::Program;
use crate::bench::Result;
use crate::bench::process::describe;
use crate::watched::{POLL, Watched, free_port};

/// The time in which a server, or the script beside a program, must answer.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// The time limit of one check whether it is ready.
const QUESTION_LIMIT: Duration = Duration::from_secs(3);
/// The number of troubles after which replays stop.
const MOST_TROUBLES: usize = 3;

/// A program, and its place.
#[derive(Debug)]
pub struct Trial<'a> {
    pub list: &'a List,
    pub program: &'a Program,
    pub place: &'a Place,
}

/// The result of a program.
#[derive(Debug, Default)]
pub struct Report {
    pub native: Option<Duration>,
    pub recorded: Option<Duration>,
    /// The median time.
    pub replayed: Option<Duration>,
    pub good_replays: usize,
    /// Troubles, for people. Empty if everything was right.
    pub troubles: Vec<String>,
    /// A condition that this machine does not permit.
    pub untried: Option<&'static str>,
}

/// The output and the end of a run.
#[derive(Debug)]
struct Outcome {
    status: ExitStatus,
    output: Vec<u8>,
    errors: Vec<u8>,
    /// The time of the program. For a server, the time of the load.
    time: Duration,
}

/// The condition of a replay. The work folder is removed in all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Condition {
    Plain,
    /// A network namespace without a network.
    Unplugged,
    /// The recording is packed, moved, and unpacked in another home of recordings.
    Moved,
}

impl Trial<'_> {
    /// Runs all steps, with `replays` replays of the recording.
    ///
    /// # Errors
    /// The folder cannot be used. Mistakes of the program or of retake are in the report.
    pub fn run(&self, replays: usize) -> Result<Report> {
        let mut report = Report::default();
        fs::create_dir_all(&self.place.folder)?;
        if let Err(trouble) = self.steps(replays, &mut report) {
            report.troubles.push(trouble.to_string());
        }
        Ok(report)
    }

    fn steps(&self, replays: usize, report: &mut Report) -> Result<()> {
        // A native run that is late is not our failure, so it is tried again.
        let native = self.native().or_else(|_| self.native())?;
        report.native = Some(native.time);
        if self.program.status.is_some_and(|status| status != shell_status(native.status)) {
            return Err(format!(
                "natively it ends with {}: {}",
                describe(native.status),
                last_line(&native.errors)
            )
            .into());
        }
        self.place.prepare(self.program)?;
        let recorded = self.record()?;
        report.recorded = Some(recorded.time);
        if recorded.status != native.status {
            let (recorded_status, native_status) =
                (describe(recorded.status), describe(native.status));
            return Err(format!(
                "recorded it ends with {recorded_status}, natively with {native_status}: {}",
                last_line(&recorded.errors)
            )
            .into());
        }
        if self.program.same_output {
            recorded.compare(&native).map_err(|difference| {
                format!("recorded it prints other things than natively: {difference}")
            })?;
        }
        fs::remove_dir_all(&self.place.work)?;
        self.replay_all(&recorded, replays, report)
    }

    /// Runs the program natively in a new work folder, which stays.
    fn native(&self) -> Result<Outcome> {
        self.place.prepare(self.program)?;
        let port = free_port()?;
        let mut command = self.place.command("bash", port);
        command.arg("script");
        self.drive("native", command, port)
    }

    /// Records the program in a new work folder, which stays.
    ///
    /// # Errors
    /// The program ends in another way than it should, or takes too long.
    pub fn prepare_and_record(&self) -> Result<Duration> {
        fs::create_dir_all(&self.place.folder)?;
        self.place.prepare(self.program)?;
        let recorded = self.record()?;
        if !ends_well(self.program, recorded.status) {
            return Err(format!(
                "recorded it ends with {}: {}",
                describe(recorded.status),
                last_line(&recorded.errors)
            )
            .into());
        }
        Ok(recorded.time)
    }

    fn record(&self) -> Result<Outcome> {
        let port = free_port()?;
        let mut command = self.place.command(&self.place.retake, port);
        command
            .args(["record", "--check", self.list.check, "-o"])
            .arg(self.place.path("recording"))
            .args(&self.program.record)
            .args(["--", "bash", "script"]);
        self.drive("record", command, port)
    }

    /// Runs a program to its end. A server is driven and stopped.
    fn drive(&self, what: &str, command: Command, port: u16) -> Result<Outcome> {
        let limit = self.program.limit;
        let _beside = self.start_beside()?;
        let start = Instant::now();
        let mut child = self.place.start(what, command)?;
        let mut time = None;
        if !self.program.load.is_empty() {
            self.wait_until_ready(port, &mut child)?;
            let start = Instant::now();
            self.place.run_script(&format!("{what}-load"), &self.program.load, port, limit)?;
            time = Some(start.elapsed());
            child.signal(&self.program.stop);
        }
        let status = child
            .wait(limit)
            .ok_or_else(|| format!("the {what} run takes longer than {limit:?}"))?;
        self.outcome(what, status, time.unwrap_or_else(|| start.elapsed()))
    }

    /// Starts the script beside the program, and waits until it has made the file `ready`.
    fn start_beside(&self) -> Result<Option<Watched>> {
        if self.program.beside.is_empty() {
            return Ok(None);
        }
        let mut beside = self.place.start("beside", self.place.bash(&self.program.beside, 0))?;
        let start = Instant::now();
        while !self.place.work.join("ready").exists() {
            if beside.wait(POLL).is_some() || start.elapsed() > READY_LIMIT {
                return Err("what runs beside it makes no file `ready`".into());
            }
        }
        Ok(Some(beside))
    }

    fn wait_until_ready(&self, port: u16, server: &mut Watched) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < READY_LIMIT {
            let mut question =
                self.place.start("ready", self.place.bash(&self.program.ready, port))?;
            if question.wait(QUESTION_LIMIT).is_some_and(|status| status.success()) {
                return Ok(());
            }
            if let Some(status) = server.wait(10 * POLL) {
                return Err(format!("it ends with {} before it is ready", describe(status)).into());
            }
        }
        Err(format!("it is not ready after {READY_LIMIT:?}").into())
    }

    fn replay_all(&self, recorded: &Outcome, replays: usize, report: &mut Report) -> Result<()> {
        let can_unplug = Command::new("unshare")
            .args(["-n", "true"])
            .output()
            .is_ok_and(|output| output.status.success());
        if !can_unplug && replays > 1 {
            report.untried = Some("a replay without a network, because `unshare -n` fails");
        }
        let mut times = Vec::new();
        for number in 0..replays {
            let condition = match number {
                1 if can_unplug => Condition::Unplugged,
                2 => Condition::Moved,
                _ => Condition::Plain,
            };
            let replayed = self.replay(number, condition)?;
            times.push(replayed.time);
            match replayed.compare(recorded) {
                Ok(()) => report.good_replays += 1,
                Err(difference) => {
                    report.troubles.push(format!("replay {number} ({condition:?}): {difference}"))
                }
            }
            if report.troubles.len() == MOST_TROUBLES {
                break;
            }
        }
        times.sort_unstable();
        report.replayed = times.get(times.len() / 2).copied();
        Ok(())
    }

    fn replay(&self, number: usize, condition: Condition) -> Result<Outcome> {
        let (what, limit) = (format!("replay-{number}"), self.program.limit);
        let recording = if condition == Condition::Moved {
            self.move_recording()?
        } else {
            self.place.path("recording")
        };
        let mut command = if condition == Condition::Unplugged {
            self.place.unplugged("home")
        } else {
            self.place.later("home")
        };
        command.args(["replay", "--check=full"]).arg(&recording);
        let start = Instant::now();
        let status = self
            .place
            .start(&what, command)?
            .wait(limit)
            .ok_or_else(|| format!("{what} ({condition:?}) takes longer than {limit:?}"))?;
        self.outcome(&what, status, start.elapsed())
    }

    /// Packs the recording, moves the file, and unpacks it elsewhere.
    fn move_recording(&self) -> Result<PathBuf> {
        let (packed, moved, copy) =
            (self.place.path("packed"), self.place.path("moved.retake"), self.place.path("copy"));
        let original = self.place.path("recording");
        self.tool(
            "home",
            &["pack".as_ref(), "-o".as_ref(), packed.as_os_str(), original.as_os_str()],
        )?;
        fs::rename(&packed, &moved)?;
        self.tool(
            "other-home",
            &["unpack".as_ref(), "-o".as_ref(), copy.as_os_str(), moved.as_os_str()],
        )?;
        fs::remove_file(&moved)?;
        Ok(copy)
    }

    fn tool(&self, home: &str, arguments: &[&std::ffi::OsStr]) -> Result<()> {
        let output = self.place.later(home).args(arguments).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("retake {arguments:?}: {}", last_line(&output.stderr)).into())
    }

    fn outcome(&self, what: &str, status: ExitStatus, time: Duration) -> Result<Outcome> {
        let read = |ending: &str| fs::read(self.place.path(&format!("{what}.{ending}")));
        Ok(Outcome { status, output: read("out")?, errors: read("err")?, time })
    }
}

impl Outcome {
    /// Checks that this run had the output and end of another.
    ///
    /// # Errors
    /// The first difference, for people.
    fn compare(&self, wanted: &Self) -> std::result::Result<(), String> {
        if self.status != wanted.status {
            let text = String::from_utf8_lossy(&self.errors);
            let report = text
                .lines()
                .skip_while(|line| !line.starts_with("error"))
                .take(4)
                .collect::<Vec<_>>()
                .join("; ");
            return Err(format!(
                "it ends with {}, not {}: {report}",
                describe(self.status),
                describe(wanted.status)
            ));
        }
        for (name, got, wanted) in
            [("output", &self.output, &wanted.output), ("error", &self.errors, &wanted.errors)]
        {
            if got != wanted {
                let at = wanted.iter().zip(got).take_while(|(left, right)| left == right).count();
                let excerpt = |bytes: &[u8]| {
                    String::from_utf8_lossy(&bytes[at.min(bytes.len())..bytes.len().min(at + 60)])
                        .into_owned()
                };
                return Err(format!(
                    "standard {name} differs from byte {at}: {:?}, not {:?}",
                    excerpt(got),
                    excerpt(wanted)
                ));
            }
        }
        Ok(())
    }
}

/// Returns whether the program ends well, if its native end is unknown: with its status, with
/// success, or as a server by the signal that ends it.
fn ends_well(program: &Program, status: ExitStatus) -> bool {
    let got = shell_status(status);
    match program.status {
        Some(wanted) => got == wanted,
        None => got == 0 || program.stop_number().is_some_and(|number| got == 128 + number),
    }
}

/// Returns the status as a shell does. Death by a signal is 128 plus the signal's number.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Returns the last line of an output.
pub fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().last().unwrap_or("nothing printed").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_end_well_by_their_signal() {
        let text = "title = a\ncommand = a\nload = b\nstop = INT\n";
        let server = super::super::program::parse(&super::super::DEBUGGER, "it", text).unwrap();
        let is_good = |raw| ends_well(&server, ExitStatus::from_raw(raw));
        assert!(is_good(0) && is_good(2) && is_good(130 << 8));
        // A crash, another signal, and an error of retake.
        assert!(!is_good(11) && !is_good(15) && !is_good(125 << 8));
        let program = Program { status: Some(3), ..server };
        assert!(ends_well(&program, ExitStatus::from_raw(3 << 8)));
        assert!(!ends_well(&program, ExitStatus::from_raw(0)));
    }

    #[test]
    fn differences_are_told() {
        let outcome = |status, output: &str| {
            let status = ExitStatus::from_raw(status << 8);
            Outcome {
                status,
                output: output.into(),
                errors: b"first\nerror: x\n".to_vec(),
                time: Duration::ZERO,
            }
        };
        assert_eq!(outcome(0, "abc").compare(&outcome(0, "abc")), Ok(()));
        assert_eq!(
            outcome(1, "abc").compare(&outcome(0, "abc")).unwrap_err(),
            "it ends with status 1, not status 0: error: x"
        );
        assert_eq!(
            outcome(0, "abd").compare(&outcome(0, "abc")).unwrap_err(),
            "standard output differs from byte 2: \"d\", not \"c\""
        );
    }
}
