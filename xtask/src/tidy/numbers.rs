//! Finds numbers of system calls where their names should be used.
//!
//! A literal counts if it is the number of a call in a place where only such a number can be: it is
//! compared with one, is an argument of a function that makes a call, or is the value of a constant
//! with the name of a call. A comment after it may name the call, and is checked:
//! `syscall(462 /* mseal */)`. That is for names that the system's headers may lack.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::tokens::{Token, closing, tokens};
use crate::quoted::Language;

/// The file with all numbers.
const NUMBERS: &str = "runtime/gen/numbers.h";

/// Names that always hold the number of a call.
const HOLDERS: [&str; 6] =
    ["nr", "sysno", "call_number", "syscall_number", "system_call_number", "orig_rax"];
/// A name that holds one if it is a field. A variable of that name may hold the number of a signal,
/// where 0 means none.
const FIELD: &str = "number";
/// Owners whose `number` is not that of a call.
const OTHERS: [&str; 3] = ["signal", "descriptor", "siginfo"];

/// Functions that take the number of the call to make. Their names may end with a digit, such as
/// `6`.
const FUNCTIONS: [&str; 5] = ["syscall", "raw_syscall", "system_call", "kernel_call", "sys"];

/// Types whose `number` is always that of a call.
const TYPES: [&str; 2] = ["TracedCall", "CallRow"];

/// Prefixes of a call's name in the name of a constant.
const PREFIXES: [&str; 4] = ["__nr_", "nr_", "sys_", ""];

/// The names of the table's calls, by number.
#[derive(Debug)]
pub struct Calls(BTreeMap<u64, String>);

impl Calls {
    /// Reads the generated names.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(repository: &Path) -> io::Result<Self> {
        Ok(Self::of(&std::fs::read_to_string(repository.join(NUMBERS))?))
    }

    fn of(text: &str) -> Self {
        let row = |line: &str| {
            let (name, number) = line.trim().strip_prefix("NR_")?.split_once(" = ")?;
            Some((number.trim_end_matches(',').parse().ok()?, name.to_owned()))
        };
        Self(text.lines().filter_map(row).collect())
    }

    fn name(&self, number: u64) -> Option<&str> {
        self.0.get(&number).map(String::as_str)
    }
}

/// Returns lines with such a number, counted from 1, with the name of the call.
pub fn raw_numbers(text: &str, language: Language, calls: &Calls) -> Vec<(usize, String)> {
    let file = File { text, tokens: tokens(text, language), calls };
    let mut found = BTreeSet::new();
    for at in 0..file.tokens.len() {
        let literals = file
            .compared(at)
            .into_iter()
            .chain(file.passed(at))
            .chain(file.named(at))
            .chain(file.built(at))
            .chain(file.listed(at))
            .chain(file.matched(at));
        found.extend(literals.filter_map(|literal| file.nameless(literal)));
    }
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    found.into_iter().map(|(at, name)| (line(at), name)).collect()
}

struct File<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    calls: &'a Calls,
}

impl File<'_> {
    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn number(&self, at: usize) -> Option<u64> {
        self.tokens.get(at).and_then(Token::number)
    }

    /// Returns position and name of a literal that is the number of a call without a comment that
    /// names it.
    fn nameless(&self, at: usize) -> Option<(usize, String)> {
        let token = self.tokens.get(at)?;
        let name = self.calls.name(token.number()?)?;
        let behind = self.text[token.at + token.text.len()..].trim_start();
        let comment = behind.strip_prefix("/*").and_then(|rest| rest.split_once("*/"));
        let is_named = comment.is_some_and(|(comment, _)| comment.trim() == name);
        (!is_named).then(|| (token.at, name.to_owned()))
    }

    /// Returns whether the expression before a token is the number of a call: `call.number`,
    /// `call.number()`, `nr as u64`. A bare `number` may be something else.
    fn ends_number(&self, end: usize) -> Option<Kind> {
        let mut at = end.checked_sub(1)?;
        if at >= 2 && self.word(at - 1) == "as" {
            at -= 2;
        }
        if at >= 2 && self.word(at) == ")" && self.word(at - 1) == "(" {
            at -= 2;
        }
        self.holds_number(at)
    }

    fn holds_number(&self, at: usize) -> Option<Kind> {
        let word = self.word(at);
        if HOLDERS.contains(&word) {
            return Some(Kind::Call);
        }
        if word != FIELD {
            return None;
        }
        let owner = match at.checked_sub(2).map(|before| (self.word(before), self.word(at - 1))) {
            Some((owner, ".")) => owner,
            // `->`
            Some(("-", ">")) => self.word(at.saturating_sub(3)),
            _ => return Some(Kind::Perhaps),
        };
        (!OTHERS.contains(&owner)).then_some(Kind::Call)
    }

    /// Returns the literal that the comparison at this token compares with the number of a call, on
    /// either side.
    fn compared(&self, at: usize) -> Option<usize> {
        let is_comparison = matches!(self.word(at), "=" | "!") && self.word(at + 1) == "=";
        if !is_comparison {
            return None;
        }
        let is_it = |kind: Kind, literal: usize| {
            kind == Kind::Call || self.number(literal).is_some_and(|number| number > 0)
        };
        let right = self.ends_number(at).filter(|kind| is_it(*kind, at + 2)).map(|_| at + 2);
        let left = at.checked_sub(1).filter(|_| {
            let mut last = at + 2;
            while matches!(self.word(last + 1), "." | "-" | ">") {
                last += 1;
                last += usize::from(self.word(last) == "-") + 1;
            }
            self.holds_number(last).is_some_and(|kind| is_it(kind, at - 1))
        });
        right.filter(|at| self.number(*at).is_some()).or(left)
    }

    /// Returns the first argument of a function that makes a call.
    fn passed(&self, at: usize) -> Option<usize> {
        let function = self.word(at).trim_end_matches(|letter: char| letter.is_ascii_digit());
        let function = function.to_ascii_lowercase();
        (FUNCTIONS.contains(&function.as_str()) && self.word(at + 1) == "(").then_some(at + 2)
    }

    /// Returns the number in a value of a type that always has a call's number.
    fn built(&self, at: usize) -> Option<usize> {
        if !TYPES.contains(&self.word(at)) || self.word(at + 1) != "{" {
            return None;
        }
        let end = closing(&self.tokens, at + 1);
        let is_field = |at: &usize| self.word(*at) == FIELD && self.word(at + 1) == ":";
        (at + 2..end).find(is_field).map(|at| at + 2)
    }

    /// Returns the value of a constant with the name of a call, if it is its number.
    fn named(&self, at: usize) -> Option<usize> {
        let value = match self.word(at) {
            "const" | "static" if self.word(at + 2) == ":" && self.word(at + 4) == "=" => at + 5,
            "define" => at + 2,
            _ => return None,
        };
        let constant = self.word(at + 1).to_ascii_lowercase();
        let name = self.calls.name(self.number(value)?)?;
        PREFIXES.iter().any(|prefix| constant.strip_prefix(prefix) == Some(name)).then_some(value)
    }

    /// Returns the literals of a list that is searched elsewhere for the number of a call.
    fn listed(&self, at: usize) -> Vec<usize> {
        if self.word(at + 1) != "." || self.word(at + 2) != "contains" || self.word(at + 3) != "(" {
            return Vec::new();
        }
        let list = self.word(at);
        let end = closing(&self.tokens, at + 3);
        let is_asked = (at + 4..end).any(|at| self.holds_number(at).is_some());
        let is_list =
            |at: &usize| matches!(self.word(*at), "const" | "static") && self.word(at + 1) == list;
        let Some(start) = (0..self.tokens.len()).find(is_list).filter(|_| is_asked) else {
            return Vec::new();
        };
        let is_value = |at: &usize| self.word(*at) == "=";
        let Some(value) = (start..self.tokens.len()).find(is_value) else { return Vec::new() };
        let end = (value..self.tokens.len()).find(|at| self.word(*at) == ";");
        let is_element = |at: &usize| matches!(self.word(at - 1), "[" | ",");
        (value + 1..end.unwrap_or(value + 1)).filter(is_element).collect()
    }

    /// Returns the literals in patterns for the number of a call, in `match`, `matches!` or
    /// `switch`.
    fn matched(&self, at: usize) -> Vec<usize> {
        let (body, starts): (usize, &[&str]) = match self.word(at) {
            "match" | "switch" => {
                let open = (at..self.tokens.len()).find(|at| self.word(*at) == "{");
                (open.unwrap_or(self.tokens.len()), &["{", ",", "}", "|", "case"])
            }
            "matches" if self.word(at + 1) == "!" => {
                let comma = (at..self.tokens.len()).find(|at| self.word(*at) == ",");
                (comma.unwrap_or(self.tokens.len()), &[",", "|"])
            }
            _ => return Vec::new(),
        };
        // `switch (call->number) {`
        let asked = body - usize::from(self.word(at) == "switch");
        if self.ends_number(asked) != Some(Kind::Call) {
            return Vec::new();
        }
        let is_macro = self.word(at) == "matches";
        let end = closing(&self.tokens, if is_macro { at + 2 } else { body });
        let mut depth = 0;
        let mut literals = Vec::new();
        for at in body + 1..end {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ if depth == 0 && starts.contains(&self.word(at - 1)) => literals.push(at),
                _ => {}
            }
        }
        literals
    }
}

/// The meaning of a name's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The number of a call.
    Call,
    /// Perhaps the number of a call.
    Perhaps,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "enum {\n    NR_read = 0,\n    NR_close = 3,\n    NR_getpid = 39,\n    \
        NR_mseal = 462,\n};\n";

    fn found(text: &str, language: Language) -> Vec<String> {
        let found = raw_numbers(text, language, &Calls::of(TABLE));
        found.into_iter().map(|(line, name)| format!("{line} {name}")).collect()
    }

    fn in_rust(text: &str) -> Vec<String> {
        found(text, Language::Rust)
    }

    #[test]
    fn numbers_in_rust_are_found() {
        for text in [
            "if call.number == 39 {}",
            "if call.number() as u64 != 39 {}",
            "if 39 == call.number {}",
            "if 39 == sysno {}",
            "if nr == 0x27 {}",
            "if number == 39 {}",
            "let a = registers.orig_rax == 39u64;",
            "libc::syscall(39);",
            "raw_syscall(39, 0)",
            "raw_syscall6(39, 0)",
            "const GETPID: u16 = 39;",
            "TracedCall { result: 1, number: 39, ..call }",
            "pub(crate) const SYS_GETPID: i64 = 39;",
            "const LIST: [u16; 2] = [1000, 39];\nfn a() { LIST.contains(&call.number()) }",
            "match call.number() { 39 => 0, _ => 1 }",
            "match call.number { A => { 3 } 1000 | 39 => 0, _ => 3 }",
            "matches!(call.number, 1000 | 39)",
        ] {
            let lines = in_rust(text);
            assert!(lines.len() == 1 && lines[0].ends_with(" getpid"), "{text}: {lines:?}");
        }
        assert_eq!(in_rust("a;\ncall.number == 0\n"), ["2 read"], "a field is never without one");
    }

    #[test]
    fn numbers_in_c_are_found() {
        for text in [
            "if (call->number == 39)",
            "if (39 == call->number)",
            "if (nr != 39)",
            "syscall(39)",
            "sys3(39, a, b, c)",
            "syscall(39 /* close */)",
            "#define NR_getpid 39",
            "#define __NR_getpid 39",
            "switch (call->number) {\ncase 39:\n\treturn 3;\n}",
        ] {
            let lines = found(text, Language::C);
            assert!(lines.len() == 1 && lines[0].ends_with(" getpid"), "{text}: {lines:?}");
        }
    }

    #[test]
    fn what_has_a_name_or_is_something_else_is_not() {
        for text in [
            "if call.number == number::GETPID {}",
            "if signal.number() == 39 || number == 0 || numbers == 39 {}",
            "const ANSWER: u16 = 39; const GETPID: u16 = 40;",
            "const LIST: [u16; 1] = [39]; fn a() { LIST.contains(&bytes) }",
            "matches!(kind, 39) && call.number == GETPID",
            "StartDescriptor { number: 39 }",
            "match call.number { GETPID => 39, _ => f(3) }",
            "match count { 39 => call.number == GETPID, _ => 3 }",
            "syscall(1000)",
            "// call.number == 39\nlet a = \"nr == 39\";",
        ] {
            assert_eq!(in_rust(text), [""; 0], "{text}");
        }
        assert_eq!(found("syscall(462 /* mseal */, 0);", Language::C), [""; 0]);
        assert_eq!(
            found("switch (kind) {\ncase 39: return call->number;\n}", Language::C),
            [""; 0]
        );
    }
}
