//! What a test program says about itself in the comments at its top.
//!
//! The first line says what the program tries. Then come lines of the form `// key: value`, up to
//! the first line that is no comment:
//!
//! | key | value | when absent |
//! |---|---|---|
//! | `modes` | some of `native record replay slow trace` | all |
//! | `status` | the exit status it must end with | 0 |
//! | `signal` | the signal it must die of, without `SIG` | none |
//! | `args` | arguments, separated by spaces | none |
//! | `stdin` | a line of standard input; may be repeated | empty |
//! | `compiler` | another one than gcc, which the machine must have | gcc |
//! | `flags` | for the compiler and linker | none |
//! | `needs` | what the machine must have, see `retake_testing::needs` | nothing |
//! | `stdout`, `stderr` | a regular expression (`^` and `$` match at lines) that must be found; may be repeated | none |
//! | `output` | `same`: every run prints the same; `varies` | `varies` |
//! | `calls` | `same`: every run makes the same calls; `varies` | as `output`, but `varies` with `-pthread` |
//! | `group` | the kind shown beside the test's name | none |
//!
//! Other comments there are prose. One that begins with a lower-case word and a colon counts as a
//! misspelt directive.

use regex_lite::{Regex, RegexBuilder};
use retake_testing::c::compiler;

use super::modes::Mode;
use super::run::Ending;

/// The directives of one program.
#[derive(Debug)]
pub struct Directives {
    pub modes: Vec<Mode>,
    pub ending: Ending,
    pub arguments: Vec<String>,
    pub stdin: String,
    pub compiler: String,
    pub flags: Vec<String>,
    pub needs: Vec<String>,
    pub stdout: Vec<Regex>,
    pub stderr: Vec<Regex>,
    pub same_output: bool,
    /// If absent, the calls are the same where the output is, except for programs with threads.
    pub same_calls: Option<bool>,
    pub group: String,
}

impl Default for Directives {
    fn default() -> Self {
        Self {
            modes: Mode::ALL.to_vec(),
            ending: Ending::Exited(0),
            arguments: Vec::new(),
            stdin: String::new(),
            compiler: compiler(),
            flags: Vec::new(),
            needs: Vec::new(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            same_output: false,
            same_calls: None,
            group: String::new(),
        }
    }
}

impl Directives {
    /// Whether every run makes the same calls.
    pub fn makes_same_calls(&self) -> bool {
        let has_threads = self.flags.iter().any(|flag| flag == "-pthread");
        self.same_calls.unwrap_or(self.same_output && !has_threads)
    }
}

/// Reads the directives of a source file.
///
/// A message with the line number, if a key or value is unknown.
/// A message naming the line, for a key or value that is not known.
pub fn parse(source: &str) -> Result<Directives, String> {
    let mut directives = Directives::default();
    for (index, line) in source.lines().enumerate().skip(1) {
        let Some(comment) = line.strip_prefix("//") else {
            break;
        };
        if let Some((key, value)) = split(comment.trim()) {
            apply(&mut directives, key, value)
                .map_err(|error| format!("line {}: {error}", index + 1))?;
        }
    }
    Ok(directives)
}

/// Splits `key: value`; `None` for prose.
fn split(comment: &str) -> Option<(&str, &str)> {
    let (key, value) = comment.split_once(':')?;
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase());
    is_key.then(|| (key, value.trim()))
}

fn apply(directives: &mut Directives, key: &str, value: &str) -> Result<(), String> {
    match key {
        "modes" => {
            directives.modes = value.split_whitespace().map(mode).collect::<Result<_, _>>()?
        }
        "status" => {
            let status = value.parse().map_err(|_| format!("{value} is no exit status"))?;
            directives.ending = Ending::Exited(status);
        }
        "signal" => directives.ending = Ending::Killed(signal_number(value)?),
        "args" => directives.arguments = words(value),
        "stdin" => {
            directives.stdin.push_str(value);
            directives.stdin.push('\n');
        }
        "compiler" => {
            value.clone_into(&mut directives.compiler);
            directives.needs.push(value.to_owned());
        }
        "flags" => directives.flags = words(value),
        "needs" => directives.needs.extend(words(value)),
        "stdout" => directives.stdout.push(expression(value)?),
        "stderr" => directives.stderr.push(expression(value)?),
        "output" => directives.same_output = is_same(key, value)?,
        "calls" => directives.same_calls = Some(is_same(key, value)?),
        "group" => directives.group = value.to_owned(),
        _ => return Err(format!("there is no directive {key}")),
    }
    Ok(())
}

fn is_same(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "same" => Ok(true),
        "varies" => Ok(false),
        _ => Err(format!("{key} is `same` or `varies`, not {value}")),
    }
}

fn words(value: &str) -> Vec<String> {
    value.split_whitespace().map(str::to_owned).collect()
}

fn mode(name: &str) -> Result<Mode, String> {
    Mode::ALL
        .into_iter()
        .find(|mode| mode.name() == name)
        .ok_or_else(|| format!("there is no mode {name}"))
}

fn expression(value: &str) -> Result<Regex, String> {
    RegexBuilder::new(value).multi_line(true).build().map_err(|error| format!("{value}: {error}"))
}

/// The number of a signal on x86-64. `RTMIN` is the first signal that the C library leaves to
/// programs.
fn signal_number(name: &str) -> Result<i32, String> {
    const NAMES: [(&str, i32); 14] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("TRAP", 5),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("SEGV", 11),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("RTMIN", 34),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number)
        .ok_or_else(|| format!("signal {name} is not in the driver's list"))
}
