//! What happens to a run at random moments.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::members;
use crate::bench::Result;
use crate::random::Random;

/// The latest moment of a disturbance, in milliseconds after the recorder was started.
const LATEST_MS: usize = 1500;
/// The signals that are sent, with their names.
const SIGNALS: [(&str, Signal); 7] = [
    ("STOP", Signal::STOP),
    ("CONT", Signal::CONT),
    ("INT", Signal::INT),
    ("TERM", Signal::TERM),
    ("KILL", Signal::KILL),
    ("HUP", Signal::HUP),
    ("WINCH", Signal::WINCH),
];
/// So many segments fit into the namespace.
const SEGMENTS: usize = 64;

/// A disturbance and its moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Disturbance {
    after_ms: u64,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    /// A signal, by its place in [`SIGNALS`], to the recorder.
    Recorder(usize),
    /// A signal to one of all other processes. The number chooses which.
    Member(usize, usize),
    FillDisk,
    EmptyDisk,
    TakeSegments,
    GiveSegments,
}

impl Disturbance {
    pub fn draw(random: &mut Random) -> Self {
        let after_ms = random.below(LATEST_MS).unwrap_or_default() as u64;
        let signal = random.below(SIGNALS.len()).unwrap_or_default();
        let what = match random.below(10) {
            Some(0..=1) => What::Recorder(signal),
            Some(6) => What::FillDisk,
            Some(7) => What::EmptyDisk,
            Some(8) => What::TakeSegments,
            Some(9) => What::GiveSegments,
            _ => What::Member(signal, random.below(64).unwrap_or_default()),
        };
        Self { after_ms, what }
    }

    /// Returns its moment, from the start of the recorder on.
    pub fn moment(&self) -> Duration {
        Duration::from_millis(self.after_ms)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms ", self.after_ms)?;
        match self.what {
            What::Recorder(signal) => write!(f, "{} to recorder", SIGNALS[signal].0),
            What::Member(signal, number) => write!(f, "{} to member {number}", SIGNALS[signal].0),
            What::FillDisk => f.write_str("disk full"),
            What::EmptyDisk => f.write_str("disk empty"),
            What::TakeSegments => f.write_str("segments used up"),
            What::GiveSegments => f.write_str("segments free"),
        }
    }
}

/// What the disturbances of a run have changed so far.
#[derive(Debug)]
pub struct Surroundings {
    /// A file on the small disk.
    filler: PathBuf,
    /// The numbers of the segments that this took.
    segments: Vec<String>,
    /// The recording may lack its end: the recorder was killed, or had no room.
    pub may_lack_end: bool,
    /// The recorder or its guardian was killed. If both are, nobody ends the program.
    is_unguarded: bool,
}

impl Surroundings {
    /// Mounts a small disk, and limits the number of segments.
    ///
    /// # Errors
    /// This is not the first process of its own namespaces.
    pub fn new(disk: &std::path::Path, size: &str) -> Result<Self> {
        fs::create_dir(disk)?;
        let options = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "monkey"])
            .arg(disk)
            .status()?;
        if !status.success() {
            return Err("a tmpfs cannot be mounted".into());
        }
        fs::write("/proc/sys/kernel/shmmni", SEGMENTS.to_string())?;
        let filler = disk.join("filler");
        Ok(Self { filler, segments: Vec::new(), may_lack_end: false, is_unguarded: false })
    }

    /// Disturbs a run, with the process that records.
    pub fn disturb(&mut self, disturbance: &Disturbance, recorder: Pid) {
        match disturbance.what {
            What::Recorder(signal) => self.send(recorder, recorder, signal),
            What::Member(signal, number) => {
                let mut members = members::all();
                members.retain(|member| *member != recorder);
                if !members.is_empty() {
                    self.send(members[number % members.len()], recorder, signal);
                }
            }
            What::FillDisk => {
                self.may_lack_end = true;
                self.fill_disk();
            }
            What::EmptyDisk => drop(fs::remove_file(&self.filler)),
            What::TakeSegments => {
                self.may_lack_end = true;
                self.take_segments();
            }
            What::GiveSegments => self.give_segments(),
        }
    }

    /// Gives back all that was taken, and continues all that were stopped.
    pub fn relieve(&mut self) {
        drop(fs::remove_file(&self.filler));
        self.give_segments();
        for member in members::all() {
            members::send(member, Signal::CONT);
        }
    }

    fn send(&mut self, member: Pid, recorder: Pid, signal: usize) {
        let signal = SIGNALS[signal].1;
        if signal == Signal::KILL {
            // The guardian has the command line of the recorder.
            let guards = members::command_line(member) == members::command_line(recorder);
            if guards && self.is_unguarded {
                return;
            }
            self.is_unguarded |= guards;
            self.may_lack_end = true;
        }
        members::send(member, signal);
    }

    fn fill_disk(&self) {
        let Ok(mut file) = File::create(&self.filler) else { return };
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    fn take_segments(&mut self) {
        while self.segments.len() < SEGMENTS {
            let Ok(made) = Command::new("ipcmk").args(["-M", "4096"]).output() else { return };
            let told = String::from_utf8_lossy(&made.stdout);
            let Some((_, number)) = told.trim_end().rsplit_once(' ') else { return };
            self.segments.push(number.to_owned());
        }
    }

    fn give_segments(&mut self) {
        for number in self.segments.drain(..) {
            drop(Command::new("ipcrm").args(["-m", &number]).status());
        }
    }
}
