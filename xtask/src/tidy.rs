//! Style checks.

use std::path::Path;

pub fn check(_repository: &Path) -> std::io::Result<Vec<String>> {
    Ok(Vec::new())
}
