//! The files of the corpus: lines of `key = value`, `#` for comments. A key that is given again adds a line.

use std::path::Path;
use std::time::Duration;

use super::Result;

/// Nothing in the corpus takes longer, recorded or not.
const USUAL_LIMIT_SECONDS: u64 = 90;

/// One program and what is done with it. Scripts are for bash and find `$WORK`, `$PROGRAMS` and `$PORT`.
#[derive(Debug, Default)]
pub struct Program {
    /// The file's name.
    pub name: String,
    /// For people.
    pub title: String,
    /// Commands without which it is skipped.
    pub requires: Vec<String>,
    /// The Debian packages that have them.
    pub packages: String,
    /// Makes what it needs, once.
    pub prepare: String,
    /// Run between the native and the recorded run.
    pub reset: String,
    /// What is recorded.
    pub command: String,
    /// Succeeds when a server answers.
    pub ready: String,
    /// Drives a server, natively. Empty: the program ends by itself.
    pub load: String,
    /// The signal that ends a server.
    pub stop: String,
    /// For each of the steps.
    pub limit: Duration,
}

impl Program {
    /// The commands that are not installed.
    pub fn lacking(&self) -> Vec<&str> {
        let folders: Vec<_> = std::env::split_paths(&super::run::search_path()).collect();
        let missing = |command: &&String| !folders.iter().any(|folder| folder.join(command).is_file());
        self.requires.iter().filter(missing).map(String::as_str).collect()
    }
}

/// Reads all files of the corpus, in the order of their names.
///
/// # Errors
/// A file that cannot be read or has a mistake, with its line.
pub fn read_all(folder: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "program") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let program = parse(&name, &std::fs::read_to_string(&path)?);
            programs.push(program.map_err(|error| format!("{}:{error}", path.display()))?);
        }
    }
    programs.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(programs)
}

/// Parses one file. An error starts with the number of its line.
fn parse(name: &str, text: &str) -> std::result::Result<Program, String> {
    let limit = Duration::from_secs(USUAL_LIMIT_SECONDS);
    let mut program = Program { name: name.to_owned(), stop: "TERM".to_owned(), limit, ..Program::default() };
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() && !line.starts_with('#') {
            set(&mut program, line).map_err(|error| format!("{}: {error}", index + 1))?;
        }
    }
    for (key, value) in [("title", &program.title), ("command", &program.command)] {
        if value.is_empty() {
            return Err(format!("{}: {key} is missing", text.lines().count()));
        }
    }
    Ok(program)
}

fn set(program: &mut Program, line: &str) -> std::result::Result<(), String> {
    let (key, value) = line.split_once('=').ok_or("not `key = value`")?;
    let value = value.trim();
    let add = |script: &mut String| {
        script.push_str(value);
        script.push('\n');
    };
    match key.trim() {
        "title" => value.clone_into(&mut program.title),
        "requires" => program.requires = value.split_whitespace().map(str::to_owned).collect(),
        "packages" => value.clone_into(&mut program.packages),
        "prepare" => add(&mut program.prepare),
        "reset" => add(&mut program.reset),
        "command" => value.clone_into(&mut program.command),
        "ready" => add(&mut program.ready),
        "load" => add(&mut program.load),
        "stop" => value.clone_into(&mut program.stop),
        "limit_seconds" => program.limit = Duration::from_secs(value.parse().map_err(|_| format!("not a number: {value}"))?),
        other => return Err(format!("no such key: {other}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let program = parse("x", "# comment\ntitle = a b\nrequires = sh cat\ncommand = cat a=b\nload = one\nload = two\n").unwrap();
        assert_eq!((program.command.as_str(), program.load.as_str(), program.stop.as_str()), ("cat a=b", "one\ntwo\n", "TERM"));
        assert!(program.lacking().is_empty());
        assert_eq!(parse("x", "title = a").unwrap_err(), "1: command is missing");
        assert_eq!(parse("x", "titel = a").unwrap_err(), "1: no such key: titel");
    }
}
