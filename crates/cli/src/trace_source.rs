//! Where the calls of a trace come from, while they are made.

use std::fs;
use std::path::{Path, PathBuf};

use retake_recording::{Location, Metadata, Store};
use retake_trace::attach::{self, Whom};
use retake_trace::{Observation, ebpf, inside, ptrace};

use crate::commands::record;
use crate::failure::Result;
use crate::find_program::Found;

/// Who sees the calls of whom.
pub enum Source {
    /// The runtime, in a program that is started.
    Inside(Box<retake_record::Request>),
    /// Ptrace.
    Ptrace(attach::Request),
    /// The kernel.
    Ebpf(attach::Request),
}

impl Source {
    /// Hands on what it does, as it does it. Returns the wait status of the program, or 0.
    ///
    /// # Errors
    /// It cannot be run or traced.
    pub fn live(&self, observer: Box<dyn FnMut(Observation) + Send>) -> Result<i32> {
        Ok(match self {
            Self::Inside(request) => inside::live(request, open_store()?, observer)?,
            Self::Ptrace(request) => ptrace::live(request, observer)?,
            Self::Ebpf(request) => ebpf::live(request, observer)?,
        })
    }

    /// Keeps what it does in a new folder.
    ///
    /// # Errors
    /// As [`Source::live`].
    pub fn spool_to(&self, folder: &Path) -> Result<i32> {
        let metadata = self.describe();
        Ok(match self {
            Self::Inside(request) => inside::into_spool(request, open_store()?, folder, &metadata)?,
            Self::Ptrace(request) => ptrace::into_spool(request, folder, &metadata)?,
            Self::Ebpf(request) => ebpf::into_spool(request, folder, &metadata)?,
        })
    }

    /// What a recording of the program would say of it.
    fn describe(&self) -> Metadata {
        let program = |program: &retake_record::Request| {
            let found =
                Found { program: program.program.clone(), arguments: program.arguments.clone() };
            record::describe_program(&found, program.environment.len())
        };
        match self {
            Self::Inside(request) => program(request),
            Self::Ptrace(request) | Self::Ebpf(request) => match &request.whom {
                Whom::Program(request) => program(request),
                Whom::Processes(processes) => {
                    let first = processes.first().map_or_else(PathBuf::new, |pid| {
                        fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
                    });
                    record::describe_program(
                        &Found { arguments: vec![first.clone().into_os_string()], program: first },
                        0,
                    )
                }
            },
        }
    }
}

fn open_store() -> Result<Store> {
    let location = Location::from_environment()?;
    location.prepare()?;
    Ok(Store::open(&location.store)?)
}
