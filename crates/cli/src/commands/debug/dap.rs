//! `retake debug --dap`: serves editors.

use std::ffi::OsStr;
use std::io::{BufReader, stdin, stdout};
use std::process::Command;

use retake_debug::dap::{self, Launch};
use retake_debug::{Destination, SCRIPT};

use super::{Options, accept_one, gdb};
use crate::failure::{Failure, Result};
use crate::scratch::Scratch;

/// The version of gdb's machine interface that this adapter understands.
const INTERPRETER: &str = "--interpreter=mi3";

/// Serves one client until it disconnects.
pub fn run(options: &Options) -> Result<()> {
    // Replays are cleaned up by other processes. No process removes what this one leaves behind
    // when it is killed.
    let mut scratch = None;
    let mut backend = |launch: &Launch| {
        let command = match &launch.address {
            None => replaying(options, launch),
            Some(address) => connected(options, launch, address, &mut scratch),
        };
        command.map_err(|failure| failure.to_string())
    };
    match &options.serve {
        None => dap::serve(BufReader::new(stdin()), stdout(), &mut backend),
        Some(address) => {
            let stream = accept_one(address, "an editor at")?;
            let input = stream
                .try_clone()
                .map_err(|error| Failure::system("use", "the connection", &error))?;
            dap::serve(BufReader::new(input), stream, &mut backend);
        }
    }
    Ok(())
}

/// A second `retake debug`, which replays for a gdb. The options of this process replace what the
/// launch request leaves open.
fn replaying(options: &Options, launch: &Launch) -> Result<Command> {
    let own =
        std::env::current_exe().map_err(|error| Failure::system("find", "this program", &error))?;
    let at = launch
        .at
        .as_deref()
        .map_or(Ok(options.at), str::parse::<Destination>)
        .map_err(Failure::new)?;
    let mut command = Command::new(own);
    command
        .arg("debug")
        .arg(launch.recording.as_ref().map_or(options.recording.as_os_str(), OsStr::new));
    command.arg("--at").arg(at.to_string());
    if let Some(process) = launch.process.as_ref().or(options.process.as_ref()) {
        command.args(["-p", process]);
    }
    if options.no_checkpoints {
        command.arg("--no-checkpoints");
    }
    command.arg("--gdb").arg(gdb_of(options, launch)).args(["--", INTERPRETER]);
    Ok(command)
}

/// A gdb that connects to a running `retake debug --serve`.
fn connected(
    options: &Options,
    launch: &Launch,
    address: &str,
    scratch: &mut Option<Scratch>,
) -> Result<Command> {
    let found = gdb::find(gdb_of(options, launch).as_ref())?;
    let scratch = scratch.insert(Scratch::create()?);
    let mut command = gdb::with_script(&found, SCRIPT, scratch)?;
    command.arg(INTERPRETER).env(gdb::SOCKET, address);
    Ok(command)
}

fn gdb_of<'given>(options: &'given Options, launch: &'given Launch) -> &'given OsStr {
    launch.gdb.as_ref().map_or(options.gdb.as_os_str(), OsStr::new)
}
