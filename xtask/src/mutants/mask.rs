//! Masks the parts of a source file that may not be mutated: comments, strings, attributes,
//! assertions, messages and tests.
//!
//! The mask of a text is as long as the text, with a blank for each byte that is not code of the
//! product. So positions in one are positions in the other. Of the grammar, only matching brackets
//! are understood.

use xtask::quoted::{Language, is_name_byte, is_word, quoted};

/// Code that only checks or prints. A changed assertion or message is not a fault of the product.
const TOLD: [&str; 21] = [
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "debug_assert!",
    "debug_assert_eq!",
    "debug_assert_ne!",
    "format!",
    "format_args!",
    "write!",
    "writeln!",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "panic!",
    "unreachable!",
    "concat!",
    "_Static_assert",
    "__asm__",
    "asm",
    "__attribute__",
];

/// The beginnings of blocks that are left out to their end.
const LEFT_OUT_BLOCKS: [&str; 3] = ["fmt::Display for", "fmt::Debug for", "const _: () ="];

/// Returns the mask of a text.
pub fn mask(text: &str, language: Language) -> Vec<u8> {
    let mut mask = blank_quoted(text.as_bytes(), language);
    match language {
        Language::C => blank_directives(&mut mask),
        Language::Rust => blank_tests(&mut mask),
    }
    for word in TOLD {
        for start in places(&mask, word) {
            let open = start + word.len();
            let open = open
                + mask[open..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_whitespace() || byte.is_ascii_lowercase())
                    .count();
            if mask.get(open) == Some(&b'(') {
                let end = end_of_brackets(&mask, open);
                blank(&mut mask, start, end);
            }
        }
    }
    for words in LEFT_OUT_BLOCKS {
        for start in places(&mask, words) {
            let end = end_of_item(&mask, start);
            blank(&mut mask, start, end);
        }
    }
    mask
}

/// Replaces comments, strings and characters with blanks.
fn blank_quoted(text: &[u8], language: Language) -> Vec<u8> {
    let mut mask = text.to_vec();
    for (bytes, _) in quoted(text, language) {
        blank(&mut mask, bytes.start, bytes.end);
    }
    mask
}

/// Blanks preprocessor directives, but not the text of definitions.
fn blank_directives(mask: &mut [u8]) {
    let mut at = 0;
    while at < mask.len() {
        let line = &mask[at..];
        let mut end = line.iter().position(|&byte| byte == b'\n').map_or(line.len(), |end| end + 1);
        if line.starts_with(b"#") && !line.starts_with(b"#define") {
            while mask[at..at + end].ends_with(b"\\\n") {
                let more = &mask[at + end..];
                end +=
                    more.iter().position(|&byte| byte == b'\n').map_or(more.len(), |end| end + 1);
            }
            blank(mask, at, at + end);
        }
        at += end;
    }
}

/// Blanks attributes, and items that exist only in tests.
fn blank_tests(mask: &mut [u8]) {
    for start in places(mask, "#[cfg(test)]") {
        let end = end_of_item(mask, start + "#[cfg(test)]".len());
        blank(mask, start, end);
    }
    for start in places(mask, "#[").into_iter().chain(places(mask, "#![")) {
        let open = start + mask[start..].iter().position(|&byte| byte == b'[').unwrap_or(0);
        let end = end_of_brackets(mask, open);
        blank(mask, start, end);
    }
}

/// Returns the positions of a word, where it is not part of a longer one.
fn places(mask: &[u8], word: &str) -> Vec<usize> {
    let word = word.as_bytes();
    let found = mask
        .windows(word.len())
        .enumerate()
        .filter(|(_, window)| *window == word)
        .map(|(at, _)| at);
    found.filter(|&at| !is_name_byte(word[0]) || !is_word(mask, at)).collect()
}

/// Returns the position after the bracket that closes the one at `open`.
pub fn end_of_brackets(mask: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in mask.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    mask.len()
}

/// Returns the position after the block or semicolon that ends the item which begins here.
fn end_of_item(mask: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < mask.len() {
        match mask[at] {
            b';' => return at + 1,
            b'{' => return end_of_brackets(mask, at),
            b'(' | b'[' => at = end_of_brackets(mask, at),
            _ => at += 1,
        }
    }
    mask.len()
}

/// Replaces bytes with blanks. Line ends stay.
fn blank(mask: &mut [u8], start: usize, end: usize) {
    let end = end.min(mask.len());
    if start < end {
        mask[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str, language: Language) -> String {
        let mask = mask(text, language);
        assert_eq!(mask.len(), text.len());
        String::from_utf8(mask).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_blank() {
        for language in [Language::C, Language::Rust] {
            assert_eq!(masked("a(); // b == c\nd /* e\n== f */ g", language), "a(); d g");
            assert_eq!(
                masked("a(\"b \\\" == c\", 'd', '\\'', '\"') == e", language),
                "a( , , , ) == e"
            );
        }
        assert_eq!(masked("a /* b /* c */ d */ e", Language::Rust), "a e");
        assert_eq!(
            masked("let a: &'static str = r#\"b \" c\"#; d.r#type", Language::Rust),
            "let a: &'static str = ; d.r#type"
        );
        assert_eq!(
            masked("fn f<'a>(c: char) { c == 'a' || c == '\u{e9}' }", Language::Rust),
            "fn f<'a>(c: char) { c == || c == }"
        );
    }

    #[test]
    fn only_the_product_is_left() {
        assert_eq!(
            masked(
                "#include <a.h>\n#define A 1\n#if B == \\\n 2\n_Static_assert(a == b, \"c\");\nd",
                Language::C
            ),
            "#define A 1 ; d"
        );
        assert_eq!(masked("a; __asm__ volatile(\"b\" : \"=r\"(c == d)); e", Language::C), "a; ; e");
        let rust = "#[derive(A)]\na;\n#[cfg(test)]\nmod tests { b == c }\nassert!(d == e, \"{}\", \
        f);\ng(format!(\"{}\", h == i))";
        assert_eq!(masked(rust, Language::Rust), "a; ; g( )");
        assert_eq!(
            masked("impl fmt::Display for A { b } c; #[cfg(test)] use d; e", Language::Rust),
            "impl c; e"
        );
        assert_eq!(masked("my_assert!(a == b)", Language::Rust), "my_assert!(a == b)");
    }
}
