//! Values as Python shows them, but cut where they are long.

use crate::object::{Kind, Objects, Part};
use std::fmt::Write as _;

/// The most characters of a string, items of a container, and characters of the whole text.
const MOST_CHARACTERS: u64 = 120;
const MOST_ITEMS: usize = 12;
const LONGEST: usize = 400;
/// How deep containers are shown in each other.
const DEPTH: usize = 2;
/// The most digits of an integer, to the base 2^30.
const MOST_DIGITS: u64 = 40;

impl Objects<'_> {
    /// The text of a value. It has no control characters.
    pub fn shown(self, object: u64) -> String {
        let mut text = String::new();
        if self.show(object, DEPTH, &mut text).is_none() {
            text = format!("<unreadable object at {object:#x}>");
        }
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }

    fn show(self, object: u64, depth: usize, text: &mut String) -> Option<()> {
        // Containers may contain themselves often.
        if text.len() > LONGEST {
            return Some(());
        }
        let (kind, name) = self.kind(object)?;
        match (kind, name.as_str()) {
            (Kind::Integer, "bool") => {
                let is_true = self.integer(object, 1)?.1.iter().any(|digit| *digit != 0);
                text.push_str(if is_true { "True" } else { "False" });
            }
            (Kind::Integer, _) => match self.integer(object, MOST_DIGITS) {
                Some((is_negative, digits)) => {
                    text.push_str(if is_negative { "-" } else { "" });
                    text.push_str(&decimal(digits));
                }
                None => text.push_str("<large int>"),
            },
            (Kind::Text, _) => {
                let part = self.text(object, MOST_CHARACTERS)?;
                quoted(&part, char::is_control, text);
            }
            (Kind::Bytes, _) => {
                let Part { items, count } = self.bytes(object, MOST_CHARACTERS)?;
                text.push('b');
                let items = items.into_iter().map(char::from).collect();
                let is_hidden = |sign: char| sign.is_control() || !sign.is_ascii();
                quoted(&Part { items, count }, is_hidden, text);
            }
            (Kind::List, _) => {
                let part = self.list(object, MOST_ITEMS as u64)?;
                self.show_items(&part, "[]", depth, text)?;
            }
            (Kind::Tuple, _) => {
                let part = self.tuple(object, MOST_ITEMS as u64)?;
                let is_single = part.count == 1;
                self.show_items(&part, if is_single { "(,)" } else { "()" }, depth, text)?;
            }
            (Kind::Dictionary, _) => self.show_dictionary(object, depth, text)?,
            (Kind::Other, "NoneType") => text.push_str("None"),
            (Kind::Other, "float") => text.push_str(&float(self.float(object)?)),
            (Kind::Exception, _) => {
                text.push_str(&name);
                self.show_items(&self.arguments(object)?, "()", depth, text)?;
            }
            _ => {
                let _ = write!(text, "<{name} at {object:#x}>");
            }
        }
        Some(())
    }

    /// The text of an exception that may not be made yet: then there is only what to make it with.
    pub fn raised(self, its_type: &str, value: Option<u64>) -> String {
        let mut text = its_type.to_owned();
        let kind = |value| self.kind(value).map(|(kind, name)| (kind, name == "NoneType"));
        match value.map(|value| (value, kind(value))) {
            Some((value, Some((Kind::Exception, _)))) => return self.shown(value),
            Some((value, Some((Kind::Tuple, _)))) => {
                let part = self.tuple(value, MOST_ITEMS as u64);
                let _ = part.and_then(|part| self.show_items(&part, "()", DEPTH, &mut text));
            }
            Some((value, Some((_, false)))) => {
                let _ = write!(text, "({})", self.shown(value));
            }
            _ => text.push_str("()"),
        }
        text
    }

    /// What an exception was made with.
    fn arguments(self, exception: u64) -> Option<Part<u64>> {
        const ARGUMENTS: u64 = 24;
        self.tuple(self.reader.pointer(exception, ARGUMENTS)?, MOST_ITEMS as u64)
    }

    /// The items between the first of these signs and the others.
    fn show_items(
        self,
        part: &Part<u64>,
        signs: &str,
        depth: usize,
        text: &mut String,
    ) -> Option<()> {
        let (open, close) = signs.split_at(1);
        text.push_str(open);
        if depth == 0 && part.count > 0 {
            text.push_str("...");
        } else {
            for (index, item) in part.items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                self.show(*item, depth - 1, text)?;
            }
            if part.count > part.items.len() as u64 {
                text.push_str(", ...");
            }
        }
        text.push_str(close);
        Some(())
    }

    fn show_dictionary(self, object: u64, depth: usize, text: &mut String) -> Option<()> {
        let part = self.dictionary(object, MOST_ITEMS)?;
        text.push('{');
        if depth == 0 && part.count > 0 {
            text.push_str("...");
        } else {
            for (index, (key, value)) in part.items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                self.show(*key, depth - 1, text)?;
                text.push_str(": ");
                self.show(*value, depth - 1, text)?;
            }
            if part.count > part.items.len() as u64 {
                text.push_str(", ...");
            }
        }
        text.push('}');
        Some(())
    }
}

/// The decimal text of digits to the base 2^30, the lowest first.
fn decimal(mut digits: Vec<u32>) -> String {
    const GROUP: u64 = 1_000_000_000;
    let mut groups = Vec::new();
    while digits.iter().any(|digit| *digit != 0) {
        let mut rest = 0;
        for digit in digits.iter_mut().rev() {
            let value = (rest << 30) + u64::from(*digit & 0x3fff_ffff);
            *digit = (value / GROUP) as u32;
            rest = value % GROUP;
        }
        groups.push(rest);
    }
    let Some(first) = groups.pop() else { return "0".to_owned() };
    let mut text = first.to_string();
    for group in groups.iter().rev() {
        let _ = write!(text, "{group:09}");
    }
    text
}

/// The text of a float, in Python's form.
fn float(value: f64) -> String {
    const LARGEST: i32 = 16;
    const SMALLEST: i32 = -4;
    if value.is_nan() {
        return "nan".to_owned();
    }
    let scientific = format!("{value:e}");
    let exponent = scientific
        .split_once('e')
        .and_then(|(digits, exponent)| Some((digits.to_owned(), exponent.parse::<i32>().ok()?)));
    match exponent {
        Some((digits, exponent)) if !(SMALLEST..LARGEST).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value:?}"),
    }
}

/// The characters in quotes. Those that `is_hidden` says so of are shown by their numbers.
fn quoted(part: &Part<char>, is_hidden: impl Fn(char) -> bool, text: &mut String) {
    let has = |sign| part.items.contains(&sign);
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    text.push(quote);
    for &character in &part.items {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if character == quote => text.extend(['\\', quote]),
            _ if is_hidden(character) => {
                let _ = write!(text, "\\x{:02x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push(quote);
    if part.count > part.items.len() as u64 {
        text.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_python_does() {
        let integers: [(&[u32], &str); 5] = [
            (&[], "0"),
            (&[7], "7"),
            (&[0, 1], "1073741824"),
            (&[0, 0, 0, 1], "1237940039285380274899124224"),
            (&[0xffff_ffff; 2], "1152921504606846975"),
        ];
        for (digits, expected) in integers {
            assert_eq!(decimal(digits.to_vec()), expected);
        }
        let floats = [
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (1e16, "1e+16"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (0.0, "0.0"),
        ];
        for (value, expected) in floats {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn strings_are_quoted_as_python_does() {
        let cases = [
            ("a", 1, "'a'"),
            ("it's", 4, "\"it's\""),
            ("'\"", 2, "'\\'\"'"),
            ("a\n\u{1b}\\", 9, "'a\\n\\x1b\\\\'..."),
        ];
        for (characters, count, expected) in cases {
            let mut text = String::new();
            let part = Part { items: characters.chars().collect(), count };
            quoted(&part, char::is_control, &mut text);
            assert_eq!(text, expected);
        }
    }
}
