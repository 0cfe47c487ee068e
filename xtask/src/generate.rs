//! Generates the committed files from `tables/` and `contract/`, or compares them.

use std::path::Path;

use clap::Args;

use crate::parse::{Sources, parse};
use crate::table::Table;
use crate::{arguments, emit_c, emit_docs, emit_rust};

/// The command line of `cargo xtask gen`.
#[derive(Debug, Args)]
pub struct Options {
    /// Write nothing; fail if a generated file is stale.
    #[arg(long)]
    check: bool,
}

/// Runs `cargo xtask gen`. False if a check finds a stale file.
///
/// # Errors
/// See [`write`].
pub fn run(repository: &Path, options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    if options.check {
        let stale = stale(repository)?;
        for path in &stale {
            eprintln!("{path} is not what tables/ and contract/ say: run `cargo xtask gen`");
        }
        return Ok(stale.is_empty());
    }
    for path in write(repository)? {
        println!("wrote {path}");
    }
    Ok(true)
}

/// A generated file: its path below the repository, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub path: &'static str,
    pub text: String,
}

/// Returns FNV-1a over the C data, which contains everything that affects the contents of a
/// recording.
pub fn table_hash(table: &Table) -> u64 {
    retake_contract_gen::fnv(emit_c::data(table).bytes())
}

/// Returns the files that depend on nothing but the tables.
pub fn outputs(table: &Table) -> Vec<Output> {
    let hash = table_hash(table);
    vec![
        Output { path: "runtime/gen/table.h", text: emit_c::header(table, hash) },
        Output { path: "runtime/gen/table.c", text: emit_c::data(table) },
        Output { path: "runtime/gen/numbers.h", text: emit_c::numbers(table) },
        Output { path: "crates/model/src/gen.rs", text: emit_rust::data(table, hash) },
        Output { path: "docs/SYSCALLS.md", text: emit_docs::coverage(table) },
    ]
}

/// Reads the tables and the contract below `repository` and returns the generated files.
///
/// # Errors
/// A file cannot be read, has a mistake, or breaks what recordings rely on.
pub fn generate(repository: &Path) -> Result<Vec<Output>, Box<dyn std::error::Error>> {
    let table = parse(&Sources::read(&repository.join("tables"))?)?;
    let contract = retake_contract_gen::read_as_written(&repository.join("contract"))?;
    let kept = retake_contract_gen::keep(&contract)?;
    let mut outputs = outputs(&table);
    outputs.push(Output { path: "contract/kept.txt", text: kept.text() });
    let kept = arguments::next(arguments::before(repository).as_ref(), &table)?;
    outputs.push(Output { path: arguments::FILE, text: kept.text() });
    Ok(outputs)
}

/// Writes the generated files that differ. Returns their paths.
///
/// # Errors
/// Those of [`generate`], and a file that cannot be written.
pub fn write(repository: &Path) -> Result<Vec<&'static str>, Box<dyn std::error::Error>> {
    let mut written = Vec::new();
    for output in generate(repository)? {
        let path = repository.join(output.path);
        if std::fs::read_to_string(&path).is_ok_and(|text| text == output.text) {
            continue;
        }
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(&path, &output.text)?;
        written.push(output.path);
    }
    Ok(written)
}

/// Returns the paths of generated files that differ from the tables.
///
/// # Errors
/// See [`generate`].
pub fn stale(repository: &Path) -> Result<Vec<&'static str>, Box<dyn std::error::Error>> {
    let outputs = generate(repository)?;
    let differs = |output: &Output| {
        !std::fs::read_to_string(repository.join(output.path)).is_ok_and(|text| text == output.text)
    };
    Ok(outputs.iter().filter(|output| differs(output)).map(|output| output.path).collect())
}
