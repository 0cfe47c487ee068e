//! The files of programs: lines of `key = value`, `#` for comments. docs/REAL_PROGRAMS.md lists the
//! keys.

use std::path::Path;
use std::time::Duration;

use super::List;
use crate::bench::Result;
use retake_testing::needs::find_command;

/// The signals that end servers.
const STOP_SIGNALS: [(&str, i32); 5] =
    [("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("TERM", 15)];

/// A program and its scripts, which are for bash.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The file's name without its ending.
    pub name: String,
    /// The title for people.
    pub title: String,
    /// Required commands, or absolute paths of files. The program is skipped without them.
    pub requires: Vec<String>,
    /// The Debian packages that have them.
    pub packages: String,
    /// A script that fills the work folder.
    pub prepare: String,
    /// A script that runs beside the program, and is killed afterwards.
    pub beside: String,
    /// The script that is recorded.
    pub script: String,
    /// The options of `retake record`.
    pub record: Vec<String>,
    /// A script that succeeds when the server answers.
    pub ready: String,
    /// A script that drives a server. Empty if the program ends by itself.
    pub load: String,
    /// The signal that ends a server.
    pub stop: String,
    /// Whether it prints the same natively and recorded.
    pub same_output: bool,
    /// The required exit status. `None` means the native one.
    pub status: Option<i32>,
    /// The time limit of a step.
    pub limit: Duration,
    /// The steps in the debugger, in the language of `tests/debugger/tour.py`. If empty, the
    /// program is replayed instead.
    pub tour: String,
    /// The command for the debugger that shows the same without Retake. Empty if the program
    /// differs each time.
    pub live: String,
}

impl Program {
    fn new(list: &List, name: &str) -> Self {
        let nothing = String::new;
        Self {
            name: name.to_owned(),
            title: nothing(),
            requires: Vec::new(),
            packages: nothing(),
            prepare: nothing(),
            beside: nothing(),
            script: nothing(),
            record: Vec::new(),
            ready: nothing(),
            load: nothing(),
            stop: "TERM".to_owned(),
            same_output: list.same_output,
            status: Some(0),
            limit: list.limit,
            tour: nothing(),
            live: nothing(),
        }
    }

    /// Returns the number of the signal that ends a server.
    pub fn stop_number(&self) -> Option<i32> {
        STOP_SIGNALS.iter().find(|(name, _)| *name == self.stop).map(|(_, number)| *number)
    }

    /// Returns the entries of `requires` that are not installed.
    pub fn lacking(&self) -> Vec<&str> {
        let missing = |command: &&String| find_command(command).is_none();
        self.requires.iter().filter(missing).map(String::as_str).collect()
    }
}

/// Reads all programs of `list` from `folder`, in the order of their names.
///
/// # Errors
/// A file cannot be read or has a mistake, with its line.
pub fn read_all(list: &List, folder: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for entry in
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "program") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let program = parse(list, &name, &std::fs::read_to_string(&path)?);
            programs.push(program.map_err(|error| format!("{}:{error}", path.display()))?);
        }
    }
    programs.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(programs)
}

/// Parses one file. An error starts with the number of its line.
pub(super) fn parse(list: &List, name: &str, text: &str) -> std::result::Result<Program, String> {
    let mut program = Program::new(list, name);
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() && !line.starts_with('#') {
            set(&mut program, line).map_err(|error| format!("{}: {error}", index + 1))?;
        }
    }
    for (key, value) in [("title", &program.title), ("script", &program.script)] {
        if value.is_empty() {
            return Err(format!("{}: {key} is missing", text.lines().count()));
        }
    }
    if program.stop_number().is_none() {
        return Err(format!(
            "{}: no signal that ends a server: {}",
            text.lines().count(),
            program.stop
        ));
    }
    if !program.load.is_empty() {
        program.status = None;
    }
    Ok(program)
}

fn set(program: &mut Program, line: &str) -> std::result::Result<(), String> {
    let (key, value) = line.split_once('=').ok_or("not `key = value`")?;
    let value = value.trim_end();
    let trimmed = value.trim();
    let number = || trimmed.parse::<u32>().map_err(|_| format!("not a number: {trimmed}"));
    let add = |script: &mut String| {
        script.push_str(value.strip_prefix(' ').unwrap_or(value));
        script.push('\n');
    };
    match key.trim() {
        "title" => trimmed.clone_into(&mut program.title),
        "requires" => program.requires = trimmed.split_whitespace().map(str::to_owned).collect(),
        "packages" => trimmed.clone_into(&mut program.packages),
        "prepare" => add(&mut program.prepare),
        "beside" => add(&mut program.beside),
        "script" => add(&mut program.script),
        "command" => program.script = format!("exec {trimmed}\n"),
        "record" => program.record = trimmed.split_whitespace().map(str::to_owned).collect(),
        "ready" => add(&mut program.ready),
        "load" => add(&mut program.load),
        "stop" => trimmed.clone_into(&mut program.stop),
        "tour" => add(&mut program.tour),
        "live" => trimmed.clone_into(&mut program.live),
        "output" => {
            program.same_output = match trimmed {
                "same" => true,
                "varies" => false,
                _ => return Err(format!("output is same or varies, not {trimmed}")),
            };
        }
        "status" => {
            program.status = Some(i32::try_from(number()?).map_err(|error| error.to_string())?)
        }
        "limit_s" => program.limit = Duration::from_secs(u64::from(number()?)),
        other => return Err(format!("no such key: {other}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{CORPUS, REAL};
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = "# why\ntitle = A b\nrequires = sh  cat /bin/sh\nprepare = if true; \
        then\nprepare =     a=b\nprepare = fi\nscript = cat < a\n\
                    output = varies\nstatus = 139\nlimit_s = 9\n";
        let program = parse(&REAL, "it", text).unwrap();
        assert_eq!((program.title.as_str(), program.script.as_str()), ("A b", "cat < a\n"));
        assert_eq!(program.prepare, "if true; then\n    a=b\nfi\n");
        assert_eq!(
            (program.same_output, program.status, program.limit),
            (false, Some(139), Duration::from_secs(9))
        );
        assert!(program.lacking().is_empty());
    }

    #[test]
    fn a_server_is_read() {
        let program =
            parse(&CORPUS, "x", "title = a\ncommand = cat a=b\nload = one\nload = two\n").unwrap();
        assert_eq!(
            (program.script.as_str(), program.load.as_str(), program.stop.as_str()),
            ("exec cat a=b\n", "one\ntwo\n", "TERM")
        );
        assert_eq!((program.status, program.same_output), (None, false));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            ("title = a\nnonsense\n", "2: not `key = value`"),
            ("titel = a\n", "1: no such key: titel"),
            ("title = a\n", "1: script is missing"),
            ("output = some\n", "1: output is same or varies, not some"),
            ("status = -1\n", "1: not a number: -1"),
            ("title = a\nscript = b\nstop = SIGTERM\n", "3: no signal that ends a server: SIGTERM"),
        ] {
            assert_eq!(parse(&REAL, "it", text), Err(expected.to_owned()), "{text}");
        }
    }
}
