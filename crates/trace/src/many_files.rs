//! Files that are written to in turn. There may be more of them than a process can have open.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// How many files may be open when another one is opened.
const MOST: usize = 200;

/// Files by key. Each write appends to one.
#[derive(Debug)]
pub struct ManyFiles<Key> {
    open: HashMap<Key, BufWriter<File>>,
}

impl<Key> Default for ManyFiles<Key> {
    fn default() -> Self {
        Self { open: HashMap::new() }
    }
}

impl<Key: Eq + Hash> ManyFiles<Key> {
    /// Appends to the file of a key. The file is opened, or made, at `path` if it is not open.
    ///
    /// # Errors
    /// This file, or one that is closed for it, cannot be written.
    pub fn append(&mut self, key: Key, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        if self.open.len() > MOST && !self.open.contains_key(&key) {
            self.close()?;
        }
        let file = match self.open.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(BufWriter::new(File::options().create(true).append(true).open(path)?))
            }
        };
        parts.iter().try_for_each(|part| file.write_all(part))
    }

    /// Writes buffered data, and closes all files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn close(&mut self) -> io::Result<()> {
        self.open.values_mut().try_for_each(Write::flush)?;
        self.open.clear();
        Ok(())
    }
}
