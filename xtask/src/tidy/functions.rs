//! Finds functions that are too long. The sources are formatted, so a function ends at a closing
//! brace with the indentation of its beginning.

use crate::quoted::Language;

/// The most lines of a function, from its first to the closing brace.
pub const MOST_LINES: usize = 70;

/// Returns the long functions: the number of the first line, counted from 1, and the length.
pub fn long_functions(text: &str, language: Language) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &&str| match language {
        Language::Rust => is_rust_function(line),
        Language::C => **line == *"{",
    };
    let starts = lines.iter().enumerate().filter(|(_, line)| begins(line));
    let long = starts.filter_map(|(start, line)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = |line: &&str| line.strip_prefix(indent) == Some("}");
        let is_declared = line.ends_with(';') || line.ends_with('}');
        let length = 1 + lines[start..].iter().position(ends).filter(|_| !is_declared)?;
        (length > MOST_LINES).then_some((start + 1, length))
    });
    long.collect()
}

pub(super) fn is_rust_function(line: &str) -> bool {
    const BEFORE: [&str; 6] = ["pub", "const", "unsafe", "extern", "async", "\"C\""];
    let mut words = line.split_whitespace();
    let first = words.find(|word| !BEFORE.contains(word) && !word.starts_with("pub("));
    first == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(head: &str, lines: usize) -> String {
        let indent = &head[..head.len() - head.trim_start().len()];
        let body = format!("{indent}    a();\n").repeat(lines - 2);
        format!("{head}\n{body}{indent}}}\n")
    }

    #[test]
    fn seventy_lines_are_the_most() {
        for head in
            ["fn a() {", "    pub(crate) const fn a() {", "pub unsafe extern \"C\" fn a() {"]
        {
            assert!(long_functions(&function(head, 70), Language::Rust).is_empty());
            assert_eq!(long_functions(&function(head, 71), Language::Rust), [(1, 71)], "{head}");
        }
        let c =
            |lines| long_functions(&format!("void a(void)\n{}", function("{", lines)), Language::C);
        assert!(c(70).is_empty());
        assert_eq!(c(71), [(2, 71)]);
    }

    #[test]
    fn other_things_may_be_long() {
        assert!(long_functions(&function("mod tests {", 100), Language::Rust).is_empty());
        let declared = format!("    fn a();\n{}", function("mod b {", 100));
        assert!(long_functions(&declared, Language::Rust).is_empty());
    }
}
