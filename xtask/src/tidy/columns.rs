//! Lines of code that are wider than they should be.

use std::collections::HashSet;

/// The most columns that a line of code has. A tab goes to the next multiple of 8.
pub const MOST_COLUMNS: usize = 100;
const TAB_COLUMNS: usize = 8;

/// The wide lines, counted from 1. Not among them are rows of tables in comments, and texts that go
/// over several lines or stand raw: they mean what they are.
pub fn wide_lines(text: &str) -> Vec<usize> {
    let literal = lines_of_literals(text);
    let is_wide = |(index, line): &(usize, &str)| {
        columns(line) > MOST_COLUMNS && !literal.contains(index) && !is_table(line)
    };
    text.lines().enumerate().filter(is_wide).map(|(index, _)| index + 1).collect()
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

/// Lines, from 0, in which a literal goes on to another line, or that have a raw one.
fn lines_of_literals(text: &str) -> HashSet<usize> {
    let mut lines = HashSet::new();
    let (mut at, mut line) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let (bytes, is_literal) = token(rest, text[..at].chars().next_back());
        let ends = line + rest[..bytes].matches('\n').count();
        if is_literal && (ends > line || !rest.starts_with(['"', '\''])) {
            lines.extend(line..=ends);
        }
        (at, line) = (at + bytes, ends);
    }
    lines
}

/// How long the token at the beginning is as far as it matters here, and whether it is a literal.
fn token(rest: &str, before: Option<char>) -> (usize, bool) {
    let until = |end: &str, from: usize| {
        rest[from..].find(end).map_or(rest.len(), |found| from + found + end.len())
    };
    let is_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), false);
    }
    if rest.starts_with("/*") {
        return (until("*/", 2), false);
    }
    if let Some(hashes) = raw_hashes(rest).filter(|_| !is_word) {
        let start = rest.find('"').map_or(rest.len(), |quote| quote + 1);
        return (until(&format!("\"{}", "#".repeat(hashes)), start), true);
    }
    match rest.chars().next() {
        Some('"') => (closed(rest, '"'), true),
        Some('\'') if is_character(rest) => (closed(rest, '\''), true),
        Some(letter) => (letter.len_utf8(), false),
        None => (0, false),
    }
}

/// How many `#` a raw string begins with.
fn raw_hashes(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// A character, and no lifetime.
fn is_character(rest: &str) -> bool {
    let mut letters = rest.chars().skip(1);
    match letters.next() {
        Some('\\') => true,
        Some(_) => letters.next() == Some('\''),
        None => false,
    }
}

/// Up to behind the closing quote.
fn closed(rest: &str, quote: char) -> usize {
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return at + quote.len_utf8();
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_hundred_columns() {
        let line = |columns: usize| "x".repeat(columns);
        assert!(wide_lines(&line(100)).is_empty());
        assert_eq!(wide_lines(&format!("a\n{}", line(101))), [2]);
        assert_eq!(wide_lines(&format!("\t{}", line(93))), [1]);
        assert!(wide_lines(&"é".repeat(100)).is_empty());
    }

    #[test]
    fn texts_and_tables_may_be_wide() {
        let wide = "x".repeat(101);
        for text in [
            format!("let a = \"\n{wide}\";"),
            format!("let a = r#\"{wide}\"#;"),
            format!("//! | {wide} |"),
        ] {
            assert!(wide_lines(&text).is_empty(), "{text}");
        }
        for text in [
            format!("let a = \"{wide}\";"),
            format!("let a: &'static str = '\"'; // {wide}"),
            format!("/* \" */ {wide}"),
            format!("let a = \"b\\\n c\";\n// {wide}"),
        ] {
            assert_eq!(wide_lines(&text).len(), 1, "{text}");
        }
    }
}
