//! Writes JSON: the figures are few and simple, and the repository's tasks need nothing but the standard library.

use std::fmt::Write;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// Finite.
    Number(f64),
    Integer(u64),
    Text(String),
    List(Vec<Json>),
    /// In the order given.
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// A number, or null.
    pub fn number(number: Option<f64>) -> Self {
        number.map_or(Self::Null, Self::Number)
    }

    /// The text of the value, indented, with a final newline.
    pub fn print(&self) -> String {
        let mut text = String::new();
        self.append(&mut text, 0);
        text.push('\n');
        text
    }

    fn append(&self, text: &mut String, depth: usize) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => {
                assert!(number.is_finite(), "JSON has no other numbers");
                append_display(text, number);
            }
            Self::Integer(number) => append_display(text, number),
            Self::Text(value) => append_text(text, value),
            Self::List(values) => {
                text.push('[');
                for (index, value) in values.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    value.append(text, depth + 1);
                }
                text.push(']');
            }
            Self::Object(fields) => {
                text.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    text.push_str(if index == 0 { "\n" } else { ",\n" });
                    text.push_str(&"  ".repeat(depth + 1));
                    append_text(text, name);
                    text.push_str(": ");
                    value.append(text, depth + 1);
                }
                text.push('\n');
                text.push_str(&"  ".repeat(depth));
                text.push('}');
            }
        }
    }
}

fn append_display(text: &mut String, value: &impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{value}");
}

fn append_text(text: &mut String, value: &str) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            letter if letter.is_control() => {
                append_display(text, &format_args!("\\u{:04x}", u32::from(letter)));
            }
            letter => text.push(letter),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed() {
        let value = Json::Object(vec![
            ("a", Json::List(vec![Json::Number(0.5), Json::Null, Json::Integer(7)])),
            ("b", Json::text("x\"\\\n")),
            ("c", Json::Bool(true)),
        ]);
        assert_eq!(value.print(), "{\n  \"a\": [0.5, null, 7],\n  \"b\": \"x\\\"\\\\\\u000a\",\n  \"c\": true\n}\n");
    }
}
