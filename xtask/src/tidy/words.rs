//! Checks the words in names of modules, public types and files of the runtime. Each word must be
//! ordinary, or explained in the glossary.
//!
//! The ordinary words are in a list beside this file. A word belongs in it if it means here what it
//! means elsewhere. All others belong in `docs/GLOSSARY.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

const ORDINARY: &str = include_str!("words.known");
const GLOSSARY: &str = "docs/GLOSSARY.md";
/// The beginnings of definitions of public types.
const TYPES: [&str; 5] =
    ["pub struct ", "pub enum ", "pub trait ", "pub type ", "pub unsafe trait "];

/// Returns complaints about unexplained words, and about ordinary ones that no name uses.
///
/// # Errors
/// A folder or file cannot be read.
pub fn complaints(repository: &Path) -> io::Result<Vec<String>> {
    let mut names = BTreeMap::new();
    for entry in std::fs::read_dir(repository.join("crates"))? {
        collect(repository, &entry?.path().join("src"), &mut names)?;
    }
    collect(repository, &repository.join("runtime"), &mut names)?;
    let glossary = std::fs::read_to_string(repository.join(GLOSSARY))?;
    Ok(unexplained(&names, &terms(&glossary), &ORDINARY.lines().collect()))
}

/// Collects the names in a folder, each with the first file that has it.
fn collect(
    repository: &Path,
    folder: &Path,
    names: &mut BTreeMap<String, String>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let shown = path.strip_prefix(repository).unwrap_or(&path).display().to_string();
        if path.is_dir() {
            collect(repository, &path, names)?;
            continue;
        }
        let is_source =
            path.extension().is_some_and(|it| ["rs", "c", "h", "S"].iter().any(|e| it == *e));
        if !is_source {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        names.entry(stem).or_insert_with(|| shown.clone());
        if shown.ends_with(".rs") {
            for name in public_types(&std::fs::read_to_string(&path)?) {
                names.entry(name).or_insert_with(|| shown.clone());
            }
        }
    }
    Ok(())
}

fn public_types(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = TYPES.iter().find_map(|begin| line.strip_prefix(begin))?;
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        Some(rest[..end.unwrap_or(rest.len())].to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Returns the words of a name in lower case. `stream_scan` and `StreamScan` have the same two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().expect("there is one").extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the words of all terms in the glossary, which are in the first column of its table.
fn terms(glossary: &str) -> BTreeSet<&str> {
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" | ").next()).flat_map(str::split_whitespace).collect()
}

fn unexplained(
    names: &BTreeMap<String, String>,
    terms: &BTreeSet<&str>,
    ordinary: &BTreeSet<&str>,
) -> Vec<String> {
    let mut unused = ordinary.clone();
    let mut complaints = Vec::new();
    let mut told = BTreeSet::new();
    for (name, file) in names {
        for word in words(name) {
            let forms = singulars(&word);
            forms.iter().for_each(|form| _ = unused.remove(form.as_str()));
            let is_in = |set: &BTreeSet<&str>| forms.iter().any(|form| set.contains(form.as_str()));
            if !is_in(terms) && !is_in(ordinary) && told.insert(word.clone()) {
                complaints.push(format!(
                    "{file}: `{word}` of `{name}` is neither in {GLOSSARY} nor among the ordinary \
                    words of xtask/src/tidy/words.known"
                ));
            }
        }
    }
    complaints.extend(
        unused
            .into_iter()
            .map(|word| format!("xtask/src/tidy/words.known: `{word}` names nothing any more")),
    );
    complaints
}

/// Returns a word, and the words of which it may be the plural.
fn singulars(word: &str) -> Vec<String> {
    let mut forms = vec![word.to_owned()];
    forms.extend(word.strip_suffix('s').map(str::to_owned));
    forms.extend(word.strip_suffix("es").map(str::to_owned));
    forms.extend(word.strip_suffix("ies").map(|stem| format!("{stem}y")));
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_nobody_explains_is_found() {
        let glossary = "| word | meaning |\n|---|---|\n| kept checkpoint | one in a file |\n";
        let complaints = |names: &[&str], ordinary: &[&str]| {
            let names = names.iter().map(|name| ((*name).to_owned(), "a.rs".to_owned())).collect();
            unexplained(&names, &terms(glossary), &ordinary.iter().copied().collect())
        };
        let ordinary = ["file", "directory", "process"];
        assert!(
            complaints(&["kept_file", "Checkpoints", "Directories", "processes"], &ordinary)
                .is_empty()
        );
        let found = complaints(&["KeptGlub", "file", "directory", "process"], &ordinary);
        assert!(found.len() == 1 && found[0].contains("`glub` of `KeptGlub`"), "{found:?}");
        let found = complaints(&["file", "process"], &ordinary);
        assert!(found.len() == 1 && found[0].contains("`directory` names nothing"), "{found:?}");
    }

    #[test]
    fn names_of_types_are_found() {
        let text =
            "pub struct A<'a> {\n    pub b: B,\n}\npub(crate) struct C;\npub enum DataSet {\n";
        assert_eq!(public_types(text), ["A", "DataSet"]);
        assert_eq!(words("DataSet"), ["data", "set"]);
        assert_eq!(words("call_6"), ["call", "6"]);
    }
}
