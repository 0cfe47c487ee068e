//! Checks that docs/PROMISES.md is complete: its quotes are in the documents, the tests it names
//! exist, and each limit has one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A bullet of the page: a short sentence, and what keeps it.
#[derive(Debug, PartialEq)]
struct Promise {
    document: String,
    section: String,
    quote: String,
    held_by: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns text on one line, so that line breaks in documents do not matter.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads the page. A heading `##` names a document, and `###` a section of it. A bullet is a
/// sentence, and the quote below it names the tests that hold it.
fn promises(text: &str) -> Vec<Promise> {
    let (mut document, mut section) = (String::new(), String::new());
    let mut promises: Vec<Promise> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            section = heading.to_owned();
        } else if let Some(heading) = line.strip_prefix("## ") {
            document = heading.to_owned();
        } else if let Some(quote) = line.strip_prefix("* ") {
            let [document, section] = [&document, &section].map(Clone::clone);
            let quote = joined(quote);
            promises.push(Promise { document, section, quote, held_by: String::new() });
        } else if let Some(more) = line.strip_prefix("  ") {
            let promise = promises.last_mut().unwrap_or_else(|| panic!("no bullet: {line}"));
            let (text, more) = match more.strip_prefix("> ") {
                Some(held_by) => (&mut promise.held_by, held_by),
                None => (&mut promise.quote, more),
            };
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(more);
        }
    }
    promises
}

/// Returns the sections of a document by their headings. Text before the first belongs to the
/// title.
fn sections(text: &str) -> BTreeMap<String, String> {
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    let mut heading = String::new();
    for line in text.lines() {
        match line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")) {
            Some(name) if name.chars().next().is_some_and(char::is_uppercase) => {
                heading = name.to_owned()
            }
            _ => sections.entry(heading.clone()).or_default().extend([line, "\n"]),
        }
    }
    sections
}

/// Returns what is wrong with a promise.
fn complaint(
    promise: &Promise,
    documents: &BTreeMap<String, BTreeMap<String, String>>,
) -> Option<String> {
    let Promise { document, section, quote, held_by } = promise;
    let Some(text) = documents.get(document).and_then(|sections| sections.get(section)) else {
        return Some(format!("{document} has no section {section}"));
    };
    if !joined(text).contains(quote.as_str()) {
        return Some(format!("{document}, {section}, does not say: {quote}"));
    }
    if let Some(reason) = held_by.strip_prefix("not tried: ") {
        return (reason.len() < 10).then(|| format!("no reason why nothing holds: {quote}"));
    }
    let tests: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
    let missing = tests.iter().find(|test| !is_test(test));
    match missing {
        Some(test) => Some(format!("there is no test {test}, which is to hold: {quote}")),
        None => tests.is_empty().then(|| format!("no test holds: {quote}")),
    }
}

/// Returns whether this is the path of a program in `tests/programs`, or the path of a Rust file
/// and a test in it that is not ignored.
fn is_test(name: &str) -> bool {
    let root = repository();
    let Some((file, function)) = name.split_once("::") else {
        return name.starts_with("tests/programs/")
            && name.ends_with(".c")
            && root.join(name).is_file();
    };
    let Ok(text) = fs::read_to_string(root.join(file)) else {
        return false;
    };
    let Some((before, _)) = text.split_once(&format!("fn {function}(")) else {
        return false;
    };
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    attributes.contains("#[test]") && !attributes.contains("#[ignore")
}

/// Returns bullets and rows of a text, each with its lines.
fn bullets(text: &str) -> Vec<String> {
    let mut bullets: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with("* ") {
            bullets.push(String::new());
            is_inside = true;
        } else if !line.starts_with("  ") {
            is_inside = false;
        }
        if let Some(bullet) = bullets.last_mut().filter(|_| is_inside) {
            bullet.extend([line, "\n"]);
        }
    }
    bullets
}

fn rows(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    lines.skip(1).map(str::to_owned).collect()
}

/// Lists the sections and pieces of each document that must be quoted at least once.
fn wanted(
    documents: &BTreeMap<String, BTreeMap<String, String>>,
) -> Vec<(&'static str, String, String)> {
    let mut wanted = Vec::new();
    let mut want = |document, section: &str, pieces: Vec<String>| {
        wanted.extend(pieces.into_iter().map(|piece| (document, section.to_owned(), piece)));
    };
    for (section, text) in &documents["docs/LIMITS.md"] {
        want("docs/LIMITS.md", section, [bullets(text), rows(text)].concat());
    }
    want("README.md", "A session", rows(&documents["README.md"]["A session"]));
    want("README.md", "Limits", bullets(&documents["README.md"]["Limits"]));
    for (section, text) in &documents["docs/FORMAT.md"] {
        // Text before the first section belongs to the title.
        if section != "The recording on disk" && !text.trim().is_empty() {
            want("docs/FORMAT.md", section, vec![text.clone()]);
        }
    }
    wanted
}

fn documents() -> BTreeMap<String, BTreeMap<String, String>> {
    let names = ["README.md", "docs/LIMITS.md", "docs/FORMAT.md"];
    names.iter().map(|&name| (name.to_owned(), sections(&read(name)))).collect()
}

#[test]
fn every_promise_is_in_its_document_and_held_by_a_test() {
    let documents = documents();
    let promises = promises(&read("docs/PROMISES.md"));
    let complaints: Vec<String> =
        promises.iter().filter_map(|promise| complaint(promise, &documents)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let untried =
        promises.iter().filter(|promise| promise.held_by.starts_with("not tried: ")).count();
    assert!(
        untried * 10 < promises.len(),
        "{untried} of {} promises are held by nothing",
        promises.len()
    );
}

#[test]
fn no_limit_is_without_a_promise() {
    let documents = documents();
    let promises = promises(&read("docs/PROMISES.md"));
    let wanted = wanted(&documents);
    assert!(wanted.len() > 60, "{} bullets, rows and sections were found", wanted.len());
    for (document, section, piece) in wanted {
        let of_section = promises
            .iter()
            .filter(|promise| promise.document == document && promise.section == section);
        let text = joined(&piece);
        assert!(
            of_section.into_iter().any(|promise| text.contains(&promise.quote)),
            "docs/PROMISES.md quotes nothing of {document}: {text}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_row_is_told() {
    let documents = BTreeMap::from([(
        "A.md".to_owned(),
        sections("# Title\n\n## First\n\nIt works\nevery time.\n"),
    )]);
    let row = |section: &str, quote: &str, held_by: &str| {
        let text = format!("## A.md\n\n### {section}\n\n* {quote}\n  > {held_by}\n");
        let [promise] = &promises(&text)[..] else { panic!("one row: {text}") };
        complaint(promise, &documents).unwrap_or_default()
    };
    let here = "`xtask/tests/promises.rs::what_is_wrong_with_a_row_is_told`";
    assert_eq!(row("First", "works every", here), "");
    assert_eq!(row("First", "works every", "`tests/programs/io_errors.c`"), "");
    assert_eq!(row("First", "works every", "not tried: it would take a year"), "");
    assert!(row("First", "works often", here).contains("does not say"));
    assert!(row("Second", "works every", here).contains("no section Second"));
    assert!(row("First", "works every", "by hand").contains("no test holds"));
    assert!(row("First", "works every", "not tried: ").contains("no reason"));
    for gone in [
        "`xtask/tests/promises.rs::gone`",
        "`xtask/tests/promises.rs::documents`",
        "`tests/programs/gone.c`",
        "`xtask/tests/gone.rs::x`",
    ] {
        assert!(row("First", "works every", gone).contains("there is no test"), "{gone}");
    }
}

#[test]
fn bullets_and_rows_are_found() {
    let text =
        "Text.\n\n* one\n  goes on\n* two\n\nNot inside.\n| head | x |\n|---|---|\n| row | y |\n";
    assert_eq!(bullets(text), ["* one\n  goes on\n", "* two\n"]);
    assert_eq!(rows(text), ["| row | y |"]);
}
