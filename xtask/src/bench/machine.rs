//! The machine on which figures are measured.

use std::fs;
use std::path::Path;

use retake_testing::needs::find_command;
use serde_json::{Value, json};

/// The load per core before the first measurement above which the machine counts as busy.
const QUIET_LOAD: f64 = 0.25;

/// The description of a machine, without any names.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    pub processor: String,
    pub core_count: usize,
    pub memory_mb: u64,
    pub kernel: String,
    /// The load average of the last minute before the first workload.
    pub load: f64,
}

impl Machine {
    /// Describes this machine.
    pub fn look() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: value_of(&read("/proc/cpuinfo"), "model name"),
            core_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mb: memory_mb(&read("/proc/meminfo")),
            kernel: kernel_version(&read("/proc/sys/kernel/osrelease")),
            load: first_number(&read("/proc/loadavg")),
        }
    }

    pub fn is_busy(&self) -> bool {
        let quiet = QUIET_LOAD * self.core_count as f64;
        self.load > quiet
    }

    /// Warns on standard error if the machine is busy.
    pub fn warn(&self) {
        if self.is_busy() {
            eprintln!(
                "warning: others are using this machine (load average {:.2}): \
                 figures will be noisy",
                self.load
            );
        }
    }

    /// Returns the description in one line.
    pub fn describe(&self) -> String {
        format!(
            "{}, {} cores, {:.0} GB, Linux {}, load average before: {:.2}",
            self.processor,
            self.core_count,
            self.memory_gb(),
            self.kernel,
            self.load
        )
    }

    /// Returns the description for programs.
    pub fn json(&self) -> Value {
        json!({
            "processor": self.processor,
            "core_count": self.core_count,
            "memory_mb": self.memory_mb,
            "kernel": self.kernel,
            "load_before": self.load,
            "busy": self.is_busy(),
        })
    }

    fn memory_gb(&self) -> f64 {
        let memory_mb = self.memory_mb as f64;
        memory_mb / 1024.0
    }
}

/// Returns the value of the first line that starts with `key` in text like /proc/cpuinfo.
fn value_of(text: &str, key: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(key));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or("unknown", |(_, value)| value.trim()).to_owned()
}

fn memory_mb(meminfo: &str) -> u64 {
    let total = value_of(meminfo, "MemTotal");
    let kb = total.split_whitespace().next();
    kb.and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Returns only the numbers of a version. The rest names a distribution or a machine.
fn kernel_version(release: &str) -> String {
    let release = release.trim();
    let end = release.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    release[..end.unwrap_or(release.len())].to_owned()
}

fn first_number(text: &str) -> f64 {
    let first = text.split_whitespace().next();
    first.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Returns whether a command is on the search path, or a path exists.
pub fn is_present(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    find_command(program).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_understood() {
        assert_eq!(value_of("a\t: 1\nmodel name\t: X 5\n", "model name"), "X 5");
        assert_eq!(value_of("", "model name"), "unknown");
        assert_eq!(memory_mb("MemTotal:       2048 kB\n"), 2);
        assert_eq!(kernel_version("6.18.44-fc-v1\n"), "6.18.44");
        assert_eq!(kernel_version("6.12"), "6.12");
        assert!((first_number("1.25 0.5 0.1 1/2 3") - 1.25).abs() < 1e-9);
    }

    #[test]
    fn programs_are_found() {
        assert!(is_present("sh") && is_present("/bin/sh"));
        assert!(!is_present("no-such-program") && !is_present("/no/such/program"));
    }
}
