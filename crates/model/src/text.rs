//! Quoted strings, and options that limit how much is shown.

/// How texts are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextOptions {
    /// The most bytes shown of a string or buffer; the rest becomes `...`.
    pub string_bytes: usize,
    /// The most elements shown of an array; the rest becomes `...`.
    pub element_count: usize,
    /// Which strings are shown in hexadecimal, as in `\x41`.
    pub hexadecimal: Hexadecimal,
    /// Whether all fields of structures and all elements and strings of lists are shown.
    pub unabbreviated: bool,
    /// Whether the environment of an executed program, which may have secrets, is shown instead of
    /// its size.
    pub environment: bool,
    /// The offset of local time from UTC in seconds, for dates.
    pub utc_offset_s: i32,
}

/// Which strings are shown in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hexadecimal {
    /// None.
    #[default]
    Never,
    /// Strings with bytes that are not ASCII text.
    Binary,
    /// All strings.
    Always,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            string_bytes: 32,
            element_count: 16,
            hexadecimal: Hexadecimal::Never,
            unabbreviated: false,
            environment: false,
            utc_offset_s: 0,
        }
    }
}

/// Quotes bytes with the escapes of C. `total` is their number in the program; if not all are
/// shown, `...` follows the closing quote.
pub fn quote(bytes: &[u8], total: usize, options: &TextOptions) -> String {
    let shown = &bytes[..bytes.len().min(options.string_bytes)];
    let mut text = String::with_capacity(shown.len() + 2);
    text.push('"');
    if options.hexadecimal == Hexadecimal::Always
        || options.hexadecimal == Hexadecimal::Binary && !is_text(shown)
    {
        shown.iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        return closed(text, total > shown.len());
    }
    for (index, byte) in shown.iter().enumerate() {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x0b => text.push_str("\\v"),
            0x0c => text.push_str("\\f"),
            b' '..=b'~' => text.push(char::from(*byte)),
            // A following octal digit would be read as part of a shorter escape.
            _ if shown.get(index + 1).is_some_and(u8::is_ascii_digit) => {
                text.push_str(&format!("\\{byte:03o}"))
            }
            _ => text.push_str(&format!("\\{byte:o}")),
        }
    }
    closed(text, total > shown.len())
}

fn closed(mut text: String, goes_on: bool) -> String {
    text.push_str(if goes_on { "\"..." } else { "\"" });
    text
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'..=b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        let options = TextOptions { string_bytes: 8, element_count: 4, ..TextOptions::default() };
        let cases: [(&[u8], usize, &str); 6] = [
            (b"", 0, "\"\""),
            (b"abc", 3, "\"abc\""),
            (b"a\"\\\n\t\0", 6, "\"a\\\"\\\\\\n\\t\\0\""),
            (b"\x7fELF\x021", 6, "\"\\177ELF\\0021\""),
            (b"123456789", 9, "\"12345678\"..."),
            (b"abc", 100, "\"abc\"..."),
        ];
        for (bytes, total, text) in cases {
            assert_eq!(quote(bytes, total, &options), text);
        }
        let hexadecimal = |hexadecimal| TextOptions { hexadecimal, ..options.clone() };
        assert_eq!(quote(b"a\n", 2, &hexadecimal(Hexadecimal::Binary)), r#""a\n""#);
        assert_eq!(quote(b"a\0", 9, &hexadecimal(Hexadecimal::Binary)), r#""\x61\x00"..."#);
        assert_eq!(quote(b"a\n", 2, &hexadecimal(Hexadecimal::Always)), r#""\x61\x0a""#);
    }
}
