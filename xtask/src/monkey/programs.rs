//! The programs that are recorded.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bench::Result;

/// A program with its arguments.
#[derive(Debug, Clone)]
pub struct Program {
    pub name: String,
    pub command: Vec<String>,
}

/// Programs with threads from the tests, which run until somebody ends them.
const COMPILED: [&str; 3] = ["printers", "computers", "spinner"];

/// Makes all programs: the scripts of `tests/monkey`, and programs in C.
///
/// # Errors
/// A file cannot be read, or does not compile.
pub fn make(repository: &Path, scratch: &Path) -> Result<Vec<Program>> {
    let tests = repository.join("tests").canonicalize()?;
    let mut programs = Vec::new();
    for entry in fs::read_dir(tests.join("monkey"))? {
        let path = entry?.path();
        let Some(extension) = path.extension() else { continue };
        let interpreter = match extension.to_str() {
            Some("sh") => "sh",
            Some("py") => "python3",
            _ => continue,
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let command = vec![interpreter.to_owned(), path.to_string_lossy().into_owned()];
        programs.push(Program { name, command });
    }
    for name in COMPILED {
        let made = scratch.join(name);
        let source = tests.join("faults").join(name).with_extension("c");
        let mut compiler = Command::new(retake_testing::c::compiler());
        let status = compiler.args(["-O1", "-pthread", "-o"]).arg(&made).arg(&source).status()?;
        if !status.success() {
            return Err(format!("{} does not compile", source.display()).into());
        }
        let command = vec![made.to_string_lossy().into_owned()];
        programs.push(Program { name: name.to_owned(), command });
    }
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}
