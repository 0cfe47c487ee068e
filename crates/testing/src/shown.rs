//! Compares the output of a command with what a page shows.
//!
//! `docs/README.md` tells readers what may differ, and [`VARYING`] is the same list. Everything
//! else must be equal, except for the number of spaces between words.

use std::collections::BTreeMap;

use regex_lite::{Regex, escape};

/// The parts that vary between runs or machines: a pattern for how a page shows it (the first
/// group, if there is one), and a pattern for the output in its place.
const VARYING: &[(&str, &str)] = &[
    (r"\.\.\.", r".*"),
    (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]+)?",
    ),
    (r"[0-9.]+ (?:ms|s|min)\b", r"[0-9.]+ (?:ms|s|min)"),
    (r"[0-9.]+ (?:B|kB|MB|GB)\b", r"[0-9.]+ (?:B|kB|MB|GB)"),
    (r"0x[0-9a-f]{8,}", r"0x[0-9a-f]+"),
    (r"\b[0-9a-f]{16}\b", r"[0-9a-f]{16}"),
    // The numbers of events: in a list, in text, and as a count before a time in a list of
    // processes.
    (r"^ ?([0-9]+) (?:turn |[a-z0-9_]+\(|[+]{3}|[-]{3})", r"[0-9]+"),
    (r"\b(?:event|turn) [0-9]+", r"(?:event|turn) [0-9]+"),
    (r"[0-9]+ [+][0-9.]+", r"[0-9]+ [+][0-9.]+"),
    // The numbers of runs and seeds under chaos.
    (r"in run [0-9]+", r"in run [0-9]+"),
    (r"--seed [0-9]+", r"--seed [0-9]+"),
    (PROCESS, r"([0-9]+)"),
];
/// A pattern for the number of a process or thread.
const PROCESS: &str = r"\b[0-9]{5,}\b";
/// A shown line that stands for any number of lines.
const ANY_LINES: &str = "...";

/// The numbers of processes in the pages, with the numbers of the same processes here.
pub type Numbered = BTreeMap<String, String>;

/// A command with the numbers that the processes have here.
///
/// # Panics
/// Never: the pattern is sound.
pub fn translated(command: &str, numbered: &Numbered) -> String {
    let process = Regex::new(PROCESS).expect("a pattern");
    let number = |shown: &regex_lite::Captures<'_>| {
        numbered.get(&shown[0]).cloned().unwrap_or_else(|| shown[0].to_owned())
    };
    process.replace_all(command, number).into_owned()
}

/// Compares the whole output with the shown lines, and adds the numbers of processes in them to
/// `numbered`.
///
/// # Errors
/// The first shown line that does not agree with the output.
///
/// # Panics
/// Never: the patterns are sound.
pub fn compare(shown: &[String], printed: &str, numbered: &mut Numbered) -> Result<(), String> {
    let shown =
        without_end(shown.iter().map(|line| Line::new(line)).collect(), |it| it.text.is_empty());
    let printed = without_end(printed.lines().map(joined).collect(), String::is_empty);
    let mut furthest = 0;
    match numbers(&shown, &printed, numbered, 0, &mut furthest) {
        Some(found) => {
            *numbered = found;
            Ok(())
        }
        None => Err(shown.get(furthest).map_or("more lines than are shown".to_owned(), |line| {
            format!("no line, or another one, for: {}", line.text)
        })),
    }
}

/// The numbers of processes, if all lines agree. `at` is the index of the first shown line.
/// `furthest` becomes the index of the last line that was compared.
fn numbers(
    shown: &[Line],
    printed: &[String],
    numbered: &Numbered,
    at: usize,
    furthest: &mut usize,
) -> Option<Numbered> {
    *furthest = at.max(*furthest);
    let Some((first, others)) = shown.split_first() else {
        return printed.is_empty().then(|| numbered.clone());
    };
    if first.text == ANY_LINES {
        let mut ends = (0..=printed.len()).map(|count| &printed[count..]);
        return ends.find_map(|rest| numbers(others, rest, numbered, at + 1, furthest));
    }
    let (line, rest) = printed.split_first()?;
    let numbered = first.agrees(line, numbered)?;
    numbers(others, rest, &numbered, at + 1, furthest)
}

/// A shown line, the pattern for lines that agree with it, and the numbers of processes in it.
struct Line {
    text: String,
    pattern: Regex,
    processes: Vec<String>,
}

impl Line {
    fn new(line: &str) -> Self {
        let text = joined(line);
        let varying = VARYING.iter().map(|(shown, printed)| {
            (Regex::new(shown).expect("a pattern"), *printed, *shown == PROCESS)
        });
        let varying: Vec<_> = varying.collect();
        let (mut pattern, mut processes, mut end) = ("^".to_owned(), Vec::new(), 0);
        loop {
            let found = varying.iter().filter_map(|(shown, printed, is_process)| {
                let captures = shown.captures_at(&text, end)?;
                let part = captures.get(1).or_else(|| captures.get(0))?;
                Some((part.range(), *printed, *is_process))
            });
            let Some((range, printed, is_process)) = found.min_by_key(|(range, ..)| range.start)
            else {
                break;
            };
            pattern += &escape(&text[end..range.start]);
            pattern += printed;
            end = range.end;
            processes.extend(is_process.then(|| text[range].to_owned()));
        }
        pattern += &escape(&text[end..]);
        let pattern = Regex::new(&(pattern + "$")).expect("a pattern");
        Self { text, pattern, processes }
    }

    /// If the line agrees, returns the numbers of processes with those of this line.
    fn agrees(&self, printed: &str, numbered: &Numbered) -> Option<Numbered> {
        let captures = self.pattern.captures(printed)?;
        let mut numbered = numbered.clone();
        for (at, shown) in self.processes.iter().enumerate() {
            let here = captures.get(at + 1)?.as_str();
            let other =
                numbered.iter().find(|(name, number)| (*name == shown) != (*number == here));
            if other.is_some() {
                return None;
            }
            numbered.insert(shown.clone(), here.to_owned());
        }
        Some(numbered)
    }
}

/// A line with single spaces.
fn joined(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn without_end<T>(mut lines: Vec<T>, is_empty: impl Fn(&T) -> bool) -> Vec<T> {
    while lines.last().is_some_and(&is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(shown: &str, printed: &str) -> bool {
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        compare(&shown, printed, &mut Numbered::new()).is_ok()
    }

    #[test]
    fn what_must_differ_may_differ() {
        for (shown, printed) in [
            ("took 82 ms, 39.7 kB", "took  1.2 s, 2 MB\n"),
            ("sh-1  2026-11-21 05:52:21  39.7 kB", "sh-1 2027-01-02 00:00:00 1 B"),
            ("    160  read(3, \"x\", 4096) = 14", "     7  read(3, \"x\", 4096) = 14"),
            (
                "     29  +++ killed by SIGSEGV +++ memory 659658cf5a0f04eb",
                "7 +++ killed by SIGSEGV +++ memory 0000000000000001",
            ),
            ("a\n...\nd", "a\nb\nc\nd\n"),
            ("a\n...\nd", "a\nd"),
            ("at ... in main", "at 0x55 in main"),
            ("process 11315, event 12", "process 7, event 99"),
            ("0x000055981fffc2bf in f", "0x1 in f"),
        ] {
            assert!(agree(shown, printed), "{shown} / {printed}");
        }
    }

    #[test]
    fn all_else_is_equal() {
        for (shown, printed) in [
            ("status 3", "status 4"),
            ("at race.c:47", "at race.c:48"),
            ("a", "a\nb"),
            ("a\nb", "a"),
            ("a\n...\nd", "a\nd\ne"),
            ("read(3, \"x\", 4096) = 14", "read(3, \"x\", 4097) = 14"),
            ("at 0x18", "at 0x19"),
            ("", "x"),
        ] {
            assert!(!agree(shown, printed), "{shown} / {printed}");
        }
    }

    #[test]
    fn a_number_stands_for_the_same_process() {
        assert!(agree("11315 11324 11315", "1 2 1"));
        assert!(!agree("11315 11324 11315", "1 2 3"));
        assert!(!agree("11315 11324", "1 1"));
        let mut numbered = Numbered::new();
        compare(&["pid 27928".to_owned()], "pid 31", &mut numbered).unwrap();
        assert_eq!(
            translated("dump --pid 27928 --seed 20000", &numbered),
            "dump --pid 31 --seed 20000"
        );
    }

    #[test]
    fn what_differs_is_told() {
        let shown = ["a".to_owned(), "b".to_owned()];
        let said = |printed| compare(&shown, printed, &mut Numbered::new()).unwrap_err();
        assert!(said("a\nc").ends_with(": b") && said("a").ends_with(": b"));
        assert_eq!(said("a\nb\nc"), "more lines than are shown");
    }
}
