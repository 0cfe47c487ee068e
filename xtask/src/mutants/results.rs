//! The results of mutations, one line of JSON each, in a file that a later run can continue.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bench::Result;

/// The outcome of a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A test failed, or a test program crashed or ran out of time.
    Noticed {
        by: String,
    },
    Survived,
    /// It did not compile. Another mutation takes its place.
    NotCompiled {
        because: String,
    },
}

/// A mutation and its result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The key of the mutation.
    pub key: String,
    /// The hash of the tree whose tests were run.
    pub tree: u64,
    pub mutation: String,
    pub outcome: Outcome,
    pub seconds: f64,
    /// Tests that failed once and then passed. These do not count as noticing.
    pub unsteady: Vec<String>,
}

/// The file of results.
#[derive(Debug)]
pub struct Results {
    file: File,
    known: Vec<Record>,
}

impl Results {
    /// Opens the file. Its contents count if `resume`, and are deleted otherwise.
    ///
    /// # Errors
    /// The file cannot be opened, or has other contents.
    pub fn open(path: &Path, resume: bool) -> Result<Self> {
        let mut known = Vec::new();
        if resume && path.exists() {
            for line in std::fs::read_to_string(path)?.lines() {
                known.push(
                    serde_json::from_str(line)
                        .map_err(|error| format!("{}: {error}", path.display()))?,
                );
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if !resume {
            file.set_len(0)?;
        }
        Ok(Self { file, known })
    }

    /// Returns the known result of a mutation. If it survived, only a result for the same tree
    /// counts, because other tests may notice it.
    pub fn known(&self, key: &str, tree: u64) -> Option<&Record> {
        self.known.iter().rev().find(|record| {
            record.key == key && (record.tree == tree || record.outcome != Outcome::Survived)
        })
    }

    /// Adds a result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        Ok(self.file.write_all(&line)?)
    }
}
