//! The stand-in for the assembler, which the compiler calls.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::filter::Filter;

/// The name by which the compiler calls us.
pub(crate) const ASSEMBLER_NAME: &str = "as";
/// The environment variable that tells us the real assembler.
pub(crate) const ASSEMBLER_VARIABLE: &str = "RETAKE_ASSEMBLER";

/// Options whose value is the next argument.
const WITH_VALUE: [&str; 6] = ["-o", "-I", "--defsym", "--MD", "--debug-prefix-map", "-march"];

/// Whether a compiler that we started calls us as its assembler.
pub fn is_called_as_assembler(name: &OsStr) -> bool {
    Path::new(name).file_name() == Some(OsStr::new(ASSEMBLER_NAME))
        && std::env::var_os(ASSEMBLER_VARIABLE).is_some()
}

/// Assembles the compiler's output, after adding the list of instructions that synchronise.
///
/// # Errors
/// The input cannot be read, or there is no assembler.
pub fn assemble(arguments: &[OsString]) -> io::Result<ExitStatus> {
    let assembler = std::env::var_os(ASSEMBLER_VARIABLE).unwrap_or_else(|| ASSEMBLER_NAME.into());
    let input = input(arguments);
    let source = match input.map(|index| &arguments[index]) {
        Some(file) => std::fs::read(file)?,
        None => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            bytes
        }
    };
    let rest = arguments.iter().enumerate().filter(|(index, _)| Some(*index) != input);
    let mut child = Command::new(assembler)
        .args(rest.map(|(_, argument)| argument))
        .stdin(Stdio::piped())
        .spawn()?;
    let listed = match std::str::from_utf8(&source) {
        Ok(text) => Filter::default().file(text).into_bytes(),
        Err(_) => source,
    };
    let mut to_child = child.stdin.take().expect("it is a pipe");
    // An assembler that ends early has reported why.
    let _ = to_child.write_all(&listed);
    drop(to_child);
    child.wait()
}

/// The index of the argument that names the file to assemble.
fn input(arguments: &[OsString]) -> Option<usize> {
    let is_value = |index: usize| {
        index > 0 && WITH_VALUE.iter().any(|option| arguments[index - 1] == OsStr::new(option))
    };
    let names_file =
        |index: &usize| !arguments[*index].to_string_lossy().starts_with('-') && !is_value(*index);
    (0..arguments.len()).rev().find(names_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_told_from_options() {
        let find = |words: &[&'static str]| {
            input(&words.iter().map(OsString::from).collect::<Vec<_>>())
                .map(move |index| words[index])
        };
        assert_eq!(find(&["--64", "-o", "a.o", "a.s"]), Some("a.s"));
        assert_eq!(find(&["-I", "here", "--64", "-o", "a.o", "-"]), None, "standard input");
        assert_eq!(find(&["a.s", "-o", "a.o"]), Some("a.s"));
    }
}
