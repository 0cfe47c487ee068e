//! Finds lines that are too wide.

use std::collections::HashSet;

use crate::quoted::{Language, Quoted, quoted};

/// The most columns of a line of code. A tab goes to the next multiple of 8.
pub const MOST_COLUMNS: usize = 100;
/// The most columns of a line of a document.
pub const MOST_COLUMNS_OF_PROSE: usize = 120;
const TAB_COLUMNS: usize = 8;

/// Returns the wide lines, counted from 1. Rows of tables in comments may be wide, and so may
/// string literals that are raw or span several lines.
pub fn wide_lines(text: &str, language: Language) -> Vec<usize> {
    let literal = lines_of_literals(text, language);
    let is_wide = |(index, line): &(usize, &str)| {
        columns(line) > MOST_COLUMNS && !literal.contains(index) && !is_table(line)
    };
    text.lines().enumerate().filter(is_wide).map(|(index, _)| index + 1).collect()
}

/// Returns the wide lines of a document, counted from 1. Code blocks may be wide, and so may rows
/// of printed tables.
pub fn wide_prose(text: &str, are_tables_printed: bool) -> Vec<usize> {
    let mut is_fenced = false;
    let mut wide = Vec::new();
    for (index, line) in text.lines().enumerate() {
        is_fenced ^= line.trim_start().starts_with("```");
        let is_printed = line.starts_with("    ") || are_tables_printed && line.starts_with('|');
        let is_prose = !is_fenced && !is_printed;
        if is_prose && columns(line) > MOST_COLUMNS_OF_PROSE {
            wide.push(index + 1);
        }
    }
    wide
}

fn columns(line: &str) -> usize {
    let next = |at: usize, letter: char| match letter {
        '\t' => (at / TAB_COLUMNS + 1) * TAB_COLUMNS,
        _ => at + 1,
    };
    line.chars().fold(0, next)
}

fn is_table(line: &str) -> bool {
    let comment = line.trim_start().trim_start_matches(['/', '!', '*']);
    comment.trim_start().starts_with('|')
}

/// Returns the lines, from 0, with a raw literal, or with one that continues on the next line.
fn lines_of_literals(text: &str, language: Language) -> HashSet<usize> {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line = |at: usize| ends.partition_point(|end| *end < at);
    let mut lines = HashSet::new();
    for (bytes, kind) in quoted(text.as_bytes(), language) {
        let (first, last) = (line(bytes.start), line(bytes.end - 1));
        if kind == Quoted::Raw || kind == Quoted::Text && first < last {
            lines.extend(first..=last);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<usize> {
        wide_lines(text, Language::Rust)
    }

    #[test]
    fn a_line_has_a_hundred_columns() {
        let line = |columns: usize| "x".repeat(columns);
        assert!(wide(&line(100)).is_empty());
        assert_eq!(wide(&format!("a\n{}", line(101))), [2]);
        assert_eq!(wide(&format!("\t{}", line(93))), [1]);
        assert!(wide(&"é".repeat(100)).is_empty());
    }

    #[test]
    fn prose_has_a_hundred_and_twenty() {
        let long = "x".repeat(121);
        assert_eq!(wide_prose(&format!("{}\n{long}", &long[1..]), false), [2]);
        assert_eq!(wide_prose(&format!("| {long} |"), false), [1]);
        assert!(wide_prose(&format!("| {long} |"), true).is_empty());
        assert!(wide_prose(&format!("    {long}\n```\n{long}\n```"), false).is_empty());
    }

    #[test]
    fn texts_and_tables_may_be_wide() {
        let long = "x".repeat(101);
        for text in [
            format!("let a = \"\n{long}\";"),
            format!("let a = r#\"{long}\"#;"),
            format!("//! | {long} |"),
        ] {
            assert!(wide(&text).is_empty(), "{text}");
        }
        for text in [
            format!("let a = \"{long}\";"),
            format!("let a: &'static str = '\"'; // {long}"),
            format!("/* \" */ {long}"),
            format!("let a = \"b\\\n c\";\n// {long}"),
        ] {
            assert_eq!(wide(&text).len(), 1, "{text}");
        }
    }
}
