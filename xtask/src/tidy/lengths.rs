//! Finds files that are too long.

/// The most lines of a file. Longer ones are hard to read as a whole.
const MOST_LINES: usize = 500;

/// The most lines of a page that is read from beginning to end.
const MOST_LINES_OF_PAGE: usize = 300;

/// Reference pages, which may be longer.
const REFERENCE: [&str; 4] =
    ["docs/BENCHMARKS.md", "docs/FORMAT.md", "docs/PROMISES.md", "docs/TRACE.md"];

/// Returns the complaint about a document with this number of lines.
pub fn complaint_of_page(path: &str, lines: usize) -> Option<String> {
    let is_long = lines > MOST_LINES_OF_PAGE && !REFERENCE.contains(&path);
    is_long.then(|| format!("{lines} lines; the limit for a page is {MOST_LINES_OF_PAGE}"))
}

/// Returns the complaint about a file with this number of lines.
pub fn complaint(lines: usize) -> Option<String> {
    (lines > MOST_LINES).then(|| format!("{lines} lines; the limit is {MOST_LINES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_short_unless_they_are_looked_up() {
        assert!(complaint_of_page("docs/A.md", 300).is_none());
        assert!(complaint_of_page("docs/A.md", 301).is_some());
        assert!(complaint_of_page("docs/TRACE.md", 2000).is_none());
    }

    #[test]
    fn files_have_so_many_lines_at_most() {
        assert_eq!(complaint(500), None);
        assert!(complaint(501).is_some_and(|it| it.starts_with("501 lines")));
    }
}
