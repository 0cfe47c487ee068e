//! Finds types with too many methods. Such a type does several jobs, and each job should have a
//! type of its own with its own state.
//!
//! All impl blocks of a type count together, in all files. Implementations of foreign traits do not
//! count, since the type does not choose how many methods they have.

use super::circles::{crates, texts_of};
use super::functions::is_rust_function;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The most methods of a type.
const MOST_METHODS: usize = 40;

/// The code of a crate's modules, by their paths.
type Texts = BTreeMap<String, String>;

/// Returns complaints about types with more.
///
/// # Errors
/// A folder or file cannot be read.
pub fn complaints(repository: &Path) -> io::Result<Vec<String>> {
    let folders = crates(repository)?;
    let read = |folder: String| {
        let texts = texts_of(&repository.join(&folder).join("src"))?;
        Ok((folder, texts))
    };
    let all = folders.into_iter().map(read).collect::<io::Result<Vec<(String, Texts)>>>()?;
    let traits: BTreeSet<&str> = all
        .iter()
        .flat_map(|(_, texts)| texts.values())
        .flat_map(|text| declared(text, "trait"))
        .collect();
    let mut complaints = Vec::new();
    for (folder, texts) in &all {
        let told = |(name, count): (String, usize)| {
            format!("a type with more than {MOST_METHODS} methods: {folder}: {name} {count}")
        };
        complaints.extend(large_types(texts, &traits).into_iter().map(told));
    }
    Ok(complaints)
}

/// Returns the types of a crate with too many methods, and how many.
fn large_types(texts: &Texts, traits: &BTreeSet<&str>) -> Vec<(String, usize)> {
    let types: BTreeMap<&str, BTreeSet<&str>> = texts
        .iter()
        .map(|(module, text)| {
            let kinds = ["struct", "enum", "union"];
            (module.as_str(), kinds.iter().flat_map(|kind| declared(text, kind)).collect())
        })
        .collect();
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (module, text) in texts {
        for (header, count) in blocks(text) {
            let Some((wanted, name)) = parsed(&header) else { continue };
            if wanted.is_none_or(|wanted| traits.contains(wanted)) {
                let Some((name, place)) = declaration(&types, module, name) else { continue };
                *counts.entry((name, place)).or_default() += count;
            }
        }
    }
    let large = counts.into_iter().filter(|(_, count)| *count > MOST_METHODS);
    large.map(|((name, _), count)| (name.to_owned(), count)).collect()
}

/// Returns the names after a keyword at the beginning of a line.
fn declared<'text>(text: &'text str, keyword: &str) -> Vec<&'text str> {
    let of_line = |line: &'text str| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        words.next().filter(|word| *word == keyword)?;
        let name = words.next()?;
        let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        Some(&name[..end.unwrap_or(name.len())])
    };
    text.lines().filter_map(of_line).collect()
}

/// Returns the header of each impl block, up to its brace, and its number of functions.
fn blocks(text: &str) -> Vec<(String, usize)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("impl ") && !line.starts_with("impl<") {
            continue;
        }
        let mut header = line.to_owned();
        while !header.contains('{') {
            let Some(next) = lines.next() else { break };
            header = format!("{header} {}", next.trim());
        }
        let is_method = |line: &&str| {
            line.starts_with("    ") && !line.starts_with("     ") && is_rust_function(line)
        };
        let is_empty = header.trim_end().ends_with('}');
        let body = lines.by_ref().take_while(|line| *line != "}");
        let count = if is_empty { 0 } else { body.filter(is_method).count() };
        blocks.push((header, count));
    }
    blocks
}

/// Returns the trait that a block implements, if any, and the type.
fn parsed(header: &str) -> Option<(Option<&str>, &str)> {
    let header = header.split(" where ").next()?.split('{').next()?.trim();
    let rest = header.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { behind_generics(rest)? } else { rest };
    let of = |path: &'_ str| -> Option<(usize, usize)> {
        let path = path.split(['<', ' ']).next()?;
        let start = path.rfind("::").map_or(0, |at| at + 2);
        Some((start, path.len()))
    };
    let named = |path| of(path).map(|(start, end): (usize, usize)| &path[start..end]);
    match rest.split_once(" for ") {
        Some((wanted, name)) => {
            let name = name.trim_start_matches(['&', ' ']);
            Some((Some(named(wanted.trim())?), named(name.trim_start_matches("mut "))?))
        }
        None => Some((None, named(rest.trim())?)),
    }
}

/// Returns the text after the generic parameters at its start.
fn behind_generics(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if !text[..at].ends_with(['-', '=']) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[at + 1..]);
        }
    }
    None
}

/// Finds the declaration of a type named in a module: in the module, else in one around it, else
/// anywhere.
fn declaration<'text>(
    types: &BTreeMap<&'text str, BTreeSet<&'text str>>,
    module: &str,
    name: &str,
) -> Option<(&'text str, &'text str)> {
    let in_module = |(place, names): (&&'text str, &BTreeSet<&'text str>)| {
        names.get(name).map(|name| (*name, *place))
    };
    let mut around = Some(module);
    while let Some(place) = around {
        if let Some(found) = types.get_key_value(place).and_then(in_module) {
            return Some(found);
        }
        around = place.rsplit_once("::").map(|(outer, _)| outer);
    }
    types.iter().find_map(in_module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(head: &str, count: usize) -> String {
        format!("{head} {{\n{}}}\n", "    pub fn a(&self) {\n        b();\n    }\n".repeat(count))
    }

    fn large(modules: &[(&str, &str)]) -> Vec<(String, usize)> {
        let texts =
            modules.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        large_types(&texts, &BTreeSet::from(["Ours"]))
    }

    #[test]
    fn all_blocks_of_a_type_count_together() {
        let first = format!("pub struct A<'a> {{\n    b: &'a u8,\n}}\n{}", block("impl A<'_>", 20));
        let second = |count| block("impl<T: Fn(u8) -> u8> super::A<'_>", count);
        assert_eq!(large(&[("a", &first), ("b", &second(20))]), []);
        assert_eq!(large(&[("a", &first), ("b", &second(21))]), [("A".to_owned(), 41)]);
        let ours = block("impl<'a> Ours for A<'a>\nwhere\n    u8: Copy,", 21);
        assert_eq!(large(&[("a", &first), ("b", &ours)]), [("A".to_owned(), 41)]);
    }

    #[test]
    fn others_do_not() {
        let text = format!("struct A;\n{}", block("impl A", 40));
        assert_eq!(large(&[("a", &text), ("b", &block("impl std::io::Read for A", 9))]), []);
        // Another module has a type of the same name.
        let other = format!("pub(crate) enum A {{}}\n{}", block("impl A", 30));
        assert_eq!(large(&[("a", &text), ("b", &other)]), []);
        let inner =
            format!("struct A;\nimpl A {{}}\nmod b {{\n{}}}\n", "    fn c() {}\n".repeat(60));
        assert_eq!(large(&[("a", &inner)]), []);
    }
}
