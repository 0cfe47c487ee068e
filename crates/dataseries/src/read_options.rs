//! Options for reading: what is checked, and the limit of memory.

use std::sync::Arc;

use crate::schema::ExtentType;

/// The digests of an extent that are checked. Sizes and string offsets are always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Digests {
    /// The digest of the packed bytes and that of the unpacked data.
    #[default]
    Both,
    /// The digest of the packed bytes. It finds all damage to the file after it was written, and
    /// costs a tenth of the other digest.
    Packed,
    /// None.
    None,
}

/// Options for reading files.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The digests that are checked.
    pub digests: Digests,
    /// Extents that need more memory than this, in bytes, are refused.
    pub extent_bytes_limit: u64,
    /// Types that the file may have. A type with exactly the same description is taken from here,
    /// which is faster than parsing the description.
    pub known_types: Vec<Arc<ExtentType>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { digests: Digests::Both, extent_bytes_limit: 256 << 20, known_types: Vec::new() }
    }
}
