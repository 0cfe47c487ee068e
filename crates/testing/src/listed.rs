//! The commands of pages that no test runs, with the reasons: `tests/not_run.txt`.

use crate::pages::{Page, repository};

/// The path of the list in the repository.
pub const LIST: &str = "tests/not_run.txt";

/// A command that is not run: the page that shows it, its text there, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    pub page: String,
    pub command: String,
    pub reason: String,
}

/// Reads the list.
///
/// # Panics
/// The list cannot be read.
pub fn listed() -> Vec<Listed> {
    parse(&std::fs::read_to_string(repository().join(LIST)).expect("the list"))
}

/// Parses the list. A line without indentation is a reason. The indented lines below it are the
/// commands, each after the path of its page.
fn parse(text: &str) -> Vec<Listed> {
    let (mut reason, mut listed) = ("", Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("    ") {
            None => reason = line,
            Some(line) => {
                let (page, command) = line.split_once(": ").expect("a page, and a command");
                let [page, command, reason] = [page, command, reason].map(str::to_owned);
                listed.push(Listed { page, command, reason });
            }
        }
    }
    listed
}

/// Whether a command of a page is on the list.
pub fn is_listed(listed: &[Listed], page: &str, command: &str) -> bool {
    listed.iter().any(|it| it.page == page && it.command == command)
}

/// The errors in the list: commands that no page shows, and reasons that are too short.
pub fn complaints(listed: &[Listed], pages: &[Page]) -> Vec<String> {
    let is_shown = |it: &Listed| {
        let page = pages.iter().find(|page| page.path == it.page);
        page.is_some_and(|page| page.commands().iter().any(|command| command.text == it.command))
    };
    let gone = listed.iter().filter(|it| !is_shown(it));
    let gone = gone.map(|it| format!("{LIST}: {} does not show: {}", it.page, it.command));
    let bare = listed.iter().filter(|it| it.reason.len() < 10);
    gone.chain(bare.map(|it| format!("{LIST}: no reason why nothing runs: {}", it.command)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_above_their_commands() {
        let text = "# Comment.\n\nit takes hours\n    a.md: retake x\n    b.md: retake y: z\n\
                    no\n    c.md: w\n";
        let listed = parse(text);
        assert!(
            is_listed(&listed, "b.md", "retake y: z") && !is_listed(&listed, "a.md", "retake y: z")
        );
        let text = "    retake x\n".to_owned();
        let complaints = complaints(&listed, &[Page { path: "a.md".to_owned(), text }]);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
    }
}
