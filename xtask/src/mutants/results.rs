//! What came of each mutation, a line of JSON each in a file that a later run can go on with.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bench::Result;

/// How a mutation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A test failed, a test program broke or was not ready in time.
    Noticed {
        by: String,
    },
    Survived,
    /// The compiler noticed; another one takes its place.
    NotCompiled {
        because: String,
    },
}

/// A mutation and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// What tells it from others.
    pub key: String,
    /// The tree whose tests were asked.
    pub tree: u64,
    pub mutation: String,
    pub outcome: Outcome,
    pub seconds: f64,
    /// Tests that failed once and then not again: that is no notice.
    pub unsteady: Vec<String>,
}

/// The file.
#[derive(Debug)]
pub struct Results {
    file: File,
    known: Vec<Record>,
}

impl Results {
    /// Opens the file; what is in it counts if `resume`, else it is emptied.
    ///
    /// # Errors
    /// It cannot be opened, or has something else in it.
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

    /// What is known of a mutation. One that survived may be noticed by the tests of another tree.
    pub fn known(&self, key: &str, tree: u64) -> Option<&Record> {
        self.known.iter().rev().find(|record| {
            record.key == key && (record.tree == tree || record.outcome != Outcome::Survived)
        })
    }

    /// Adds one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        Ok(self.file.write_all(&line)?)
    }
}
