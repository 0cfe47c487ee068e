//! How files are read: what is checked, and how much memory it may take.

use std::sync::Arc;

use crate::schema::ExtentType;

/// Which digests of an extent are checked. Sizes and string offsets are checked always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Digests {
    /// That over the packed bytes, and that over the unpacked data.
    #[default]
    Both,
    /// That over the packed bytes, which finds all damage to the file since it was written, and
    /// costs a tenth of the other.
    Packed,
    /// None.
    None,
}

/// How files are read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Which digests are checked.
    pub digests: Digests,
    /// Refuse extents that need more memory than this, in bytes.
    pub extent_bytes_limit: u64,
    /// Types that the file may have: one that is described in exactly the same way is taken from
    /// here, which takes less time than to read its description.
    pub known_types: Vec<Arc<ExtentType>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { digests: Digests::Both, extent_bytes_limit: 256 << 20, known_types: Vec::new() }
    }
}
