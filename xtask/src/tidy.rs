//! Style that a machine can check: length of files, width of lines, a header comment in each,
//! nothing that belongs to one machine, no open ends. Generated files are left alone.

mod circles;
mod columns;
mod functions;
mod links;
mod methods;

use std::io;
use std::path::{Path, PathBuf};

use crate::emit_c::NOTICE;
use crate::quoted::Language;

/// Longer files are hard to read as a whole. An allowlist would only ever shrink; there is none.
const MAXIMUM_LINES: usize = 800;

/// Folders with nothing of ours, or with data.
const SKIPPED_FOLDERS: [&str; 7] =
    ["target", ".git", "node_modules", "fixtures", "corpus", "artifacts", "coverage"];

/// What is read at all.
const TEXT_ENDINGS: [&str; 12] =
    ["rs", "c", "h", "S", "s", "md", "toml", "tbl", "sh", "py", "yml", "ld"];

/// Programs that tests and benchmarks run.
const PROGRAMS: [&str; 3] = ["tests", "benches", "examples"];

const SOURCE_ENDINGS: [&str; 5] = ["rs", "c", "h", "S", "s"];

/// Parts of paths of a development machine. Written so that this file does not complain about
/// itself.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/."),
];

/// Words for what somebody means to do later.
const OPEN_ENDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];

/// Complaints about the files below `repository`, each with file and line.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn check(repository: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(repository, &mut files)?;
    files.sort();
    let mut complaints = circles::complaints(repository)?;
    complaints.extend(methods::complaints(repository)?);
    for path in files {
        let bytes = std::fs::read(&path)?;
        let shown = path.strip_prefix(repository).unwrap_or(&path);
        match String::from_utf8(bytes) {
            Ok(text) => {
                check_file(shown, &text, &mut complaints);
                if has_ending(&path, &["md"]) {
                    for (line, link) in links::dead_links(repository, shown, &text) {
                        let place = format!("{}:{line}", shown.display());
                        complaints.push(format!("{place}: a link to {link}, which is not there"));
                    }
                }
            }
            Err(_) => complaints.push(format!("{}:1: not UTF-8", shown.display())),
        }
    }
    Ok(complaints)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                collect(&entry.path(), files)?;
            }
        } else if kind.is_file() && has_ending(&entry.path(), &TEXT_ENDINGS) {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
}

/// Complaints about one file. `path` is relative to the repository.
pub fn check_file(path: &Path, text: &str, complaints: &mut Vec<String>) {
    if text.lines().next().is_some_and(|line| line.contains(NOTICE)) {
        return;
    }
    let mut complain = |line: usize, message: &str| {
        complaints.push(format!("{}:{line}: {message}", path.display()))
    };
    if has_ending(path, &SOURCE_ENDINGS) {
        let lines = text.lines().count();
        if lines > MAXIMUM_LINES {
            complain(lines, &format!("{lines} lines; {MAXIMUM_LINES} are the most"));
        }
        if !has_header_comment(path, text) {
            complain(1, "no comment at the top that says what the file is for");
        }
    }
    if has_ending(path, &SOURCE_ENDINGS) && !PROGRAMS.iter().any(|folder| path.starts_with(folder))
    {
        // Assembly has the comments of C.
        let language = Language::of(&path.to_string_lossy()).unwrap_or(Language::C);
        for line in columns::wide_lines(text, language) {
            complain(line, &format!("more than {} columns", columns::MOST_COLUMNS));
        }
        for (line, length) in functions::long_functions(text, language) {
            let most = functions::MOST_LINES;
            complain(line, &format!("a function of {length} lines; {most} are the most"));
        }
    }
    if has_ending(path, &["md"]) {
        for line in columns::wide_prose(text) {
            complain(line, &format!("more than {} columns", columns::MOST_COLUMNS_OF_PROSE));
        }
    }
    for (index, line) in text.lines().enumerate() {
        if MACHINE_PATHS.iter().any(|machine_path| line.contains(machine_path)) {
            complain(index + 1, "a path of one machine");
        }
        if OPEN_ENDS.iter().any(|word| line.contains(word)) {
            complain(index + 1, "an open end");
        }
    }
}

/// Rust: `//!` before anything but attributes. Others: a comment first.
fn has_header_comment(path: &Path, text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if path.extension().is_some_and(|ending| ending == "rs") {
        let first = lines.find(|line| !line.starts_with("#!["));
        return first.is_some_and(|line| line.starts_with("//!"));
    }
    lines.next().is_some_and(|line| {
        line.starts_with("/*")
            || line.starts_with("//")
            || line.starts_with('#') && has_ending(path, &["S", "s"])
    })
}
