//! The lists in `tests/mutants/`: written mutations, those made for one test each, and drawn ones
//! that are set aside because no test could notice them.

use std::path::Path;

use serde::Deserialize;

use super::mutation::{Kind, Mutation};
use crate::bench::Result;

const WRITTEN: &str = "tests/mutants/written.toml";
const FOR_ONE_TEST: &str = "tests/mutants/for-one-test.toml";
const SET_ASIDE: &str = "tests/mutants/set-aside.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    mutation: Vec<Entry>,
}

/// A written mutation. `old` occurs once in `file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: String,
    old: String,
    new: String,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForOneTestFile {
    mutation: Vec<ForOneTestEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForOneTestEntry {
    program: String,
    test: String,
    file: String,
    old: String,
    new: String,
    why: String,
}

/// A mutation, and the test that must notice it.
#[derive(Debug)]
pub struct ForOneTest {
    pub mutation: Mutation,
    /// `PACKAGE::TARGET`, or `PACKAGE::bin` for the tests in a program's own sources.
    pub program: String,
    pub test: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetAsideFile {
    equivalent: Vec<SetAside>,
}

/// A change of a line that no test could notice.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetAside {
    pub file: String,
    /// The line without the blanks around it.
    pub line: String,
    pub becomes: String,
    pub reason: String,
}

impl SetAside {
    pub fn covers(&self, mutation: &Mutation) -> bool {
        self.file == mutation.file
            && self.line == mutation.was.trim()
            && self.becomes == mutation.becomes.trim()
    }
}

/// Returns the written mutations, in the order of the list.
///
/// # Errors
/// The list cannot be read, or a mutation has no unique place.
pub fn written(repository: &Path) -> Result<Vec<Mutation>> {
    let list: WrittenFile = read(repository, WRITTEN)?;
    list.mutation.into_iter().map(|entry| located(repository, WRITTEN, entry)).collect()
}

/// Returns the mutations made for one test each.
///
/// # Errors
/// As for [`written`].
pub fn for_one_test(repository: &Path) -> Result<Vec<ForOneTest>> {
    let list: ForOneTestFile = read(repository, FOR_ONE_TEST)?;
    let complete = |it: ForOneTestEntry| {
        let entry = Entry { file: it.file, old: it.old, new: it.new, why: it.why };
        let mutation = located(repository, FOR_ONE_TEST, entry)?;
        Ok(ForOneTest { mutation, program: it.program, test: it.test })
    };
    list.mutation.into_iter().map(complete).collect()
}

fn located(repository: &Path, list: &str, entry: Entry) -> Result<Mutation> {
    let text = std::fs::read_to_string(repository.join(&entry.file))
        .map_err(|error| format!("{list}: {}: {error}", entry.file))?;
    let places: Vec<usize> = text.match_indices(&entry.old).map(|(at, _)| at).collect();
    let [start] = places[..] else {
        return Err(format!(
            "{list}: {} has this {} times, not once: {}",
            entry.file,
            places.len(),
            entry.old
        )
        .into());
    };
    let mutation =
        Mutation::at(&entry.file, &text, start, entry.old.len(), &entry.new, Kind::Written);
    Ok(Mutation { why: entry.why, ..mutation })
}

/// Returns the changes that are set aside, and why.
///
/// # Errors
/// The list cannot be read.
pub fn set_aside(repository: &Path) -> Result<Vec<SetAside>> {
    Ok(read::<SetAsideFile>(repository, SET_ASIDE)?.equivalent)
}

fn read<T: for<'de> Deserialize<'de>>(repository: &Path, file: &str) -> Result<T> {
    let text = std::fs::read_to_string(repository.join(file))
        .map_err(|error| format!("{file}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{file}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::{area, draw};

    fn repository() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_written_mutation_has_its_place() {
        let list = written(&repository()).unwrap();
        assert_eq!(list.len(), 30);
        for mutation in &list {
            assert!(mutation.old != mutation.new && !mutation.why.is_empty(), "{mutation}");
            mutation.applied(&repository()).unwrap();
        }
        for area in area::AREAS {
            assert!(
                list.iter().any(|mutation| area.has(&mutation.file)),
                "none in {:?}",
                area.folders
            );
        }
    }

    #[test]
    fn every_mutation_for_one_test_has_its_place() {
        let list = for_one_test(&repository()).unwrap();
        assert!(list.len() >= 20, "{}", list.len());
        for ForOneTest { mutation, .. } in &list {
            assert!(mutation.old != mutation.new, "{mutation}");
        }
    }

    #[test]
    fn what_is_set_aside_is_there() {
        let candidates = draw::candidates(&repository()).unwrap();
        for entry in set_aside(&repository()).unwrap() {
            assert!(
                candidates.iter().any(|candidate| entry.covers(candidate)),
                "{}: `{}` does not become `{}`",
                entry.file,
                entry.line,
                entry.becomes
            );
            assert!(
                entry.reason.len() > 20,
                "{}: a reason says more than {}",
                entry.file,
                entry.reason
            );
        }
    }
}
