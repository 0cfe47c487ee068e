//! The contract between the runtime and the supervisor: everything on which C, assembly and Rust
//! must agree.
//!
//! `contract/` describes it once, in the small language that [`parse`](mod@parse) explains. From
//! that, build scripts generate C headers, a header for the assembler, and Rust modules. No layout,
//! number or address is written twice by hand.

#![forbid(unsafe_code)]

mod emit_c;
mod emit_rust;
mod kept;
mod layout;
mod parse;
mod scramble;

use std::path::Path;

pub use kept::{Kept, keep, lines};
pub use parse::{Constant, Enumeration, Field, File, Item, Structure, Type};

/// An environment variable for builds. If it is set, the fields of structures that are not in files
/// get another order. Everything must work as before.
pub const SCRAMBLE: &str = "RETAKE_SCRAMBLE";

/// An error in the contract.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read { path: String, source: std::io::Error },
    /// A line has no meaning.
    #[error("contract/{file}:{line}: {what}")]
    Line { file: String, line: usize, what: String },
    /// A name is used without a definition, or defined twice.
    #[error("the contract: {0}")]
    Meaning(String),
}

/// All files of the contract. A file comes after those that it uses.
#[derive(Debug, Clone)]
pub struct Contract {
    files: Vec<File>,
    kept: Option<Kept>,
}

/// Reads all files of a folder, in the order that a build wants ([`SCRAMBLE`]).
///
/// # Errors
/// A file cannot be read, or is not valid.
pub fn read(folder: &Path) -> Result<Contract, Error> {
    let mut contract = read_as_written(folder)?;
    if let Some(seed) = std::env::var_os(SCRAMBLE).filter(|seed| !seed.is_empty()) {
        scramble::scramble(&mut contract, &seed.to_string_lossy());
    }
    Ok(contract)
}

/// Reads all files of a folder.
///
/// # Errors
/// As [`read`].
pub fn read_as_written(folder: &Path) -> Result<Contract, Error> {
    let unreadable = |path: &Path| {
        let path = path.display().to_string();
        |source| Error::Read { path, source }
    };
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "contract") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            texts.push((name, std::fs::read_to_string(&path).map_err(unreadable(&path))?));
        }
    }
    let kept = std::fs::read_to_string(folder.join(Kept::FILE)).ok();
    let kept = kept.and_then(|text| Kept::parse(&text));
    Ok(Contract { kept, ..from_texts(texts)? })
}

/// Parses the names and texts of files.
///
/// # Errors
/// The texts are no valid contract.
pub fn from_texts(mut texts: Vec<(String, String)>) -> Result<Contract, Error> {
    texts.sort();
    let mut waiting = Vec::new();
    for (name, text) in texts {
        waiting.push(parse::parse(&name, &text)?);
    }
    let mut files: Vec<File> = Vec::new();
    while !waiting.is_empty() {
        let is_there = |name: &String| files.iter().any(|file| file.name == *name);
        let next = waiting.iter().position(|file| file.uses.iter().all(is_there));
        let next = next.ok_or_else(|| {
            Error::Meaning(format!(
                "{} uses a file that is not there, or in a circle",
                waiting[0].name
            ))
        })?;
        files.push(waiting.remove(next));
    }
    Ok(Contract { files, kept: None })
}

/// The FNV-1a hash of some bytes.
pub fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step)
}

/// The C headers: `NAME.h` for each file, and `offsets.h` for the assembler.
///
/// # Errors
/// A name is used without a definition.
pub fn c(contract: &Contract) -> Result<Vec<(String, String)>, Error> {
    let layouts = layout::compute(contract)?;
    let mut headers = Vec::new();
    for file in &contract.files {
        headers.push((format!("{}.h", file.name), emit_c::header(file, &layouts)));
    }
    headers.push(("offsets.h".to_owned(), emit_c::offsets(contract, &layouts)));
    Ok(headers)
}

/// The Rust modules.
///
/// # Errors
/// A name is used without a definition.
pub fn rust(contract: &Contract) -> Result<String, Error> {
    let layouts = layout::compute(contract)?;
    let hash = fnv(lines(contract)?.iter().flat_map(|line| line.bytes().chain([b'\n'])));
    // While a contract is changed, its builds understand only themselves.
    let kept = contract.kept.as_ref().map(|kept| Ok((kept.is_of(contract)?, kept.numbers())));
    let numbers = match kept.transpose()? {
        Some((true, numbers)) => numbers,
        _ => (0, 0),
    };
    Ok(emit_rust::modules(contract, &layouts, hash, numbers))
}
