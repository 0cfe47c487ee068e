//! Splits code into words and signs, for rules that look at more than lines.

use crate::quoted::{Language, is_name_byte, quoted};

/// A name, a number or a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'text> {
    /// The position of its first byte.
    pub at: usize,
    pub text: &'text str,
}

impl Token<'_> {
    /// Returns its value, if it is an integer.
    pub fn number(&self) -> Option<u64> {
        let text = self.text.replace('_', "");
        let text = text.strip_suffix("UL").or(text.strip_suffix('L')).unwrap_or(&text);
        let kinds = ["u16", "u32", "u64", "usize", "i16", "i32", "i64", "isize"];
        let text = kinds.iter().find_map(|kind| text.strip_suffix(kind)).unwrap_or(text);
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

/// Returns the tokens of a text, without comments and strings. Signs are one byte each.
pub fn tokens(text: &str, language: Language) -> Vec<Token<'_>> {
    let mut quoted = quoted(text.as_bytes(), language).into_iter().map(|(range, _)| range);
    let mut next = quoted.next();
    let mut tokens = Vec::new();
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if let Some(range) = next.clone().filter(|range| range.start <= at) {
            at = range.end.max(at);
            next = quoted.next();
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| is_name_byte(**byte)).count();
        if length > 0 || bytes[at].is_ascii_punctuation() {
            let end = at + length.max(1);
            tokens.push(Token { at, text: &text[at..end] });
            at = end;
        } else {
            at += 1;
        }
    }
    tokens
}

/// Returns the position of the bracket that closes the one at `open`, or the end.
pub fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}
