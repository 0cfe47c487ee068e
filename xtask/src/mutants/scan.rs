//! Finds the places of a source file that can be mutated: operators, constants and statements. Each
//! comes with its replacement.

use super::mask;
use super::mutation::{Kind, Mutation};
use xtask::quoted::{Language, is_name_byte};

/// Operators between blanks, with their replacements and kinds.
const OPERATORS: [(&str, &str, Kind); 12] = [
    ("==", "!=", Kind::Comparison),
    ("!=", "==", Kind::Comparison),
    ("<", ">=", Kind::Comparison),
    (">=", "<", Kind::Comparison),
    (">", "<=", Kind::Comparison),
    ("<=", ">", Kind::Comparison),
    ("<", "<=", Kind::Boundary),
    ("<=", "<", Kind::Boundary),
    (">", ">=", Kind::Boundary),
    (">=", ">", Kind::Boundary),
    ("&&", "||", Kind::Logic),
    ("||", "&&", Kind::Logic),
];

/// Statements that return a truth value, with the opposite. In C both numbers and words are truth
/// values.
const ANSWERS: [(&str, &str); 4] = [
    ("return true;", "return false;"),
    ("return false;", "return true;"),
    ("return 0;", "return 1;"),
    ("return 1;", "return 0;"),
];

/// The ends of names of constants that are lengths.
const LENGTHS: [&str; 5] = ["BYTES", "SIZE", "LENGTH", "WORDS", "STRIDE"];

/// Words in the names of constants that are limits. A limit may be one more or less.
const LIMITS: [&str; 8] =
    ["MAX", "MAXIMUM", "MOST", "LEAST", "LARGEST", "SMALLEST", "PLENTY", "ABOVE"];

/// Words of lines that compare times. Tests cannot make two times equal, so the boundary of such a
/// comparison cannot be tested.
const TIMES: [&str; 5] = ["elapsed", "now_ns", "_ns ", "deadline", "Instant"];

/// Words at the beginning of lines that are not calls.
const NO_CALLS: [&str; 9] =
    ["return", "if", "while", "for", "switch", "sizeof", "match", "loop", "goto"];

/// Returns all mutations of a file that the scanner knows, in the order of their places.
pub fn scan(file: &str, text: &str, language: Language) -> Vec<Mutation> {
    let mask = mask::mask(text, language);
    let mut found = Vec::new();
    let mut previous = b';';
    let mut start = 0;
    for line in mask.split_inclusive(|&byte| byte == b'\n') {
        let place = Line { mask: line, previous, language };
        let changes = place.changes();
        found.extend(changes.into_iter().map(|change| {
            Mutation::at(file, text, start + change.at, change.bytes, &change.new, change.kind)
        }));
        previous =
            line.iter().rev().copied().find(|byte| !byte.is_ascii_whitespace()).unwrap_or(previous);
        start += line.len();
    }
    found
}

/// A change within a line.
struct Change {
    at: usize,
    bytes: usize,
    new: String,
    kind: Kind,
}

struct Line<'text> {
    mask: &'text [u8],
    /// The last byte before the line that is not blank.
    previous: u8,
    language: Language,
}

impl Line<'_> {
    fn changes(&self) -> Vec<Change> {
        let mut changes = self.operators();
        changes.extend(self.steps());
        changes.extend(self.answer());
        changes.extend(self.length());
        changes.extend(self.call());
        changes.sort_by_key(|change| change.at);
        changes
    }

    /// Returns the words between blanks.
    fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut at = 0;
        self.mask.split(u8::is_ascii_whitespace).filter_map(move |word| {
            let place = at;
            at += word.len() + 1;
            Some((place, std::str::from_utf8(word).ok()?)).filter(|(_, word)| !word.is_empty())
        })
    }

    fn operators(&self) -> Vec<Change> {
        let is_of_times = TIMES.iter().any(|word| find(self.mask, word).is_some());
        let known = |(at, word): (usize, &str)| {
            let is_operator = !(word == "||" && self.is_closure(at));
            let may_change =
                move |kind: Kind| is_operator && !(kind == Kind::Boundary && is_of_times);
            let chosen = OPERATORS
                .into_iter()
                .filter(move |(old, _, kind)| *old == word && may_change(*kind));
            chosen
                .map(move |(old, new, kind)| Change {
                    at,
                    bytes: old.len(),
                    new: new.to_owned(),
                    kind,
                })
                .collect::<Vec<_>>()
        };
        self.words().flat_map(known).collect()
    }

    /// Returns whether `||` begins a closure without parameters, as in `move || f()` or
    /// `let f = || g()`.
    fn is_closure(&self, at: usize) -> bool {
        let before = self.mask[..at].trim_ascii_end();
        self.language == Language::Rust
            && (before.ends_with(b"move") || before.ends_with(b"=") || before.ends_with(b"("))
    }

    /// Drops `+ 1` and `- 1`, and increases other numbers that are added or subtracted.
    fn steps(&self) -> Vec<Change> {
        let words: Vec<(usize, &str)> = self.words().collect();
        let step = |pair: &[(usize, &str)]| {
            let [(at, "+" | "-"), (number_at, number)] = *pair else { return None };
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            let follows = number[digits.len()..].chars().next();
            let value: u64 = digits.parse().ok().filter(|_| {
                !follows.is_some_and(|next| next.is_ascii_alphanumeric() || "._*/[".contains(next))
            })?;
            // Before it comes a value. Otherwise the sign is not an operator with two sides.
            let before = self.mask[..at].trim_ascii_end().last().copied().unwrap_or(b' ');
            if !is_name_byte(before) && before != b')' && before != b']' {
                return None;
            }
            let one_more = || Change {
                at: number_at,
                bytes: digits.len(),
                new: (value + 1).to_string(),
                kind: Kind::Length,
            };
            let blank_before = at - self.mask[..at].trim_ascii_end().len();
            let dropped = || Change {
                at: at - blank_before,
                bytes: number_at + 1 + blank_before - at,
                new: String::new(),
                kind: Kind::Step,
            };
            Some(if value == 1 { dropped() } else { one_more() })
        };
        words.windows(2).filter_map(step).collect()
    }

    fn answer(&self) -> Option<Change> {
        let (at, old, new) =
            ANSWERS.iter().find_map(|(old, new)| Some((find(self.mask, old)?, old, new)))?;
        let is_word = at == 0 || !is_name_byte(self.mask[at - 1]);
        is_word.then(|| Change { at, bytes: old.len(), new: (*new).to_owned(), kind: Kind::Answer })
    }

    /// Increases lengths: `#define A_BYTES 24`, `const A_BYTES: usize = 24;`
    fn length(&self) -> Option<Change> {
        let line = std::str::from_utf8(self.mask).ok()?;
        let (name, value) = match self.language {
            Language::C => line.strip_prefix("#define ")?.split_once(' ')?,
            Language::Rust => line.split_once("const ")?.1.split_once(" = ")?,
        };
        let name = name
            .split(':')
            .next()
            .filter(|name| !name.split('_').any(|word| LIMITS.contains(&word)))?;
        let value = value.trim_end().trim_end_matches(';').trim_end();
        if value.is_empty()
            || !LENGTHS.iter().any(|length| name.ends_with(length))
            || !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_ ()<*".contains(&byte))
        {
            return None;
        }
        let at = value.as_ptr() as usize - line.as_ptr() as usize;
        Some(Change { at, bytes: value.len(), new: format!("(({value}) + 1)"), kind: Kind::Length })
    }

    /// Drops a statement that is only a call: `a->b(c);`, `self.a.b(c)?;`
    fn call(&self) -> Option<Change> {
        let statement = self.mask.trim_ascii();
        let at = self.mask.len() - self.mask.trim_ascii_start().len();
        let name_bytes = statement
            .iter()
            .take_while(|&&byte| is_name_byte(byte) || b".:->[]?&*".contains(&byte))
            .count();
        let begins = statement.first().is_some_and(|&byte| is_name_byte(byte))
            && statement.get(name_bytes) == Some(&b'(');
        let name = std::str::from_utf8(&statement[..name_bytes]).ok()?;
        let ends = statement.strip_suffix(b";").map(|rest| rest.strip_suffix(b"?").unwrap_or(rest));
        // Lines of a longer expression are left alone.
        let is_whole = matches!(self.previous, b';' | b'{' | b'}' | b')' | b'e') && at > 0;
        if !begins
            || !is_whole
            || NO_CALLS.contains(&name)
            || !ends.is_some_and(|ends| is_chain(&ends[name_bytes..]))
        {
            return None;
        }
        let new = if self.language == Language::C { ";" } else { "();" };
        Some(Change { at, bytes: statement.len(), new: new.to_owned(), kind: Kind::Call })
    }
}

/// Returns whether the text is a list of arguments, and perhaps calls of methods on the result.
fn is_chain(text: &[u8]) -> bool {
    let end = mask::end_of_brackets(text, 0);
    let rest = &text[end..];
    let name =
        rest.iter().take_while(|&&byte| is_name_byte(byte) || b".?:".contains(&byte)).count();
    text.first() == Some(&b'(')
        && text[end - 1] == b')'
        && (rest.is_empty() || b".?".contains(&rest[0]) && is_chain(&rest[name..]))
}

fn find(text: &[u8], part: &str) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every line that a text may become.
    fn becomes(text: &str, language: Language) -> Vec<String> {
        scan("file", text, language).iter().map(|mutation| mutation.becomes.clone()).collect()
    }

    #[test]
    fn operators_stand_between_blanks() {
        assert_eq!(
            becomes("if (a == b && c->d)", Language::C),
            ["if (a != b && c->d)", "if (a == b || c->d)"]
        );
        assert_eq!(becomes("a < b", Language::Rust), ["a >= b", "a <= b"]);
        assert_eq!(becomes("a.elapsed() < b", Language::Rust), ["a.elapsed() >= b"]);
        assert!(
            becomes(
                "let a: Vec<u8> = b.map(|| c); let d = move || e; f = || g; h << 3",
                Language::Rust
            )
            .is_empty()
        );
        assert!(becomes("a // b == c\n\" d == e \"", Language::C).is_empty());
    }

    #[test]
    fn numbers_are_off_by_one() {
        assert_eq!(
            becomes("a = b + 1;\nc[d - 1]\ne + 16)", Language::C),
            ["a = b;", "c[d]", "e + 17)"]
        );
        assert!(becomes("a + 1.5, b + 1 * c, (- 1)", Language::C).len() == 1);
        assert_eq!(
            becomes("#define A_BYTES 24 // b", Language::C),
            ["#define A_BYTES ((24) + 1) // b"]
        );
        assert_eq!(
            becomes("pub const A_BYTES: usize = 3 * 8;", Language::Rust),
            ["pub const A_BYTES: usize = ((3 * 8) + 1);"]
        );
        assert!(becomes("const MOST_BYTES: u64 = 9;", Language::Rust).is_empty());
        assert!(
            becomes("#define A 24\nconst B: u8 = 1;\n#define C_BYTES(d) (d)", Language::C)
                .is_empty()
        );
    }

    #[test]
    fn statements_are_deleted_and_answers_swapped() {
        assert_eq!(
            becomes("{\n\ta->b(c, d(e));\n\tif (f)\n\t\tg(h);\n}", Language::C),
            ["\t;", "\t\t;"]
        );
        assert_eq!(
            becomes(
                "{\n  self.a(b)?.c(d);\n  return e(f);\n  let g = h(i);\n  j(k)\n}",
                Language::Rust
            ),
            ["  ();"]
        );
        assert!(becomes("a = b +\n  c(d);\ne(f);\n  g!(h);\n  i(j).k;", Language::Rust).is_empty());
        assert_eq!(
            becomes(" return 0;\n return true;", Language::C),
            [" return 1;", " return false;"]
        );
        assert!(becomes("return 10;", Language::C).is_empty());
    }
}
