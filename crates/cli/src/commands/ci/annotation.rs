//! Annotations in the form that GitHub reads from the output of a step.

/// A line of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path of the file.
    pub file: String,
    /// The number of the line.
    pub line: u32,
}

/// The annotation, such as `::error file=queue.c,line=7,title=retake::...`. It is a warning if
/// another attempt follows.
pub fn line(is_final: bool, place: Option<&Place>, message: &str) -> String {
    let kind = if is_final { "error" } else { "warning" };
    let at = place.map_or_else(String::new, |Place { file, line }| {
        format!("file={},line={line},", escaped(file, true))
    });
    format!("::{kind} {at}title=retake::{}", escaped(message, false))
}

/// The text with hexadecimal escapes for characters that would end the line or a property.
fn escaped(text: &str, is_property: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '%' => escaped += "%25",
            '\r' => escaped += "%0D",
            '\n' => escaped += "%0A",
            ':' if is_property => escaped += "%3A",
            ',' if is_property => escaped += "%2C",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_one_line() {
        let place = Place { file: "a,b.c".to_owned(), line: 7 };
        assert_eq!(
            line(true, Some(&place), "50% failed\nx: y"),
            "::error file=a%2Cb.c,line=7,title=retake::50%25 failed%0Ax: y"
        );
        assert_eq!(line(false, None, "m"), "::warning title=retake::m");
    }
}
