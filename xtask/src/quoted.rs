//! Finds comments, strings and characters in sources: a small lexer for both languages.

use std::ops::Range;

/// The language of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Rust,
}

impl Language {
    /// Returns the language for the ending of a file's name.
    pub fn of(path: &str) -> Option<Self> {
        match path.rsplit_once('.')?.1 {
            "c" | "h" => Some(Self::C),
            "rs" => Some(Self::Rust),
            _ => None,
        }
    }
}

/// A part of a text that is not code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoted {
    Comment,
    /// A string or a character.
    Text,
    /// A string without escapes.
    Raw,
}

/// Returns all such parts, in order.
pub fn quoted(text: &[u8], language: Language) -> Vec<(Range<usize>, Quoted)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (bytes, kind) = match rest {
            [b'/', b'/', ..] => (line_bytes(rest), Quoted::Comment),
            [b'/', b'*', ..] => (comment_bytes(rest), Quoted::Comment),
            [b'"', ..] => (string_bytes(rest), Quoted::Text),
            [b'r', b'"' | b'#', ..] if language == Language::Rust && !is_part(text, at) => {
                (raw_string_bytes(rest), Quoted::Raw)
            }
            [b'\'', ..] => (character_bytes(rest, language), Quoted::Text),
            _ => (0, Quoted::Text),
        };
        let end = (at + bytes).min(text.len());
        if bytes > 0 {
            found.push((at..end, kind));
        }
        at = end.max(at + 1);
    }
    found
}

/// Returns whether an `r` is the last letter of a name. The one in `br"..."` is not.
fn is_part(text: &[u8], at: usize) -> bool {
    let start = if at > 0 && text[at - 1] == b'b' { at - 1 } else { at };
    is_word(text, start)
}

fn line_bytes(text: &[u8]) -> usize {
    text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len())
}

/// Returns whether the byte before belongs to a name.
pub fn is_word(text: &[u8], at: usize) -> bool {
    at > 0 && is_name_byte(text[at - 1])
}

pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the length of a comment. Comments nest in Rust, and no C comment looks nested.
fn comment_bytes(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_bytes(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Returns the length of `r"..."` or `r#"..."#`. Zero for a raw name (`r#type`).
fn raw_string_bytes(text: &[u8]) -> usize {
    let hashes = text[1..].iter().take_while(|&&byte| byte == b'#').count();
    if text.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let ending: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = 2 + hashes;
    let found = text[body..].windows(ending.len()).position(|window| window == ending);
    found.map_or(text.len(), |found| body + found + ending.len())
}

/// Returns the length of a character. A lifetime is not one.
fn character_bytes(text: &[u8], language: Language) -> usize {
    let is_lifetime = language == Language::Rust
        && text.get(1).is_some_and(|&byte| is_name_byte(byte))
        && text.get(2) != Some(&b'\'');
    if is_lifetime {
        return 0;
    }
    let mut at = 1;
    while at < text.len() && text[at] != b'\'' && text[at] != b'\n' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_strings_may_be_of_bytes() {
        let text = b"br#\"a\"b\"#; var\"c\"";
        let all = quoted(text, Language::Rust);
        assert_eq!(all, [(1..9, Quoted::Raw), (14..17, Quoted::Text)]);
    }
}
