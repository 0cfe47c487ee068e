//! Files of real programs: lines of `key = value`, `#` for comments. docs/REAL_PROGRAMS.md lists the keys.

use std::path::Path;
use std::time::Duration;

use crate::bench::Result;

const USUAL_LIMIT: Duration = Duration::from_secs(60);

/// One program to record and replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The file's name without its ending.
    pub name: String,
    /// For people.
    pub title: String,
    /// Commands, or absolute paths of files, without which it is skipped.
    pub requires: Vec<String>,
    /// The Debian packages that have them.
    pub packages: String,
    /// A bash script that prepares the work folder. It is not recorded.
    pub prepare: String,
    /// A bash script that runs beside the program, natively and while it is recorded, and is killed afterwards.
    pub beside: String,
    /// The bash script that is recorded.
    pub script: String,
    /// Natively and recorded it prints the same.
    pub same_output: bool,
    /// What it must end with, natively and recorded.
    pub status: i32,
    /// After this time a run is stopped, natively, recorded or replayed.
    pub limit: Duration,
}

/// Reads all programs of `folder`, in the order of their names.
///
/// # Errors
/// A file that cannot be read or has a mistake, with its line.
pub fn read_all(folder: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "real") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let case = parse(&name, &std::fs::read_to_string(&path)?);
            cases.push(case.map_err(|error| format!("{}:{error}", path.display()))?);
        }
    }
    cases.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(cases)
}

/// Parses one file. An error starts with the number of its line.
pub fn parse(name: &str, text: &str) -> std::result::Result<Case, String> {
    let mut case = Case {
        name: name.to_owned(),
        title: String::new(),
        requires: Vec::new(),
        packages: String::new(),
        prepare: String::new(),
        beside: String::new(),
        script: String::new(),
        same_output: true,
        status: 0,
        limit: USUAL_LIMIT,
    };
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() && !line.starts_with('#') {
            set(&mut case, line).map_err(|error| format!("{}: {error}", index + 1))?;
        }
    }
    let last = text.lines().count();
    for (key, is_missing) in [("title", case.title.is_empty()), ("script", case.script.is_empty())] {
        if is_missing {
            return Err(format!("{last}: {key} is missing"));
        }
    }
    Ok(case)
}

fn set(case: &mut Case, line: &str) -> std::result::Result<(), String> {
    let (key, value) = line.split_once('=').ok_or("not `key = value`")?;
    let value = value.trim_end();
    let trimmed = value.trim();
    let number = || trimmed.parse::<u32>().map_err(|_| format!("not a number: {trimmed}"));
    match key.trim() {
        "title" => case.title = trimmed.to_owned(),
        "requires" => case.requires = trimmed.split_whitespace().map(str::to_owned).collect(),
        "packages" => case.packages = trimmed.to_owned(),
        "prepare" => append_line(&mut case.prepare, value),
        "beside" => append_line(&mut case.beside, value),
        "script" => append_line(&mut case.script, value),
        "output" => {
            case.same_output = match trimmed {
                "same" => true,
                "varies" => false,
                _ => return Err(format!("output is same or varies, not {trimmed}")),
            };
        }
        "status" => case.status = number()? as i32,
        "limit_s" => case.limit = Duration::from_secs(u64::from(number()?)),
        other => return Err(format!("no such key: {other}")),
    }
    Ok(())
}

fn append_line(script: &mut String, line: &str) {
    script.push_str(line.strip_prefix(' ').unwrap_or(line));
    script.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = "# why\ntitle = A b\nrequires = gcc  xz\nprepare = if true; then\nprepare =     a=b\nprepare = fi\nscript = cat < a\n\
                    output = varies\nstatus = 139\nlimit_s = 9\n";
        let case = parse("it", text).unwrap();
        assert_eq!((case.title.as_str(), case.script.as_str()), ("A b", "cat < a\n"));
        assert_eq!(case.prepare, "if true; then\n    a=b\nfi\n");
        assert_eq!((case.same_output, case.status, case.limit), (false, 139, Duration::from_secs(9)));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            ("title = a\nnonsense\n", "2: not `key = value`"),
            ("titel = a\n", "1: no such key: titel"),
            ("title = a\n", "1: script is missing"),
            ("output = some\n", "1: output is same or varies, not some"),
            ("status = -1\n", "1: not a number: -1"),
        ] {
            assert_eq!(parse("it", text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_programs_of_this_repository_are_right() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/real");
        assert!(read_all(&folder).unwrap().len() >= 20);
    }
}
