//! The source of a trace's calls while the program runs.

use std::fs;
use std::path::{Path, PathBuf};

use retake_recording::{Metadata, Store};
use retake_trace::attach::{self, Whom};
use retake_trace::{Observation, ebpf, inside, ptrace};

use crate::commands::record;
use crate::failure::Result;
use crate::find_program::Found;
use crate::recordings;

/// Which program or processes are traced, and by what.
pub enum Source {
    /// A program is started, and the runtime traces it.
    Inside(Box<retake_record::Request>),
    /// ptrace traces.
    Ptrace(attach::Request),
    /// eBPF programs in the kernel trace.
    Ebpf(attach::Request),
}

impl Source {
    /// Traces, and passes each observation on at once. Returns the wait status of the program, or 0
    /// for processes.
    ///
    /// # Errors
    /// The program cannot be run or traced.
    pub fn live(&self, observer: Box<dyn FnMut(Observation) + Send>) -> Result<i32> {
        Ok(match self {
            Self::Inside(request) => inside::live(request, open_store()?, observer)?,
            Self::Ptrace(request) => ptrace::live(request, observer)?,
            Self::Ebpf(request) => ebpf::live(request, observer)?,
        })
    }

    /// Traces into a new spool folder.
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

    /// The metadata for the spool.
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
    let location = recordings::prepared_location()?;
    Ok(Store::open(&location.store)?)
}
