//! Checks style: length of files, width of lines, a header comment in each file, nothing specific
//! to one machine, no open ends. Generated files are left alone.

mod circles;
mod columns;
mod compilers;
mod dependencies;
pub mod floors;
mod functions;
mod lengths;
mod links;
mod methods;
mod numbers;
mod questions;
mod tokens;
mod words;

use std::io;
use std::path::{Path, PathBuf};

use crate::emit_c::NOTICE;
use crate::quoted::Language;

/// Folders without our files, or with data.
const SKIPPED_FOLDERS: [&str; 7] =
    ["target", ".git", "node_modules", "fixtures", "corpus", "artifacts", "coverage"];

/// The endings of files that are read.
const TEXT_ENDINGS: [&str; 12] =
    ["rs", "c", "h", "S", "s", "md", "toml", "tbl", "sh", "py", "yml", "ld"];

/// Folders with programs that tests and benchmarks run.
const PROGRAMS: [&str; 3] = ["tests", "benches", "examples"];

const SOURCE_ENDINGS: [&str; 5] = ["rs", "c", "h", "S", "s"];

/// Documents with tables printed by `cargo xtask bench`.
const PRINTED: [&str; 1] = ["docs/BENCHMARKS.md"];

/// Parts of paths of a development machine. They are split so that this file passes its own check.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/."),
];

/// Words that mark postponed work.
const OPEN_ENDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];

/// Returns complaints about the files below `repository`, each with file and line.
///
/// # Errors
/// A folder or file cannot be read.
pub fn check(repository: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(repository, &mut files)?;
    files.sort();
    let calls = numbers::Calls::read(repository)?;
    let mut complaints = circles::complaints(repository)?;
    complaints.extend(words::complaints(repository)?);
    complaints.extend(dependencies::complaints(repository)?);
    complaints.extend(methods::complaints(repository)?);
    for path in files {
        let bytes = std::fs::read(&path)?;
        let shown = path.strip_prefix(repository).unwrap_or(&path);
        match String::from_utf8(bytes) {
            Ok(text) => {
                check_file(shown, &text, &mut complaints);
                check_names(shown, &text, &calls, &mut complaints);
                if has_ending(&path, &["md"]) {
                    for (line, link) in links::dead_links(repository, shown, &text) {
                        let place = format!("{}:{line}", shown.display());
                        complaints.push(format!("{place}: a link to {link}, which does not exist"));
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

/// Checks one file. `path` is relative to the repository.
pub fn check_file(path: &Path, text: &str, complaints: &mut Vec<String>) {
    if is_generated(text) {
        return;
    }
    let mut complain = |line: usize, message: &str| {
        complaints.push(format!("{}:{line}: {message}", path.display()))
    };
    if has_ending(path, &SOURCE_ENDINGS) {
        let lines = text.lines().count();
        if let Some(message) = lengths::complaint(lines) {
            complain(lines, &message);
        }
        if !has_header_comment(path, text) {
            complain(1, "no comment at the top that says what the file is for");
        }
    }
    if has_ending(path, &SOURCE_ENDINGS) && !PROGRAMS.iter().any(|folder| path.starts_with(folder))
    {
        // Assembly has C's comments.
        let language = Language::of(&path.to_string_lossy()).unwrap_or(Language::C);
        for line in columns::wide_lines(text, language) {
            complain(line, &format!("more than {} columns", columns::MOST_COLUMNS));
        }
        for (line, length) in functions::long_functions(text, language) {
            let most = functions::MOST_LINES;
            complain(line, &format!("a function of {length} lines; the limit is {most}"));
        }
    }
    if has_ending(path, &["md"]) {
        let shown = path.to_string_lossy();
        let lines = text.lines().count();
        if let Some(message) = lengths::complaint_of_page(&shown, lines) {
            complain(lines, &message);
        }
        for line in columns::wide_prose(text, PRINTED.contains(&shown.as_ref())) {
            complain(line, &format!("more than {} columns", columns::MOST_COLUMNS_OF_PROSE));
        }
    }
    for (index, line) in text.lines().enumerate() {
        if MACHINE_PATHS.iter().any(|machine_path| line.contains(machine_path)) {
            complain(index + 1, "a path that only one machine has");
        }
        if OPEN_ENDS.iter().any(|word| line.contains(word)) {
            complain(index + 1, "an open end");
        }
    }
}

/// Checks that names are used: those of calls, not their numbers, and `CC`, not a compiler.
fn check_names(path: &Path, text: &str, calls: &numbers::Calls, complaints: &mut Vec<String>) {
    if is_generated(text) {
        return;
    }
    let place = path.display();
    let Some(language) = Language::of(&path.to_string_lossy()) else { return };
    for (line, name) in numbers::raw_numbers(text, language, calls) {
        complaints.push(format!("{place}:{line}: the number of `{name}` instead of its name"));
    }
    for line in questions::direct_looks(path, text) {
        complaints.push(format!(
            "{place}:{line}: the mode or the options of the session: base/capabilities.h and \
            order/policy.h have questions that say what is meant"
        ));
    }
    for (line, header) in floors::upward_includes(path, text) {
        complaints.push(format!("{place}:{line}: {header} is on a higher floor of the runtime"));
    }
    if language == Language::Rust {
        let fixed = compilers::fixed_compilers(text).into_iter();
        complaints.extend(fixed.map(|line| {
            format!("{place}:{line}: a compiler by name: retake_testing::c::compiler asks for CC")
        }));
    }
}

fn is_generated(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.contains(NOTICE))
}

/// Returns whether a file has a header comment. In Rust it is `//!` before anything but attributes,
/// and elsewhere any comment.
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
