//! Finds the programs, and compiles each when the first test needs it.
//!
//! Executables stay in the target folder, under a hash of everything that affects them, so that a
//! second run compiles nothing. As many compilers run in parallel as tests, which is one for each
//! processor.

use retake_testing::c::compiler;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::directives::{self, Directives};

const FLAGS: [&str; 8] = [
    "-std=gnu11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wno-unused-result",
    // Many programs pass bad addresses and lengths to the kernel on purpose.
    "-Wno-nonnull",
    "-Wno-stringop-overflow",
];

/// A test program.
#[derive(Debug)]
pub struct Program {
    pub name: String,
    pub directives: Directives,
    source: PathBuf,
    compiled: OnceLock<Result<PathBuf, String>>,
}

/// Reads all programs in a folder, sorted by name.
///
/// # Errors
/// A message, if the folder cannot be read, contains no programs, or contains one with a wrong
/// directive.
pub fn find_programs(folder: &Path) -> Result<Vec<Program>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut programs = Vec::new();
    for entry in entries {
        let source = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if source.extension().is_some_and(|extension| extension == "c") {
            programs.push(read_program(source)?);
        }
    }
    programs.sort_by(|left, right| left.name.cmp(&right.name));
    if programs.is_empty() {
        return Err(format!("there are no programs in {}", folder.display()));
    }
    Ok(programs)
}

fn read_program(source: PathBuf) -> Result<Program, String> {
    let text =
        fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let directives =
        directives::parse(&text).map_err(|error| format!("{}: {error}", source.display()))?;
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Program { name, directives, source, compiled: OnceLock::new() })
}

impl Program {
    /// The path of the executable. Compiles the program if that has not been done.
    ///
    /// # Errors
    /// What the compiler printed.
    pub fn executable(&self) -> Result<PathBuf, String> {
        self.compiled.get_or_init(|| self.compile()).clone()
    }

    fn compile(&self) -> Result<PathBuf, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("programs")
            .join(format!("{:016x}", self.content_hash()?));
        let executable = folder.join(&self.name);
        if executable.exists() {
            return Ok(executable);
        }
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Compiled under another name first, so that an interrupted run leaves no incomplete
        // executable.
        let unfinished = folder.join(format!("unfinished-{}", std::process::id()));
        let compiler = &self.directives.compiler;
        let output = Command::new(compiler)
            .args(FLAGS)
            .arg(&self.source)
            .arg("-o")
            .arg(&unfinished)
            .args(&self.directives.flags)
            .output()
            .map_err(|error| format!("cannot run {compiler}: {error}"))?;
        if !output.status.success() {
            return Err(format!("{compiler} fails:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        fs::rename(&unfinished, &executable)
            .map_err(|error| format!("{}: {error}", executable.display()))?;
        Ok(executable)
    }

    /// A hash of the source, the shared header, the flags and the compiler's version.
    fn content_hash(&self) -> Result<u64, String> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut hasher = DefaultHasher::new();
        read(&self.source)?.hash(&mut hasher);
        read(&self.source.with_file_name("check.h"))?.hash(&mut hasher);
        FLAGS.hash(&mut hasher);
        self.directives.compiler.hash(&mut hasher);
        compiler_version()?.hash(&mut hasher);
        Ok(hasher.finish())
    }
}

fn compiler_version() -> Result<Vec<u8>, String> {
    static VERSION: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let ask = || {
        let output = Command::new(compiler()).arg("--version").output();
        output.map(|output| output.stdout).map_err(|error| format!("cannot run gcc: {error}"))
    };
    VERSION.get_or_init(ask).clone()
}
