//! One run of a program of the corpus: natively, recorded or replayed. Every wait has an end, and only processes of its own are killed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::Result;
use super::program::Program;

const POLL: Duration = Duration::from_millis(5);
/// A server has this long until it answers.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long one question whether it is ready may take.
const QUESTION_LIMIT: Duration = Duration::from_secs(3);

/// Where a program runs.
#[derive(Debug)]
pub struct Place {
    pub retake: PathBuf,
    /// Its folder.
    pub work: PathBuf,
    /// The sources that belong to the corpus.
    pub programs: PathBuf,
}

/// How a run went.
#[derive(Debug)]
pub struct Run {
    /// In words.
    pub status: String,
    /// Of the program; of the load, if it is a server.
    pub time: Duration,
    output: Vec<u8>,
    errors: Vec<u8>,
}

/// Servers are often where an ordinary user's path does not lead.
pub fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

impl Place {
    /// Runs a preparing script to its end.
    ///
    /// # Errors
    /// It fails, or takes too long.
    pub fn script(&self, what: &str, script: &str, limit: Duration) -> Result<()> {
        if script.is_empty() {
            return Ok(());
        }
        let mut child = Watched::start(self.bash(script, 0), &self.work, what)?;
        match child.wait(limit) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{what} fails with {}: see {what}.err", describe(status)).into()),
            None => Err(format!("{what} takes longer than {limit:?}").into()),
        }
    }

    fn bash(&self, script: &str, port: u16) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        self.set_up(&mut command, port);
        command
    }

    fn set_up(&self, command: &mut Command, port: u16) {
        command.current_dir(&self.work).env("PATH", search_path()).env("WORK", &self.work).env("PROGRAMS", &self.programs);
        command.env("PORT", port.to_string()).env("RETAKE_DIR", self.work.join("store"));
    }

    fn recording(&self) -> PathBuf {
        self.work.join("recording")
    }
}

impl Run {
    /// The program as it is.
    ///
    /// # Errors
    /// It does not start, is never ready, or takes too long.
    pub fn native(program: &Program, place: &Place) -> Result<Self> {
        let port = free_port()?;
        let command = place.bash(&format!("exec {}", program.command), port);
        drive(program, place, command, port, "native")
    }

    /// The program under `retake record`.
    ///
    /// # Errors
    /// As for a native run.
    pub fn recorded(program: &Program, place: &Place) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(&place.retake);
        command.arg("record").arg("-o").arg(place.recording()).args(["bash", "-c"]).arg(format!("exec {}", program.command));
        place.set_up(&mut command, port);
        drive(program, place, command, port, "record")
    }

    /// The recording, with everything compared that it notes.
    ///
    /// # Errors
    /// It does not start, or takes too long.
    pub fn replayed(program: &Program, place: &Place) -> Result<Self> {
        let mut command = Command::new(&place.retake);
        command.args(["replay", "--check=full"]).arg(place.recording());
        place.set_up(&mut command, 0);
        let start = Instant::now();
        let mut child = Watched::start(command, &place.work, "replay")?;
        let status = child.wait(program.limit).ok_or_else(|| format!("replay takes longer than {:?}", program.limit))?;
        finished(place, "replay", status, start.elapsed())
    }

    /// Whether a replay showed what was recorded.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, replayed: &Self) -> Result<()> {
        if replayed.status != self.status {
            let text = String::from_utf8_lossy(&replayed.errors);
            let report = text.lines().skip_while(|line| !line.starts_with("error")).take(4).collect::<Vec<_>>().join("; ");
            return Err(format!("replay ends with {}, recorded was {}: {report}", replayed.status, self.status).into());
        }
        if replayed.output != self.output || replayed.errors != self.errors {
            return Err("replay prints something else".into());
        }
        Ok(())
    }
}

/// Starts the program, and if it is a server, drives and stops it.
fn drive(program: &Program, place: &Place, command: Command, port: u16, what: &str) -> Result<Run> {
    let start = Instant::now();
    let mut child = Watched::start(command, &place.work, what)?;
    let mut time = None;
    if !program.load.is_empty() {
        wait_until_ready(program, place, port, &mut child)?;
        let start = Instant::now();
        let mut load = Watched::start(place.bash(&program.load, port), &place.work, &format!("{what}-load"))?;
        match load.wait(program.limit) {
            Some(status) if status.success() => time = Some(start.elapsed()),
            Some(status) => return Err(format!("the load of the {what} run fails with {}", describe(status)).into()),
            None => return Err(format!("the load of the {what} run takes longer than {:?}", program.limit).into()),
        }
        child.signal(&program.stop);
    }
    let status = child.wait(program.limit).ok_or_else(|| format!("the {what} run takes longer than {:?}", program.limit))?;
    finished(place, what, status, time.unwrap_or_else(|| start.elapsed()))
}

fn wait_until_ready(program: &Program, place: &Place, port: u16, server: &mut Watched) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < READY_LIMIT {
        let mut question = Watched::start(place.bash(&program.ready, port), &place.work, "ready")?;
        if question.wait(QUESTION_LIMIT).is_some_and(|status| status.success()) {
            return Ok(());
        }
        if let Some(status) = server.wait(POLL) {
            return Err(format!("it ends with {} before it is ready", describe(status)).into());
        }
        std::thread::sleep(10 * POLL);
    }
    Err(format!("it is not ready after {READY_LIMIT:?}").into())
}

fn finished(place: &Place, what: &str, status: ExitStatus, time: Duration) -> Result<Run> {
    let read = |ending: &str| fs::read(place.work.join(format!("{what}.{ending}")));
    Ok(Run { status: describe(status), time, output: read("out")?, errors: read("err")? })
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// A child in a process group of its own, which is killed if it is still there at the end.
struct Watched {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Watched {
    /// Its output goes to `WHAT.out` and `WHAT.err`.
    fn start(mut command: Command, folder: &Path, what: &str) -> Result<Self> {
        let file = |ending: &str| File::create(folder.join(format!("{what}.{ending}")));
        command.stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?).process_group(0);
        Ok(Self { child: command.spawn()?, ended: None })
    }

    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            if self.ended.is_none() {
                self.ended = self.child.try_wait().ok().flatten();
            }
            if self.ended.is_some() || start.elapsed() >= limit {
                return self.ended;
            }
            std::thread::sleep(POLL);
        }
    }

    fn signal(&self, name: &str) {
        // If it is gone already, waiting for it says so.
        let _ = Command::new("kill").args([&format!("-{name}"), "--", &self.child.id().to_string()]).stderr(Stdio::null()).status();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).stderr(Stdio::null()).status();
            let _ = self.child.wait();
        }
    }
}
