//! Files of programs: lines of `key = value`, `#` for comments. docs/REAL_PROGRAMS.md lists the
//! keys.

use std::path::Path;
use std::time::Duration;

use super::List;
use crate::bench::Result;
use retake_testing::needs::find_command;

/// Signals that end servers.
const STOP_SIGNALS: [(&str, i32); 5] =
    [("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("TERM", 15)];

/// One program and what is done with it. Scripts are for bash.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The file's name without its ending.
    pub name: String,
    /// For people.
    pub title: String,
    /// Commands, or absolute paths of files, without which it is skipped.
    pub requires: Vec<String>,
    /// The Debian packages that have them.
    pub packages: String,
    /// Fills the work folder.
    pub prepare: String,
    /// Runs beside the program, and is killed afterwards.
    pub beside: String,
    /// What is recorded.
    pub script: String,
    /// Options that it is recorded with.
    pub record: Vec<String>,
    /// Succeeds when the program, a server, answers.
    pub ready: String,
    /// Drives a server. Empty: the program ends by itself.
    pub load: String,
    /// The signal that ends a server.
    pub stop: String,
    /// Natively and recorded it prints the same.
    pub same_output: bool,
    /// What it must end with. None: what it ends with natively.
    pub status: Option<i32>,
    /// After this time a step is stopped.
    pub limit: Duration,
    /// What is looked at in the debugger, in the words of `tests/debugger/tour.py`; empty: the
    /// program is replayed instead.
    pub tour: String,
    /// What the debugger is started with to see the same without Retake; empty: it is not the same
    /// each time.
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

    /// The number of the signal that ends a server.
    pub fn stop_number(&self) -> Option<i32> {
        STOP_SIGNALS.iter().find(|(name, _)| *name == self.stop).map(|(_, number)| *number)
    }

    /// What of `requires` is not installed.
    pub fn lacking(&self) -> Vec<&str> {
        let missing = |command: &&String| find_command(command).is_none();
        self.requires.iter().filter(missing).map(String::as_str).collect()
    }
}

/// Reads all programs of `list`, which are in `folder`, in the order of their names.
///
/// # Errors
/// A file that cannot be read or has a mistake, with its line.
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
