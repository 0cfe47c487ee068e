//! The compiler, and how it is called.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::assembler::{ASSEMBLER_NAME, ASSEMBLER_VARIABLE};

/// The language, which decides what compiler is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
}

impl Language {
    /// The environment variable that names another compiler.
    pub fn variable(self) -> &'static str {
        match self {
            Self::C => "RETAKE_CC",
            Self::Cxx => "RETAKE_CXX",
        }
    }

    fn usual(self) -> &'static str {
        match self {
            Self::C => "gcc",
            Self::Cxx => "g++",
        }
    }
}

/// Why the compiler was not run.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    #[error(
        "cannot run the compiler {}: {source}; set {variable} to use another one",
        .compiler.display()
    )]
    NotRun { compiler: PathBuf, variable: &'static str, source: io::Error },
    #[error(
        "{} is not gcc, and only gcc says what its instructions do; set {variable} to use another \
        compiler",
        .compiler.display()
    )]
    NotGcc { compiler: PathBuf, variable: &'static str },
    #[error("cannot stand in for the assembler: {0}")]
    NoStandIn(#[from] io::Error),
}

/// Compiles or links like the compiler alone, but makes it keep what it knows about its
/// instructions. `own_program` becomes its assembler. `folder` must be empty, and gets a link to
/// it.
///
/// # Errors
/// The compiler cannot be run, or is not gcc.
pub fn compile(
    language: Language,
    own_program: &Path,
    folder: &Path,
    arguments: &[OsString],
) -> Result<ExitStatus, CompilerError> {
    let compiler: PathBuf = std::env::var_os(language.variable())
        .unwrap_or_else(|| OsString::from(language.usual()))
        .into();
    let not_run = |source| CompilerError::NotRun {
        compiler: compiler.clone(),
        variable: language.variable(),
        source,
    };
    let told = Command::new(&compiler).args(["-v"]).output().map_err(not_run)?;
    if !String::from_utf8_lossy(&told.stderr).contains("gcc version") {
        return Err(CompilerError::NotGcc { compiler, variable: language.variable() });
    }
    let told = Command::new(&compiler).arg("-print-prog-name=as").output().map_err(not_run)?.stdout;
    let assembler = String::from_utf8_lossy(&told).trim().to_owned();
    symlink(own_program, folder.join(ASSEMBLER_NAME))?;
    let mut prefix = OsString::from("-B");
    prefix.push(folder.join(""));
    let mut command = Command::new(&compiler);
    command.arg(prefix).env(ASSEMBLER_VARIABLE, assembler);
    if !arguments.iter().any(|argument| argument == OsStr::new("-S")) {
        command.arg("-dP");
    }
    command.args(arguments).status().map_err(not_run)
}
