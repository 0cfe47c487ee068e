//! The output of gdb's machine interface, version 3: one record a line.
//!
//! The parser is our own, because a library for this would also run gdb in its own way. Values are
//! those of serde_json, so that there is only one kind of them.

use serde_json::{Map, Value};
use std::fmt::Write;

/// The deepest nesting.
const MOST_DEPTH: usize = 200;

/// A line of gdb's output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// The answer to the command with this token: `done`, `running`, `error`, `exit`.
    Result { token: Option<u64>, class: String, results: Value },
    /// An event of the program: `stopped`, `running`.
    Exec { class: String, results: Value },
    /// Output of a command.
    Console(String),
    /// Output of the program.
    Target(String),
    /// Anything else.
    Other,
}

impl Record {
    /// Parses a line.
    pub fn parse(line: &str) -> Self {
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let token = line[..digits].parse().ok();
        let mut chars = line[digits..].chars();
        let Some(kind) = chars.next() else { return Self::Other };
        let rest = chars.as_str();
        match kind {
            '^' => {
                let (class, results) = class_and_results(rest);
                Self::Result { token, class, results }
            }
            '*' => {
                let (class, results) = class_and_results(rest);
                Self::Exec { class, results }
            }
            '~' => Self::Console(Parser::new(rest).string().unwrap_or_default()),
            '@' => Self::Target(Parser::new(rest).string().unwrap_or_default()),
            _ => Self::Other,
        }
    }
}

fn class_and_results(text: &str) -> (String, Value) {
    let (class, rest) = text.split_once(',').unwrap_or((text, ""));
    let results = Parser::new(rest).results(None, 0).unwrap_or_default();
    (class.trim_end().to_owned(), Value::Object(results))
}

/// A string, quoted for a command of gdb.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // Writing to a string cannot fail.
            _ if character.is_ascii_control() => {
                let _ = write!(quoted, "\\{:03o}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// A member of a value as text; empty if it is missing.
pub(crate) fn text<'value>(value: &'value Value, name: &str) -> &'value str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A member of a value as a number.
pub(crate) fn number(value: &Value, name: &str) -> Option<i64> {
    text(value, name).parse().ok()
}

/// The elements of a member.
pub(crate) fn list<'value>(value: &'value Value, name: &str) -> &'value [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

struct Parser<'text> {
    rest: &'text str,
}

impl<'text> Parser<'text> {
    fn new(rest: &'text str) -> Self {
        Self { rest }
    }

    fn take(&mut self, character: char) -> bool {
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// `name=value,name=value`, up to `end`.
    fn results(&mut self, end: Option<char>, depth: usize) -> Option<Map<String, Value>> {
        let mut results = Map::new();
        loop {
            if end.is_some_and(|end| self.take(end)) || self.rest.is_empty() {
                return Some(results);
            }
            let name = self.name()?;
            let value = self.value(depth)?;
            results.insert(name, value);
            self.take(',');
        }
    }

    fn name(&mut self) -> Option<String> {
        let (name, rest) = self.rest.split_once('=')?;
        self.rest = rest;
        Some(name.to_owned())
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MOST_DEPTH {
            return None;
        }
        match self.rest.chars().next()? {
            '"' => self.string().map(Value::String),
            '{' => {
                self.take('{');
                self.results(Some('}'), depth + 1).map(Value::Object)
            }
            '[' => {
                self.take('[');
                self.elements(depth + 1).map(Value::Array)
            }
            _ => None,
        }
    }

    /// Parses values, or results, whose names are all alike and are dropped.
    fn elements(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut elements = Vec::new();
        while !self.take(']') {
            if !self.rest.starts_with(['"', '{', '[']) {
                self.name()?;
            }
            elements.push(self.value(depth)?);
            self.take(',');
        }
        Some(elements)
    }

    fn string(&mut self) -> Option<String> {
        if !self.take('"') {
            return None;
        }
        let mut bytes = Vec::new();
        let all = self.rest.as_bytes();
        let mut at = 0;
        loop {
            match *all.get(at)? {
                b'"' => break,
                b'\\' => {
                    let (byte, length) = escape(&all[at + 1..])?;
                    bytes.push(byte);
                    at += 1 + length;
                }
                byte => {
                    bytes.push(byte);
                    at += 1;
                }
            }
        }
        self.rest = &self.rest[at + 1..];
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Decodes the part of a string after a backslash: the byte, and the number of bytes read.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    const OCTAL_DIGITS: usize = 3;
    let digits =
        bytes.iter().take(OCTAL_DIGITS).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    if digits > 0 {
        let value =
            bytes[..digits].iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
        return Some((value as u8, digits));
    }
    let byte = match *bytes.first()? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        b'e' => 27,
        other => other,
    };
    Some((byte, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_are_read() {
        let line = r#"12^done,stack=[frame={level="0",func="f",args=[]},frame={level="1"}],names=["a","b\"\n\303\274"],empty={}"#;
        let results = json!({"stack": [{"level": "0", "func": "f", "args": []}, {"level": "1"}],
            "names": ["a", "b\"\nü"], "empty": {}});
        assert_eq!(
            Record::parse(line),
            Record::Result { token: Some(12), class: "done".into(), results }
        );
        let stopped = Record::parse(r#"*stopped,reason="end-stepping-range",thread-id="1""#);
        assert_eq!(
            stopped,
            Record::Exec {
                class: "stopped".into(),
                results: json!({"reason": "end-stepping-range", "thread-id": "1"})
            }
        );
        assert_eq!(Record::parse(r#"~"text\n""#), Record::Console("text\n".into()));
        assert_eq!(Record::parse(r#"@"out""#), Record::Target("out".into()));
        assert_eq!(
            Record::parse("^running"),
            Record::Result { token: None, class: "running".into(), results: json!({}) }
        );
        assert_eq!(Record::parse("(gdb) "), Record::Other);
    }

    #[test]
    fn nonsense_is_borne() {
        for line in [
            "",
            "5",
            "^",
            "^done,",
            "^done,a",
            "^done,a=",
            "^done,a=[",
            "^done,a={b=\"",
            "~",
            "~\"\\",
            "*stopped,=[,]",
        ] {
            Record::parse(line);
        }
        Record::parse(&format!("^done,a={}", "[".repeat(100_000)));
        assert_eq!(quoted("a\"b\\\n\x01"), r#""a\"b\\\n\001""#);
    }
}
