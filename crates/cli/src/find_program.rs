//! Finds the program to run, by the rules of execvp.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::failure::{Failure, Result, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND};

/// The search path if PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The interpreter of scripts that name none.
const SHELL: &str = "/bin/sh";
/// The number of bytes that decide whether a file is text.
const LOOKED_AT_BYTES: u64 = 256;

/// A program to run and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The path to execute.
    pub program: PathBuf,
    /// All arguments, beginning with `argv[0]`.
    pub arguments: Vec<OsString>,
}

/// Finds the program that `command` names: a path if it contains a slash, else a name to search in
/// `search_path`.
///
/// # Errors
/// Failures have the statuses of a shell: 127 if there is no such program, 126 if it may not be
/// executed.
pub fn find(command: &[OsString], search_path: Option<&OsStr>) -> Result<Found> {
    let name = command.first().ok_or_else(|| Failure::new("no program to run is given"))?;
    let program = if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        usable(&path).map_err(|error| cannot_run(name, &error))?;
        path
    } else {
        search(name, search_path.unwrap_or(OsStr::new(DEFAULT_PATH)))?
    };
    let mut arguments = command.to_vec();
    if is_bare_script(&program) {
        // As in execvp, the path replaces the name: the shell could not find the script by its
        // name.
        arguments.splice(..1, [OsString::from(SHELL), program.into_os_string()]);
        return Ok(Found { program: SHELL.into(), arguments });
    }
    Ok(Found { program, arguments })
}

fn search(name: &OsStr, search_path: &OsStr) -> Result<PathBuf> {
    let not_found = || {
        Failure::new(format!("cannot find the program {}", name.display()))
            .with_status(STATUS_NOT_FOUND)
            .attempt("its path, or another PATH")
    };
    if name.is_empty() {
        return Err(not_found());
    }
    let mut refusal = None;
    for folder in std::env::split_paths(search_path) {
        let candidate = folder.join(name);
        match usable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                refusal.get_or_insert_with(|| cannot_run(candidate.as_os_str(), &error));
            }
            Err(_) => {}
        }
    }
    Err(refusal.unwrap_or_else(not_found))
}

/// Whether this process may execute the file.
fn usable(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

fn cannot_run(name: &OsStr, error: &io::Error) -> Failure {
    let failure = Failure::system("run", name.display(), error);
    failure.with_status(status_of(error))
}

/// The status that a shell gives for this error of execve.
pub fn status_of(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => STATUS_NOT_FOUND,
        _ => STATUS_NOT_EXECUTABLE,
    }
}

/// Whether the file is text that names no interpreter. The kernel refuses to execute it, and a
/// shell reads it.
fn is_bare_script(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(LOOKED_AT_BYTES).read_to_end(&mut beginning));
    let first_line = beginning.split(|byte| *byte == b'\n').next();
    let is_text = first_line.is_some_and(|line| !line.contains(&0));
    read.is_ok() && is_text && !beginning.starts_with(b"#!") && !beginning.starts_with(b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(command: &[&str], path: Option<&str>) -> std::result::Result<Found, u8> {
        let command: Vec<OsString> = command.iter().map(Into::into).collect();
        find(&command, path.map(OsStr::new)).map_err(|failure| failure.status)
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let shell = |name: &str| {
            Ok(Found { program: "/bin/sh".into(), arguments: vec![name.into(), "-c".into()] })
        };
        assert_eq!(found(&["sh", "-c"], Some("/nowhere:/bin:/usr/bin")), shell("sh"));
        assert_eq!(found(&["sh", "-c"], None), shell("sh"));
        assert_eq!(found(&["/bin/sh", "-c"], Some("/nowhere")), shell("/bin/sh"));
    }

    #[test]
    fn what_cannot_run_has_the_status_of_a_shell() {
        let cases = [
            (["no-such-program"], 127),
            ([""], 127),
            (["/no/such/program"], 127),
            (["/etc/passwd/x"], 127),
            (["/etc"], 126),
            (["/etc/passwd"], 126),
        ];
        for (command, status) in cases {
            assert_eq!(found(&command, Some("/bin")), Err(status), "{command:?}");
        }
        assert_eq!(found(&["passwd"], Some("/etc")), Err(126));
        assert_eq!(found(&[], None), Err(125));
    }
}
