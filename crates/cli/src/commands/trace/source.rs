//! The source of the traced calls: a program to start, or running processes.

use retake_trace::attach::{self, Whom};
use retake_trace::ebpf;

use super::options::{Method, Options};
use crate::failure::{Failure, Result};
use crate::find_program;
use crate::trace_source::Source;

impl Options {
    fn request(&self) -> Result<retake_record::Request> {
        let found = find_program::find(&self.command, std::env::var_os("PATH").as_deref())?;
        let options = retake_supervisor::Options {
            no_fast_path: self.no_fast_path,
            check_off: true,
            data_limit: self.kept_bytes(),
            ..retake_supervisor::Options::default()
        };
        Ok(retake_record::Request {
            program: found.program,
            arguments: found.arguments,
            environment: self.environment(),
            limits: crate::commands::record::widen_limits()?,
            options,
            processor: retake_supervisor::this_processor(),
            chaos: None,
            images: None,
            timeout: None,
            keep_last: None,
            watcher: None,
            on_full: retake_record::OnFull::Stop,
            max_size: None,
            began_ns: retake_kernel::clock::monotonic_ns(),
            behind: None,
        })
    }

    pub(super) fn source(&self) -> Result<Source> {
        let outside =
            |whom| attach::Request { whom, data_limit: self.kept_bytes().unwrap_or(u64::MAX) };
        let attach: Vec<i32> = self.attach.iter().flat_map(|list| list.0.iter().copied()).collect();
        let method = self.method.unwrap_or_else(|| match attach.as_slice() {
            [] => Method::InProcess,
            // ptrace always works, whatever eBPF lacks.
            _ if ebpf::check().is_ok() => Method::Ebpf,
            _ => Method::Ptrace,
        });
        let whom = || -> Result<Whom> {
            Ok(if attach.is_empty() {
                Whom::Program(Box::new(self.request()?))
            } else {
                Whom::Processes(attach.clone())
            })
        };
        Ok(match method {
            Method::InProcess if !attach.is_empty() => {
                return Err(Failure::new("a running process cannot be traced in-process")
                    .attempt("--method ebpf or --method ptrace"));
            }
            Method::InProcess => Source::Inside(Box::new(self.request()?)),
            Method::Ptrace => Source::Ptrace(outside(whom()?)),
            Method::Ebpf => Source::Ebpf(outside(whom()?)),
        })
    }
}
