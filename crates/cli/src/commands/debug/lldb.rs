//! Runs lldb on a session. lldb speaks gdb's protocol. Commands that it does not know go through
//! `monitor`.

use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use retake_debug::DebugSession;

use super::gdb::{find_debugger, socket};
use crate::failure::{Failure, Result};
use crate::scratch::Scratch;

/// Our commands that lldb passes on unchanged. `go` must follow `seek` and `restart`.
const PASSED_ON: [&str; 11] = [
    "when",
    "elapsed",
    "events",
    "checkpoint",
    "checkpoints",
    "forget",
    "crash",
    "output",
    "seek",
    "restart",
    "origin",
];
/// Our commands that move the program.
const MOVING: [&str; 2] = ["reverse-continue", "reverse-stepi"];
/// The commands that follow one that moves the program, so that lldb learns of the move as of any
/// stop. lldb must not step off a breakpoint first.
const GO: &str = "breakpoint disable\nprocess continue\nbreakpoint enable\n";

/// Finds the debugger with this name or path.
///
/// # Errors
/// There is no such program.
pub fn find(lldb: &Path) -> Result<PathBuf> {
    find_debugger(
        lldb,
        "installing it: apt install lldb, dnf install lldb, pacman -S lldb",
        "--lldb=PATH for one elsewhere, or no --lldb for gdb",
    )
}

/// A command that runs lldb with a script of ours, which connects to the session. lldb finds the
/// program and its libraries in a tree of links to the recorded files.
///
/// # Errors
/// The script cannot be written.
pub fn with_script(lldb: &Path, session: &DebugSession, scratch: &Scratch) -> Result<Command> {
    let root = scratch.path().join("root");
    let program = link_files(session, &root);
    let mut script = String::from(
        "settings set plugin.process.gdb-remote.packet-timeout 600\nsettings set \
        interpreter.echo-commands false\n",
    );
    let _ = writeln!(script, "platform select --sysroot \"{}\" remote-linux", root.display());
    if let Some(program) = program {
        let _ = writeln!(script, "target create \"{}\"", program.display());
    }
    for name in PASSED_ON {
        let _ = writeln!(
            script,
            "command regex {name} \"s/(.*)/process plugin packet monitor {name} %1/\""
        );
    }
    for name in MOVING {
        let moved = write(
            scratch,
            &format!("{name}.quiet"),
            &format!("process plugin packet monitor {name}\n{GO}"),
        )?;
        alias(&mut script, scratch, name, &moved)?;
    }
    let moved = write(scratch, "go.quiet", GO)?;
    alias(&mut script, scratch, "go", &moved)?;
    let script = write(scratch, "start.quiet", &script)?;
    let connect = format!(
        "process connect --plugin gdb-remote \"unix-connect://{}\"\n",
        socket(scratch).display()
    );
    let path = write(scratch, "start", &(source(&script) + &connect))?;
    let mut command = Command::new(lldb);
    command.arg("--source").arg(path);
    Ok(command)
}

/// The command with which lldb executes a file silently.
fn source(path: &Path) -> String {
    format!("command source -s true -e false -c false -- \"{}\"\n", path.display())
}

/// Defines a command that executes a file silently, and then shows where the program is.
fn alias(script: &mut String, scratch: &Scratch, name: &str, moved: &Path) -> Result<()> {
    let path = write(scratch, name, &(source(moved) + "frame select 0\n"))?;
    let _ = writeln!(script, "command alias {name} command source -- \"{}\"", path.display());
    Ok(())
}

fn write(scratch: &Scratch, name: &str, text: &str) -> Result<PathBuf> {
    let path = scratch.path().join(format!("{name}.lldb"));
    std::fs::write(&path, text)
        .map_err(|error| Failure::system("write", path.display(), &error))?;
    Ok(path)
}

/// Makes the tree of links. Returns the link to the program, if the recording contains it. A file
/// whose link cannot be made is left out.
fn link_files(session: &DebugSession, root: &Path) -> Option<PathBuf> {
    let mut program = None;
    for (stored, name) in session.loaded_files() {
        // File names come from the recorded program, and are not trusted.
        let link = root.join(
            name.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect::<PathBuf>(),
        );
        let folder = link.parent().map_or(Ok(()), std::fs::create_dir_all);
        let is_made = folder.and_then(|()| symlink(std::path::absolute(&stored)?, &link)).is_ok();
        if is_made && name == session.program_path() && name.chars().all(means_itself) {
            program = Some(link);
        }
    }
    program
}

/// Whether a character has no special meaning to lldb between double quotes.
fn means_itself(character: char) -> bool {
    !character.is_control() && !matches!(character, '"' | '\\' | '`')
}
