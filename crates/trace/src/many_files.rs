//! Files that are written to in turn, more of them than may be open at once.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Open at once.
const MOST: usize = 200;

/// Files by some key. What is written to one goes behind what is there.
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
    /// Writes to the file of a key, which is opened, or made, at `path` if it is not open.
    ///
    /// # Errors
    /// It, or one that must be closed for it, cannot be written to.
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

    /// Writes what is held back, and closes all.
    ///
    /// # Errors
    /// One cannot be written to.
    pub fn close(&mut self) -> io::Result<()> {
        self.open.values_mut().try_for_each(Write::flush)?;
        self.open.clear();
        Ok(())
    }
}
