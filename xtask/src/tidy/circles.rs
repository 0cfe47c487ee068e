//! Finds modules of a crate that use each other in a circle. None of them can be read, tested or
//! moved without the others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::quoted::{Language, quoted};

/// The modules that each module uses, by paths in the crate such as `a::b`. The crate itself is the
/// empty path.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns complaints about circles.
///
/// # Errors
/// A folder or file cannot be read.
pub fn complaints(repository: &Path) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for folder in crates(repository)? {
        let graph = uses(&texts_of(&repository.join(&folder).join("src"))?);
        let told =
            |circle: &Vec<&str>| format!("a circle of modules: {folder}: {}", circle.join(" "));
        complaints.extend(circles(&graph).iter().map(told));
    }
    Ok(complaints)
}

/// Returns the folders of all crates.
///
/// # Errors
/// A folder cannot be read.
pub(super) fn crates(repository: &Path) -> io::Result<Vec<String>> {
    let mut folders = vec!["xtask".to_owned()];
    for entry in std::fs::read_dir(repository.join("crates"))? {
        folders.push(format!("crates/{}", entry?.file_name().to_string_lossy()));
    }
    folders.sort();
    Ok(folders)
}

/// Returns the text of each module of a crate by its path, without comments, strings and tests.
///
/// # Errors
/// A folder or file cannot be read.
pub(super) fn texts_of(source: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    collect(source, "", &mut texts)?;
    Ok(texts)
}

/// Collects the text of each module below a folder, without comments, strings and tests.
fn collect(folder: &Path, module: &str, texts: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let inner = match (name.as_str(), module) {
            ("mod" | "lib" | "main", _) => module.to_owned(),
            (_, "") => name,
            _ => format!("{module}::{name}"),
        };
        if path.is_dir() {
            collect(&path, &inner, texts)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            texts.entry(inner).or_default().push_str(&code(&std::fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

fn code(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (range, _) in quoted(text.as_bytes(), Language::Rust) {
        bytes[range].fill(b' ');
    }
    let code = String::from_utf8_lossy(&bytes).into_owned();
    let tests = code.find("#[cfg(test)]\nmod ").unwrap_or(code.len());
    code[..tests].to_owned()
}

fn uses(texts: &BTreeMap<String, String>) -> Graph {
    let used = |(module, text): (&String, &String)| {
        let mut paths = Vec::new();
        for start in ["crate", "super"] {
            let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
            for (at, _) in text.match_indices(start) {
                if !text[..at].ends_with(|before: char| is_name(before) || before == ':') {
                    spread(&text[at..], "", &mut paths);
                }
            }
        }
        let modules = paths.iter().filter_map(|path| resolved(path, module, texts));
        (module.clone(), modules.filter(|other| other != module && !other.is_empty()).collect())
    };
    texts.iter().map(used).collect()
}

/// Collects the paths at the start of a text: `a::b`, or all of `a::{b, c::{d, e}}`. Returns the
/// rest of the text.
fn spread<'text>(text: &'text str, before: &str, paths: &mut Vec<String>) -> &'text str {
    let end = text.find(|letter: char| !(letter.is_alphanumeric() || "_:".contains(letter)));
    let (head, mut rest) = text.split_at(end.unwrap_or(text.len()));
    let path = format!("{before}{head}");
    let Some(group) = rest.strip_prefix('{').filter(|_| head.ends_with("::")) else {
        paths.push(path);
        return rest;
    };
    rest = group.trim_start();
    while !rest.is_empty() && !rest.starts_with('}') {
        let length = rest.len();
        rest = spread(rest, &path, paths)
            .trim_start_matches(|letter| !"}:{".contains(letter) && !char::is_alphanumeric(letter));
        if rest.len() == length {
            break;
        }
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

/// Returns the innermost module of a path that begins with `crate` or `super`.
fn resolved(path: &str, module: &str, texts: &BTreeMap<String, String>) -> Option<String> {
    let mut place: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut parts = path.split("::").filter(|part| !part.is_empty()).peekable();
    if parts.next_if_eq(&"crate").is_some() {
        place.clear();
    }
    while parts.next_if_eq(&"super").is_some() {
        place.pop()?;
    }
    let mut module = String::new();
    for part in place.into_iter().chain(parts) {
        let longer = if module.is_empty() { part.to_owned() } else { format!("{module}::{part}") };
        if !texts.contains_key(&longer) {
            break;
        }
        module = longer;
    }
    Some(module)
}

/// Returns the groups of modules that all lead to each other.
fn circles(graph: &Graph) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reached_from(graph, module))).collect();
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for (module, modules) in &reached {
        let back = |other: &&&str| reached.get(**other).is_some_and(|from| from.contains(module));
        let circle: Vec<&str> = modules.iter().filter(back).copied().collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reached_from<'graph>(graph: &'graph Graph, module: &str) -> BTreeSet<&'graph str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = graph[module].iter().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(graph.get(next).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(modules: &[(&str, &str)]) -> Vec<String> {
        let texts = modules.iter().map(|(name, text)| ((*name).to_owned(), code(text))).collect();
        circles(&uses(&texts)).iter().map(|circle| circle.join(" ")).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_found() {
        assert_eq!(
            found(&[("a", "use crate::b::B;"), ("b", "fn b() { crate::a::a(); }")]),
            ["a b"]
        );
        assert_eq!(
            found(&[("a", "use crate::{c, b::{B, C}};"), ("b", "use super::a;"), ("c", "")]),
            ["a b"]
        );
        assert_eq!(
            found(&[("a", ""), ("a::b", "use super::c::C;"), ("a::c", "use crate::a::b;")]),
            ["a::b a::c"]
        );
    }

    #[test]
    fn others_are_not() {
        assert!(
            found(&[("a", "use crate::b;"), ("b", "// crate::a\n const A: &str = \"crate::a\";")])
                .is_empty()
        );
        assert!(
            found(&[("a", "use crate::b;"), ("b", "#[cfg(test)]\nmod tests { use crate::a; }")])
                .is_empty()
        );
        assert!(found(&[("", "use crate::a;"), ("a", "use crate::error;")]).is_empty());
    }
}
