//! Checks our dependencies: their origin, licences, and number of versions. `cargo deny` would
//! check the same of licences, sources and bans, but takes more than five minutes of processor time
//! to build. Advisories are not checked, since their list is elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The only source of packages.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The only platform of our builds. The lock file has packages for others, too.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Licences that require no more than attribution.
const LICENCES: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
    "bzip2-1.0.6",
];

/// Packages of which two versions are built, because our dependencies need different ones. The list
/// only shrinks.
const SEVERAL: [&str; 2] = ["getrandom", "syn"];

/// The output of `cargo metadata`.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    /// `None` for our own packages.
    source: Option<String>,
    license: Option<String>,
    manifest_path: String,
}

/// Returns complaints about packages.
///
/// # Errors
/// `cargo metadata` fails.
pub fn complaints(repository: &Path) -> std::io::Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM])
        .current_dir(repository)
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(std::io::Error::other(format!("cargo metadata: {said}")));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let root = repository.canonicalize()?;
    Ok(judged(&metadata.packages, &root.to_string_lossy()))
}

fn judged(packages: &[Package], root: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, source, license, manifest_path } = package;
        versions.entry(name).or_default().insert(version);
        match source.as_deref() {
            None if manifest_path.starts_with(root) => {}
            Some(REGISTRY) => {}
            other => {
                let place = other.unwrap_or(manifest_path);
                complaints.push(format!("Cargo.toml: {name} {version} comes from {place}"));
            }
        }
        let licence = license.as_deref().unwrap_or_default();
        if !is_allowed(licence) {
            complaints.push(format!("Cargo.toml: {name} {version} has the licence `{licence}`"));
        }
    }
    for (name, versions) in versions {
        let list = versions.iter().copied().collect::<Vec<_>>().join(", ");
        match (versions.len(), SEVERAL.contains(&name)) {
            (2.., false) => {
                complaints.push(format!("Cargo.toml: {name} has several versions: {list}"))
            }
            (1, true) => complaints.push(format!(
                "xtask/src/tidy/dependencies.rs: {name} has only version {list} now: remove its \
                exception"
            )),
            _ => {}
        }
    }
    complaints
}

/// Returns whether the allowed licences satisfy an expression.
fn is_allowed(expression: &str) -> bool {
    // Older expressions have `/` for `OR`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = any_of(&mut words);
    allowed && words.next().is_none()
}

type Words<'a, 'b> = &'a mut std::iter::Peekable<std::str::SplitWhitespace<'b>>;

fn any_of(words: Words<'_, '_>) -> bool {
    let mut allowed = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: Words<'_, '_>) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: Words<'_, '_>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        return any_of(words) & words.next_if_eq(&")").is_some();
    }
    let mut licence = words.next().unwrap_or_default().to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", words.next().unwrap_or_default());
    }
    LICENCES.contains(&licence.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_read() {
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-2.0 AND MIT OR Zlib",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "GPL-2.0 WITH LLVM-exception",
            "(MIT",
            "MIT Apache-2.0",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_package_is_told() {
        let package = |name: &str, version: &str, source: Option<&str>, license: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            source: source.map(str::to_owned),
            license: Some(license.to_owned()),
            manifest_path: format!("/here/{name}/Cargo.toml"),
        };
        let others = || {
            SEVERAL.map(|name| [1, 2].map(|n| package(name, &n.to_string(), Some(REGISTRY), "MIT")))
        };
        let complaints = |packages: Vec<Package>, root: &str| {
            let all: Vec<Package> = others().into_iter().flatten().chain(packages).collect();
            judged(&all, root)
        };
        let good = || package("a", "1", Some(REGISTRY), "MIT");
        assert!(complaints(vec![good(), package("own", "0", None, "MIT")], "/here").is_empty());
        let git = package("a", "1", Some("git+https://example.org/a"), "MIT");
        assert!(complaints(vec![git], "/here")[0].contains("comes from git+"));
        assert!(complaints(vec![package("own", "0", None, "MIT")], "/there")[0].contains("/here"));
        assert!(
            complaints(vec![package("a", "1", Some(REGISTRY), "GPL-3.0")], "/here")[0]
                .contains("`GPL-3.0`")
        );
        let twice = vec![good(), package("a", "2", Some(REGISTRY), "MIT")];
        assert!(complaints(twice, "/here")[0].contains("a has several versions: 1, 2"));
        assert!(judged(&[good()], "/here").is_empty());
        let alone = judged(&[package(SEVERAL[0], "1", Some(REGISTRY), "MIT")], "/here");
        assert!(alone[0].contains("has only version 1 now"), "{alone:?}");
    }
}
