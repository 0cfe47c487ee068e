//! `--profile`: shows where a workload that exceeds a limit spends its time, recorded and replayed,
//! using perf with a software clock.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Result;
use super::machine::is_present;
use super::mode::Mode;
use super::stage::Stage;

const SHOWN_OBJECTS: usize = 8;
const SHOWN_SYMBOLS: usize = 20;

impl Stage<'_> {
    /// Records and replays once more under perf. Returns the profiles as text, or why there are
    /// none.
    pub fn profile(&mut self, load_seconds: u64) -> String {
        if !is_present("perf") {
            return "no profile: needs perf; try: apt-get install linux-perf\n".to_owned();
        }
        let mut text = String::new();
        for mode in [Mode::Record, Mode::Replay] {
            let data = self.work.join("perf.data");
            self.profile_into = Some(data.clone());
            let ran = self.run_profiled(mode, load_seconds);
            self.profile_into = None;
            let shown = ran
                .and_then(|()| report(&data))
                .unwrap_or_else(|error| format!("no profile: {error}\n"));
            text.push_str(&format!("{}\n\n{shown}\n", mode.name()));
        }
        text
    }

    fn run_profiled(&self, mode: Mode, load_seconds: u64) -> Result<()> {
        if self.workload.is_server() && mode == Mode::Record {
            return self.record_server(load_seconds);
        }
        // The exit status does not matter here. A server does not end with 0 everywhere.
        self.run(mode).map(|_| ())
    }
}

/// Returns the objects and the symbols with most samples.
fn report(data: &Path) -> Result<String> {
    let mut text = String::new();
    for (keys, shown) in [("comm,dso", SHOWN_OBJECTS), ("comm,dso,sym", SHOWN_SYMBOLS)] {
        let mut command = Command::new("perf");
        let output = command
            .args(["report", "--stdio", "--quiet", "--no-children", "-s", keys, "-i"])
            .arg(data)
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        for line in printed
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
            .take(shown)
        {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
    }
    fs::remove_file(data)?;
    Ok(text)
}
