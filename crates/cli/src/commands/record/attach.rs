//! `retake record -p PID`: records a program that runs already.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use retake_kernel::clock;
use retake_kernel::inheritance::Limits;
use retake_record::{Request, Target};
use retake_recording::{ByteText, Metadata, Policy, Store};

use super::{Options, describe_program, failed, interval::Interval, place};
use crate::failure::{Failure, Result};
use crate::find_program::Found;
use crate::recordings;

/// Records, and ends with the program's status if it ends, otherwise with 0.
pub fn run(options: &Options, pid: i32) -> Result<()> {
    let location = recordings::prepared_location()?;
    let store = Store::open(&location.store)?;
    let found = found(pid)?;
    let metadata = describe(options, &found, pid);
    let name = found.program.file_name().unwrap_or_default();
    let writer = place::create(options.output.as_deref(), &location, name, &metadata, true)?;
    place::add_runtime(&writer, &store)?;
    let directory = writer.directory().to_path_buf();
    let images = match options.image_every {
        Some(Interval::Every(time)) => Some(retake_record::When::Every(time)),
        _ => None,
    };
    let request = Request {
        program: found.program,
        arguments: found.arguments,
        environment: Vec::new(),
        limits: Limits::widen(),
        // Patched text could not be let go again.
        options: retake_supervisor::Options {
            no_fast_path: true,
            ..options.check.session_options()
        },
        processor: metadata.machine.processor.clone(),
        chaos: None,
        timeout: None,
        images,
        keep_last: None,
        watcher: None,
        on_full: retake_record::OnFull::Stop,
        max_size: None,
        began_ns: metadata.began.map_or(0, |[_, _, monotonic_ns]| monotonic_ns),
        behind: None,
    };
    let target = Target { pid, descendants: options.children, time: options.time };
    match retake_record::attach(&request, target, writer, store) {
        Ok(ended) => super::end_as(ended),
        Err(error) => Err(failed(&error, &directory)),
    }
}

fn found(pid: i32) -> Result<Found> {
    let failure = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Failure::new(format!("there is no process {pid}"))
            .attempt("pgrep NAME, which prints the process IDs of a program"),
        _ => Failure::system("look at process", pid, &error),
    };
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).map_err(failure)?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(failure)?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let arguments =
        line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    Ok(Found { program, arguments })
}

fn describe(options: &Options, found: &Found, pid: i32) -> Metadata {
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    Metadata {
        check_level: options.check.into(),
        policy: Policy::Serial,
        began: Some(clock::moment()),
        ticks_per_second: clock::steady_ticks_per_second().unwrap_or(0),
        attached: true,
        has_runtime: true,
        working_directory: ByteText::from(folder.into_os_string()),
        ..describe_program(found, 0)
    }
}
