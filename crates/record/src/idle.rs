//! How long cores have been idle, by the kernel's accounting.

use retake_kernel::call_tracer::Processors;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The most cores to read: each costs some microseconds.
pub(crate) const MOST_CORES: usize = 8;

/// The idle times of some cores. Not every kernel provides them.
#[derive(Default)]
pub(crate) struct IdleTimes {
    cores: Vec<(u32, Vec<File>)>,
}

impl IdleTimes {
    /// Whether the kernel provides the idle time of a core.
    pub fn exist_for(core: u32) -> bool {
        !open(core).is_empty()
    }

    /// Opens the idle times of these cores and of others that the caller may use.
    pub fn around(cores: &BTreeSet<u32>) -> Self {
        let Ok(usable) = Processors::of(0) else { return Self::default() };
        let others = (0..libc::CPU_SETSIZE as u32)
            .filter(|core| !cores.contains(core) && usable.only(*core).is_some());
        let cores = cores.iter().copied().chain(others).take(MOST_CORES);
        Self {
            cores: cores
                .map(|core| (core, open(core)))
                .filter(|(_, states)| !states.is_empty())
                .collect(),
        }
    }

    pub fn include(&self, cores: &BTreeSet<u32>) -> bool {
        cores.iter().all(|core| self.cores.iter().any(|(known, _)| known == core))
    }

    /// Returns the cores, each with its idle time since the machine started.
    pub fn read(&self) -> Vec<(u32, Duration)> {
        self.cores.iter().map(|(core, states)| (*core, states.iter().map(read).sum())).collect()
    }
}

fn open(core: u32) -> Vec<File> {
    let state = |number: usize| {
        File::open(format!("/sys/devices/system/cpu/cpu{core}/cpuidle/state{number}/time")).ok()
    };
    (0..).map_while(state).collect()
}

fn read(state: &File) -> Duration {
    let mut text = [0; 24];
    let count = state.read_at(&mut text, 0).unwrap_or(0);
    let microseconds =
        std::str::from_utf8(&text[..count]).ok().and_then(|text| text.trim_end().parse().ok());
    Duration::from_micros(microseconds.unwrap_or(0))
}
