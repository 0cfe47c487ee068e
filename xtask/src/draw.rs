//! `cargo xtask draw`: draws the crates and the floors of the runtime in `docs/DESIGN.md`, from the
//! manifests and from the list of hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use clap::Args;

use crate::bench::{Result, table};
use xtask::tidy::floors::FLOORS;

const DOCUMENT: &str = "docs/DESIGN.md";

/// The command line.
#[derive(Debug, Args)]
pub struct Options {
    /// Change nothing, and fail if the drawings are not up to date.
    #[arg(long)]
    check: bool,
}

/// Draws, or compares. True if the drawings are up to date afterwards.
///
/// # Errors
/// A file cannot be read, or has an unexpected form.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    let document = repository.join(DOCUMENT);
    let before = std::fs::read_to_string(&document)?;
    let mut after = before.clone();
    for (name, drawing) in [("crates", crates(repository)?), ("floors", floors(repository)?)] {
        after = table::replace_block(&after, name, &drawing)
            .ok_or_else(|| format!("{DOCUMENT} has no place for {name}"))?;
    }
    if options.check {
        if before != after {
            eprintln!("{DOCUMENT}: the drawings are old: run `cargo xtask draw`");
        }
        return Ok(before == after);
    }
    std::fs::write(document, after)?;
    Ok(true)
}

/// The crates that each crate uses, by names without `retake-`.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn crates(repository: &Path) -> Result<String> {
    let mut uses = Uses::new();
    for entry in std::fs::read_dir(repository.join("crates"))? {
        let manifest = entry?.path().join("Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(manifest)?.parse()?;
        let name = manifest["package"]["name"].as_str().unwrap_or_default();
        let used = manifest.get("dependencies").and_then(toml::Value::as_table);
        let used = used.into_iter().flat_map(toml::Table::keys).filter_map(|name| short(name));
        uses.insert(short(name).unwrap_or(name).to_owned(), used.map(str::to_owned).collect());
    }
    let mut drawing = String::from("```mermaid\ngraph TD\n");
    for (user, used) in &uses {
        for name in used.iter().filter(|name| !is_reached_otherwise(&uses, used, name)) {
            writeln!(drawing, "    {user} --> {name}")?;
        }
    }
    Ok(drawing + "```\n")
}

fn short(name: &str) -> Option<&str> {
    name.strip_prefix("retake-")
}

/// Returns whether another used crate leads to `name`. An arrow would tell nothing new then.
fn is_reached_otherwise(uses: &Uses, used: &BTreeSet<String>, name: &str) -> bool {
    let leads = |other: &String| {
        let mut open = vec![other];
        let mut seen = BTreeSet::new();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(uses.get(next).into_iter().flatten());
            }
        }
        seen.iter().any(|reached| reached.as_str() == name)
    };
    used.iter().any(|other| other != name && leads(other))
}

fn floors(repository: &Path) -> Result<String> {
    let mut drawing = String::from("```mermaid\ngraph TD\n");
    for (floor, what) in FLOORS {
        let files = std::fs::read_dir(repository.join("runtime").join(floor))?;
        let sources = files.flatten().filter(|file| {
            let path = file.path();
            path.extension().is_some_and(|ending| ending == "c" || ending == "S")
        });
        writeln!(drawing, "    {floor}[\"{floor}: {what} ({} files)\"]", sources.count())?;
    }
    for pair in FLOORS.windows(2) {
        writeln!(drawing, "    {} --> {}", pair[0].0, pair[1].0)?;
    }
    let hooks = std::fs::read_to_string(repository.join("runtime/hooks.txt"))?;
    let mut upward: BTreeMap<&str, usize> = BTreeMap::new();
    for line in hooks.lines().filter(|line| !line.starts_with('#')) {
        let path = line.split(' ').nth(1).ok_or("a hook without a file")?;
        *upward.entry(path.split('/').next().unwrap_or(path)).or_default() += 1;
    }
    let above: Vec<String> =
        upward.iter().map(|(floor, count)| format!("{count} from {floor}")).collect();
    writeln!(drawing, "```\n\nHooks call upwards (`runtime/hooks.txt`):\n{}.", above.join(", "))?;
    Ok(drawing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawings_are_of_today() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(run(&repository, &Options { check: true }).unwrap());
    }

    #[test]
    fn what_follows_is_not_drawn() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let uses: Uses = [("a".to_owned(), set(&["b", "c"])), ("b".to_owned(), set(&["c"]))].into();
        assert!(is_reached_otherwise(&uses, &uses["a"], "c"));
        assert!(!is_reached_otherwise(&uses, &uses["a"], "b"));
    }
}
