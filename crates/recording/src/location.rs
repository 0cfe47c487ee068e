//! Where recordings and the store are kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::store::temporary::make_private_directories;

/// The two folders. On the same file system they can share files instead of copying them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The folder with one entry for each recording.
    pub recordings: PathBuf,
    /// The folder of the store.
    pub store: PathBuf,
}

impl Location {
    /// Returns `$RETAKE_DIR`, else `$XDG_DATA_HOME/retake`, else `~/.local/share/retake`.
    ///
    /// # Errors
    /// `NoLocation` if none of the variables is an absolute path; `RETAKE_DIR` may be relative.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Returns the folders within `root`.
    pub fn within(root: &Path) -> Self {
        Self { recordings: root.join("recordings"), store: root.join("store") }
    }

    /// Creates the folder of recordings, for the owner only. The store creates its own.
    pub fn prepare(&self) -> Result<()> {
        make_private_directories(&self.recordings)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(root) = path("RETAKE_DIR") {
            // The path is made absolute, because a recorder may change its directory.
            let absolute = std::path::absolute(&root);
            return absolute
                .map(|root| Self::within(&root))
                .map_err(|error| Error::io("find", &root, error));
        }
        // The XDG specification says to ignore relative paths.
        let data = path("XDG_DATA_HOME").filter(|data| data.is_absolute());
        let home =
            || path("HOME").filter(|home| home.is_absolute()).map(|home| home.join(".local/share"));
        let data = data.or_else(home).ok_or(Error::NoLocation)?;
        Ok(Self::within(&data.join("retake")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recordings_with(variables: &[(&str, &str)]) -> Option<String> {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        Location::from_variables(find)
            .ok()
            .map(|location| location.recordings.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_first_usable_variable_counts() {
        let home = ("HOME", "/home/u");
        let cases = [
            (vec![("RETAKE_DIR", "/r"), ("XDG_DATA_HOME", "/x"), home], Some("/r/recordings")),
            (vec![("XDG_DATA_HOME", "/x"), home], Some("/x/retake/recordings")),
            (vec![("XDG_DATA_HOME", "x"), home], Some("/home/u/.local/share/retake/recordings")),
            (vec![("RETAKE_DIR", ""), home], Some("/home/u/.local/share/retake/recordings")),
            (vec![("HOME", "u")], None),
            (vec![], None),
        ];
        for (variables, expected) in cases {
            assert_eq!(recordings_with(&variables).as_deref(), expected, "{variables:?}");
        }
    }
}
