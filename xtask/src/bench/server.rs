//! Servers. They are driven at full load natively and recorded, then at half load for the 99.9th
//! percentile of latency. Their output is small. A replay must end with the status of the
//! recording.

use std::fs;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::Result;
use super::figures::Measured;
use super::machine::is_present;
use super::mode::Mode;
use super::process::{describe, peak_memory_kb};
use super::stage::{Stage, environment, tail};
use crate::watched::{POLL, Watched};

/// The time that a server has to answer, and to end.
const READY_LIMIT: Duration = Duration::from_secs(40);
/// The time limit of one check whether it is ready.
const QUESTION_LIMIT: Duration = Duration::from_secs(3);
/// The time that a load may take beyond its duration.
const LOAD_SLACK: Duration = Duration::from_secs(30);

/// The load for latencies: half of the throughput without a recorder. Real servers do not run at
/// their limit.
const LATENCY_LOAD: f64 = 0.5;
/// How often a server is driven in a row in each run for latencies. The first time does not count,
/// because a fresh server does many things for the first time. In a load of one second, a single
/// moment in which the machine does other work decides the 99.9th percentile. The median leaves
/// such loads out.
const LATENCY_TIMES: usize = 3;

/// The figures that a load script printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    pub requests: f64,
    pub seconds: f64,
    /// The 99.9th percentile of latency, in microseconds.
    pub latency_us: f64,
}

impl Load {
    /// Parses lines of a name and a number.
    fn parse(text: &str) -> Result<Self> {
        let value = |key: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            let number = line
                .and_then(|number| number.trim().parse::<f64>().ok())
                .filter(|number| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| {
                format!("its load did not say {key}: {}", tail(text.as_bytes())).into()
            })
        };
        let load = Self {
            requests: value("requests")?,
            seconds: value("seconds")?,
            latency_us: value("latency_us")?,
        };
        if load.requests < 1.0 || load.seconds <= 0.0 {
            return Err("its load did nothing".into());
        }
        Ok(load)
    }

    /// Returns requests a second.
    pub fn throughput(&self) -> f64 {
        self.requests / self.seconds
    }
}

/// One run of a server.
struct Session {
    /// The figures of each load.
    loads: Vec<Load>,
    status: ExitStatus,
    peak_kb: u64,
}

impl Session {
    fn requests(&self) -> f64 {
        self.loads.iter().map(|load| load.requests).sum()
    }

    fn seconds_each(&self) -> f64 {
        self.loads.iter().map(|load| load.seconds).sum::<f64>() / self.requests()
    }
}

impl Stage<'_> {
    /// Makes a recording that does not count.
    ///
    /// # Errors
    /// The workload fails.
    pub fn record_server(&self, load_seconds: u64) -> Result<()> {
        self.session(Mode::Record, 0.0, load_seconds, 1)?;
        Ok(())
    }

    /// Makes one round of a server: all modes, the recording's sizes, and the latencies at half
    /// load.
    ///
    /// # Errors
    /// The workload fails.
    pub fn server_round(
        &self,
        measured: &mut Measured,
        with_others: bool,
        load_seconds: u64,
    ) -> Result<()> {
        let baseline = measured.baseline_mode();
        for mode in [Mode::Native, Mode::OneCore] {
            if mode == Mode::Native || mode == baseline {
                measured
                    .seconds_mut(mode)
                    .push(self.session(mode, 0.0, load_seconds, 1)?.seconds_each());
            }
        }
        // This is only a comparison. strace's failures are not ours.
        if with_others
            && self.bench.has_strace()
            && let Ok(traced) = self.session(Mode::Strace, 0.0, load_seconds, 1)
        {
            measured.seconds_mut(Mode::Strace).push(traced.seconds_each());
        }
        let recorded = self.session(Mode::Record, 0.0, load_seconds, 1)?;
        measured.seconds_mut(Mode::Record).push(recorded.seconds_each());
        measured.record_peak_kb = measured.record_peak_kb.max(recorded.peak_kb);
        measured.note_sizes(&self.recording(Mode::Record));
        self.server_replay(measured, &recorded)?;
        for mode in [baseline, Mode::Record] {
            let rate = LATENCY_LOAD / measured.baseline().median().unwrap_or(1.0);
            for load in &self.session(mode, rate, load_seconds, LATENCY_TIMES)?.loads[1..] {
                measured.latency_us_mut(mode).push(load.latency_us);
            }
        }
        fs::remove_dir_all(self.recording(Mode::Record))?;
        Ok(())
    }

    fn server_replay(&self, measured: &mut Measured, recorded: &Session) -> Result<()> {
        let replayed = self.run(Mode::Replay)?;
        if replayed.was_stopped {
            return Err(format!("replay did not end within {} s", self.time_limit.as_secs()).into());
        }
        if replayed.status != recorded.status {
            let complaint = tail(&fs::read(self.errors_of(Mode::Replay))?);
            return Err(format!(
                "replay ended with {}, recorded was {}: {complaint}",
                describe(replayed.status),
                describe(recorded.status)
            )
            .into());
        }
        measured.seconds_mut(Mode::Replay).push(replayed.seconds / recorded.requests());
        measured.replay_peak_kb = measured.replay_peak_kb.max(replayed.peak_kb);
        Ok(())
    }

    /// Starts the server, drives it `times` times at `rate` requests a second, and stops it. Rate 0
    /// means as many as it can answer.
    fn session(&self, mode: Mode, rate: f64, load_seconds: u64, times: usize) -> Result<Session> {
        let mut server = self.start_server(mode)?;
        let loads: Result<Vec<_>> = (0..times).map(|_| self.drive(rate, load_seconds)).collect();
        let loads = loads.map_err(|error| format!("{}: {error}", mode.name()))?;
        let peak_kb = peak_memory_kb(server.id(), "retake");
        if mode == Mode::Strace || self.profile_into.is_some() {
            server.signal_child(&self.workload.stop);
        } else {
            server.signal(&self.workload.stop);
        }
        let status = self.ended(&mut server, mode.name())?;
        Ok(Session { loads, status, peak_kb })
    }

    /// Starts the server from the state in which every run starts, and waits until it answers.
    pub(super) fn start_server(&self, mode: Mode) -> Result<Watched> {
        self.reset(mode)?;
        let mut words = self.command_for(mode)?;
        if is_present("setpriv") {
            // If we are interrupted, the kernel kills the server. It would not end by itself.
            words.splice(0..0, ["setpriv", "--pdeathsig", "KILL", "--"].map(str::to_owned));
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&self.folder).envs(environment(self.bench));
        let mut server = Watched::start(command, &self.output_of(mode), &self.errors_of(mode))?;
        self.wait_until_ready(mode, &mut server)?;
        Ok(server)
    }

    /// Drives a server that is ready.
    pub(super) fn drive(&self, rate: f64, seconds: u64) -> Result<Load> {
        let more = [("rate", format!("{rate:.0}")), ("seconds", seconds.to_string())];
        Load::parse(&self.script_within(
            "load",
            &self.workload.load,
            &more,
            Duration::from_secs(seconds) + LOAD_SLACK,
        )?)
    }

    /// Waits for a server that was told to end.
    pub(super) fn ended(&self, server: &mut Watched, name: &str) -> Result<ExitStatus> {
        let status = server.wait(READY_LIMIT).ok_or_else(|| {
            format!("{name} did not end {} s after it was stopped", READY_LIMIT.as_secs())
        })?;
        server.clear();
        Ok(status)
    }

    fn wait_until_ready(&self, mode: Mode, server: &mut Watched) -> Result<()> {
        let start = Instant::now();
        let name = mode.name();
        while start.elapsed() < READY_LIMIT {
            if self.script_within("question", &self.workload.ready, &[], QUESTION_LIMIT).is_ok() {
                return Ok(());
            }
            if let Some(status) = server.wait(POLL) {
                let complaint = tail(&fs::read(self.errors_of(mode))?);
                return Err(format!(
                    "{name} ended with {} before it was ready: {complaint}",
                    describe(status)
                )
                .into());
            }
            std::thread::sleep(POLL);
        }
        Err(format!("{name} was not ready after {} s", READY_LIMIT.as_secs()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_understood() {
        let load = Load::parse("other 1\nrequests 2000\nseconds 0.5\nlatency_us 120.5\n").unwrap();
        assert_eq!(load, Load { requests: 2000.0, seconds: 0.5, latency_us: 120.5 });
        assert!((load.throughput() - 4000.0).abs() < 1e-9);
        for wrong in [
            "",
            "requests 0\nseconds 1\nlatency_us 1\n",
            "requests 5\nseconds NaN\nlatency_us 1\n",
            "requestsx 5\nseconds 1\nlatency_us 1",
        ] {
            assert!(Load::parse(wrong).is_err(), "{wrong}");
        }
    }
}
