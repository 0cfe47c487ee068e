//! The pages of the documentation, and the commands that they show.
//!
//! A fenced or indented block is a session if its lines have prompts. The lines below a command are
//! then its output. A block without prompts is a list of commands, one a line, if its first line
//! begins like a command. It shows no output. All other blocks have no commands.

use std::fs;
use std::path::{Path, PathBuf};

/// The beginnings of commands in blocks without prompts.
const BEGINNINGS: [&str; 6] = ["retake", "cargo", "make", "gcc", "sh", "./"];
const PROMPT: &str = "$";
const DEBUGGER: &str = "(gdb)";

/// A page: its path in the repository, and its text.
#[derive(Debug)]
pub struct Page {
    pub path: String,
    pub text: String,
}

/// A command that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The number of its line in the page, from 1.
    pub line: usize,
    /// The command without prompt and comment.
    pub text: String,
    /// Whether it is a debugger's command, not a shell's.
    pub to_debugger: bool,
    /// The lines of its output, as shown; `None` if the block shows no output.
    pub printed: Option<Vec<String>>,
}

/// The folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages, sorted by path.
///
/// # Panics
/// A page cannot be read.
pub fn pages() -> Vec<Page> {
    let root = repository();
    let folders = ["", "docs", "contract", "examples", "fuzz", "tests"].map(PathBuf::from);
    let below = ["tests", "crates"].map(|folder| folders_of(&root, folder)).concat();
    let mut pages: Vec<Page> =
        folders.into_iter().chain(below).flat_map(|it| pages_of(&root, &it)).collect();
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    pages
}

fn folders_of(root: &Path, folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(folder)).expect("a folder of the repository").flatten();
    entries
        .filter(|it| it.path().is_dir())
        .map(|it| Path::new(folder).join(it.file_name()))
        .collect()
}

fn pages_of(root: &Path, folder: &Path) -> Vec<Page> {
    let entries = fs::read_dir(root.join(folder)).expect("a folder of the repository").flatten();
    let names = entries.map(|entry| folder.join(entry.file_name()));
    let page = |path: PathBuf| Page {
        text: fs::read_to_string(root.join(&path)).expect("a page"),
        path: path.to_str().expect("a name").to_owned(),
    };
    names.filter(|name| name.extension().is_some_and(|it| it == "md")).map(page).collect()
}

impl Page {
    /// The commands of all blocks, in order.
    ///
    /// # Panics
    /// A session does not begin with a command.
    pub fn commands(&self) -> Vec<Command> {
        self.blocks().iter().flat_map(|block| self.commands_of(block)).collect()
    }

    fn commands_of(&self, block: &Block<'_>) -> Vec<Command> {
        let is_session = block.lines.iter().any(|line| prompted(line).is_some());
        if !is_session {
            return if begins_like_a_command(block.lines[0]) { usages(block) } else { Vec::new() };
        }
        let mut commands: Vec<Command> = Vec::new();
        for (line, text) in (block.line..).zip(&block.lines) {
            if let Some((prompt, text)) = prompted(text) {
                let (to_debugger, printed) = (prompt == DEBUGGER, Some(Vec::new()));
                commands.push(Command { line, text: uncommented(text), to_debugger, printed });
            } else if let Some(printed) = commands.last_mut().and_then(|it| it.printed.as_mut()) {
                printed.push((*text).to_owned());
            } else {
                panic!("{}:{line}: a session begins with a command", self.path);
            }
        }
        // An empty prompt shows that the previous command has ended.
        let is_silent =
            |command: &Command| !command.text.is_empty() && command.printed == Some(Vec::new());
        if commands.iter().all(is_silent) {
            commands.iter_mut().for_each(|command| command.printed = None);
        }
        commands.retain(|command| !command.text.is_empty());
        commands
    }

    /// The texts between single back quotes, each with the number of the line where it ends.
    pub fn spans(&self) -> Vec<(usize, String)> {
        let mut spans = Vec::new();
        let mut open: Option<String> = None;
        for (line, text) in outside(&self.text) {
            // A text may go on in the next line, but not in the next paragraph.
            if text.trim().is_empty() {
                open = None;
                continue;
            }
            for (at, part) in text.trim().split('`').enumerate() {
                if at > 0 {
                    open = match open.take() {
                        Some(span) => {
                            spans.push((line, span));
                            None
                        }
                        None => Some(String::new()),
                    };
                }
                if let Some(span) = &mut open {
                    let space = if at == 0 && !span.is_empty() { " " } else { "" };
                    span.extend([space, part]);
                }
            }
        }
        spans
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let mut begins = true;
        for (line, place, text) in placed(&self.text) {
            let text = match place {
                Place::Text | Place::Fence => {
                    begins = true;
                    continue;
                }
                Place::Indented => text.strip_prefix("    ").unwrap_or_default(),
                Place::Fenced => text,
            };
            if begins {
                blocks.push(Block { line, lines: Vec::new() });
                begins = false;
            }
            blocks.last_mut().expect("one was pushed").lines.push(text);
        }
        for block in &mut blocks {
            while block.lines.last().is_some_and(|line| line.is_empty()) {
                block.lines.pop();
            }
        }
        blocks.retain(|block| !block.lines.is_empty());
        blocks
    }
}

/// A block: the number of its first line, and its lines.
struct Block<'text> {
    line: usize,
    lines: Vec<&'text str>,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    Fence,
    Fenced,
    Indented,
}

/// Each line with its number and kind. An indented block has four spaces, and follows an empty
/// line.
fn placed(text: &str) -> Vec<(usize, Place, &str)> {
    let (mut is_fenced, mut was) = (false, Place::Text);
    let mut was_empty = true;
    let mut placed = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let is_fence = text.trim_start().starts_with("```");
        was = if is_fence {
            is_fenced = !is_fenced;
            Place::Fence
        } else if is_fenced {
            Place::Fenced
        } else if (text.starts_with("    ") && (was_empty || was == Place::Indented))
            || (text.is_empty() && was == Place::Indented)
        {
            Place::Indented
        } else {
            Place::Text
        };
        was_empty = text.is_empty();
        placed.push((line, was, text));
    }
    placed
}

fn outside(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let outside = placed(text).into_iter().filter(|(_, place, _)| *place == Place::Text);
    outside.map(|(line, _, text)| (line, text))
}

/// The prompt of a line, and the text after it.
fn prompted(line: &str) -> Option<(&str, &str)> {
    let (prompt, text) = line.split_once(' ').unwrap_or((line, ""));
    [PROMPT, DEBUGGER].contains(&prompt).then_some((prompt, text))
}

fn usages(block: &Block<'_>) -> Vec<Command> {
    let usage = |(line, text): (usize, &&str)| Command {
        line,
        text: uncommented(text),
        to_debugger: false,
        printed: None,
    };
    let lines = (block.line..).zip(&block.lines).filter(|(_, text)| !text.is_empty());
    lines.map(usage).collect()
}

fn begins_like_a_command(line: &str) -> bool {
    let is_assignment = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|it| it.is_ascii_uppercase() || it == '_')
        })
    };
    let first = line.split(' ').find(|word| !is_assignment(word)).unwrap_or_default();
    BEGINNINGS.iter().any(|it| first == *it || (it.ends_with('/') && first.starts_with(it)))
}

/// A command without its comment, which follows two spaces.
fn uncommented(text: &str) -> String {
    let end = text.find("  # ").unwrap_or(text.len());
    text[..end].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { path: "page.md".to_owned(), text: text.to_owned() }
    }

    fn shown(text: &str) -> Vec<(usize, String, Option<Vec<String>>)> {
        let commands = page(text).commands();
        commands.into_iter().map(|it| (it.line, it.text, it.printed)).collect()
    }

    #[test]
    fn sessions_show_what_is_printed() {
        let text = "Text.\n\n```console\n$ one  # first\n1\n\n2\n$ two\n(gdb) three\n3\n```\n";
        let commands = page(text).commands();
        assert_eq!(
            commands.iter().map(|it| it.to_debugger).collect::<Vec<_>>(),
            [false, false, true]
        );
        let lines = |lines: &[&str]| Some(lines.iter().map(|&it| it.to_owned()).collect());
        assert_eq!(
            shown(text),
            [
                (4, "one".to_owned(), lines(&["1", "", "2"])),
                (8, "two".to_owned(), lines(&[])),
                (9, "three".to_owned(), lines(&["3"])),
            ]
        );
    }

    #[test]
    fn what_nothing_is_shown_of_may_print() {
        let silent =
            |text: &str| shown(text).into_iter().map(|it| it.2.is_none()).collect::<Vec<_>>();
        assert_eq!(silent("```\n$ one\n$ two\n```\n"), [true, true]);
        // The last prompt shows that nothing was printed.
        assert_eq!(silent("```\n$ one\n$ two\n$\n```\n"), [false, false]);
    }

    #[test]
    fn usages_have_no_prompts() {
        let text = "Text.\n\n    retake ls     # all\n    X=1 cargo test\n\n    make\n\nMore.\n";
        let texts: Vec<_> = shown(text).into_iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert_eq!(texts[1], (4, "X=1 cargo test".to_owned()));
        assert_eq!(shown("    0 read\n"), []);
        assert_eq!(shown("* item\n    retake ls\n"), []);
    }

    #[test]
    fn spans_go_over_lines() {
        let text = "A `retake\nls` and `b`.\n\n    retake `no`\n\n```\n`no`\n```\n";
        assert_eq!(page(text).spans(), [(2, "retake ls".to_owned()), (2, "b".to_owned())]);
    }

    #[test]
    fn the_pages_are_found() {
        let pages = pages();
        let has = |path: &str| pages.iter().any(|page| page.path == path);
        assert!(has("README.md") && has("docs/DEBUG.md") && has("tests/mutants/README.md"));
        let count: usize = pages.iter().map(|page| page.commands().len()).sum();
        assert!(count > 60, "{count}");
    }
}
