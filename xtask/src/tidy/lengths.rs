//! Files that are longer than they should be.

/// Longer files are hard to read as a whole.
pub const MOST_LINES: usize = 500;

/// Files that are longer still. The list only shrinks: one that has become short must leave it.
const KNOWN: &str = include_str!("long_files.known");

/// The most lines of a page that is read from its beginning to its end.
const MOST_LINES_OF_PAGE: usize = 300;

/// Pages in which things are looked up.
const REFERENCE: [&str; 4] =
    ["docs/BENCHMARKS.md", "docs/FORMAT.md", "docs/PROMISES.md", "docs/TRACE.md"];

/// What is wrong with a document of so many lines.
pub fn complaint_of_page(path: &str, lines: usize) -> Option<String> {
    let is_long = lines > MOST_LINES_OF_PAGE && !REFERENCE.contains(&path);
    is_long.then(|| format!("{lines} lines; {MOST_LINES_OF_PAGE} are the most of a page"))
}

/// What is wrong with a file of so many lines.
pub fn complaint(path: &str, lines: usize) -> Option<String> {
    judged(path, lines, KNOWN)
}

fn judged(path: &str, lines: usize, known: &str) -> Option<String> {
    let is_known = known.lines().any(|known| known == path);
    match lines > MOST_LINES {
        true if !is_known => Some(format!("{lines} lines; {MOST_LINES} are the most")),
        false if is_known => {
            Some("short now: its line in xtask/src/tidy/long_files.known can go".to_owned())
        }
        _ => None,
    }
}

/// Known files that are not there any more.
pub fn gone(repository: &std::path::Path) -> impl Iterator<Item = String> {
    KNOWN
        .lines()
        .filter(move |path| !repository.join(path).is_file())
        .map(|path| format!("xtask/src/tidy/long_files.known has a file that is not there: {path}"))
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
    fn known_files_may_be_long_until_they_are_short() {
        let known = "runtime/a.c\n";
        assert_eq!(judged("runtime/a.c", 501, known), None);
        assert_eq!(judged("runtime/b.c", 500, known), None);
        assert!(judged("runtime/b.c", 501, known).is_some_and(|it| it.starts_with("501 lines")));
        assert!(judged("runtime/a.c", 500, known).is_some_and(|it| it.starts_with("short now")));
    }
}
