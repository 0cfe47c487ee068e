//! The contract as lines of text, and what other builds rely on of them.
//!
//! `contract/kept.txt` has the lines of a version. They stay as they are. A change that only adds
//! lines makes a new revision of the version; `cargo xtask gen` appends it. So a supervisor can
//! serve a runtime of the same version with the same revision or an earlier one. Any other change
//! needs another `CONTRACT_VERSION`, and the file begins anew.
//!
//! `tables/kept.txt` has the same form.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::layout::{self, Layouts};
use crate::parse::{Item, Sight, Structure, Type};
use crate::{Contract, Error};

/// The name of the constant that has the version.
pub(crate) const VERSION_NAME: &str = "CONTRACT_VERSION";

const NOTE: &str =
    "# Recordings of other builds rely on these lines. Written by `cargo xtask gen`.\n";

/// Returns the contract as lines, each of which has one number, or the place of one field.
///
/// # Errors
/// A name is used without a definition.
pub fn lines(contract: &Contract) -> Result<Vec<String>, Error> {
    let layouts = layout::compute(contract)?;
    let mut lines = Vec::new();
    let items = || contract.files.iter().flat_map(|file| &file.items);
    let embedded: BTreeSet<&str> = items()
        .filter_map(|item| if let Item::Structure(one) = item { Some(one) } else { None })
        .flat_map(|one| &one.fields)
        .filter(|field| !field.kind.is_pointer)
        .map(|field| field.kind.name.as_str())
        .collect();
    for item in items() {
        match item {
            Item::Constant(one) => {
                lines.push(format!("{} = {:#x}", one.name, layouts.number(&one.value)?));
            }
            Item::Enumeration(all) => {
                for one in &all.values {
                    let value = layouts.number(&one.value)?;
                    lines.push(format!("{}{} = {value:#x}", all.prefix, one.name));
                }
            }
            Item::Structure(one) => {
                let is_fixed = one.sight == Sight::Format || embedded.contains(one.name.as_str());
                of_structure(one, is_fixed, &layouts, &mut lines)?;
            }
        }
    }
    Ok(lines)
}

/// Adds the lines of a structure. Its size is among them if that may not change.
fn of_structure(
    structure: &Structure,
    is_fixed: bool,
    layouts: &Layouts,
    lines: &mut Vec<String>,
) -> Result<(), Error> {
    let name = &structure.name;
    for (field, offset) in structure.fields.iter().zip(layouts.offsets(structure)) {
        let kind = type_text(&field.kind, layouts)?;
        lines.push(format!("{name}.{} at {offset:#x}: {kind}", field.name));
    }
    if is_fixed {
        lines.push(format!("{name} has {:#x} bytes", layouts.bytes(structure)));
    }
    Ok(())
}

fn type_text(kind: &Type, layouts: &Layouts) -> Result<String, Error> {
    let pointer = if kind.is_pointer { "*" } else { "" };
    let count = match &kind.count {
        Some(count) => format!("[{:#x}]", layouts.number(count)?),
        None => String::new(),
    };
    Ok(format!("{pointer}{}{count}", kind.name))
}

/// The lines of a version, by revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    version: u64,
    revisions: Vec<Vec<String>>,
}

impl Kept {
    /// The name of the file in the contract's folder.
    pub const FILE: &str = "kept.txt";

    /// Parses the text of the file. Returns `None` if it is no such file.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let version = lines.next()?.strip_prefix("version ")?.parse().ok()?;
        let mut revisions: Vec<Vec<String>> = Vec::new();
        for line in lines {
            match line.strip_prefix("revision ") {
                Some(number) if number == revisions.len().to_string() => revisions.push(Vec::new()),
                Some(_) => return None,
                None => revisions.last_mut()?.push(line.to_owned()),
            }
        }
        (!revisions.is_empty()).then_some(Self { version, revisions })
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut text = format!("{NOTE}version {}\n", self.version);
        for (number, lines) in self.revisions.iter().enumerate() {
            let _ = writeln!(text, "revision {number}");
            for line in lines {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }

    /// The version, and the number of its last revision.
    pub fn numbers(&self) -> (u64, usize) {
        (self.version, self.revisions.len() - 1)
    }

    fn all(&self) -> BTreeSet<&str> {
        self.revisions.iter().flatten().map(String::as_str).collect()
    }

    /// Returns what is kept from now on, if these are the lines. Lines of the same version that are
    /// new make a new revision.
    ///
    /// # Errors
    /// A line that was kept and is missing now.
    pub fn next(before: Option<&Self>, version: u64, lines: &[String]) -> Result<Self, String> {
        let Some(before) = before.filter(|before| before.version == version) else {
            return Ok(Self { version, revisions: vec![lines.to_vec()] });
        };
        let known = before.all();
        let now: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
        if let Some(&broken) = known.difference(&now).next() {
            return Err(broken.to_owned());
        }
        let is_new = |line: &&String| !known.contains(line.as_str());
        let added: Vec<String> = lines.iter().filter(is_new).cloned().collect();
        let mut kept = before.clone();
        kept.revisions.extend((!added.is_empty()).then_some(added));
        Ok(kept)
    }

    /// Whether these are the lines of a contract, all of them.
    ///
    /// # Errors
    /// As [`lines`].
    pub fn is_of(&self, contract: &Contract) -> Result<bool, Error> {
        let lines = lines(contract)?;
        let now: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
        Ok(self.version == version_of(contract)? && self.all() == now)
    }
}

fn version_of(contract: &Contract) -> Result<u64, Error> {
    layout::compute(contract)?.number(VERSION_NAME)
}

/// Returns what is kept of a contract from now on.
///
/// # Errors
/// The contract breaks what was kept so far of the same version.
pub fn keep(contract: &Contract) -> Result<Kept, Error> {
    Kept::next(contract.kept.as_ref(), version_of(contract)?, &lines(contract)?).map_err(|broken| {
        Error::Meaning(format!(
            "recordings rely on `{broken}`, which holds no more: put what is new at the end of its \
             structure, or raise {VERSION_NAME} (contract/README.md)"
        ))
    })
}
