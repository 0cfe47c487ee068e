//! Checks that only two headers of the runtime read the mode and the options of a session. They
//! name what these mean, and all other code asks them.

use std::path::Path;

/// The headers with the questions.
const ASKED: [&str; 2] = ["runtime/base/capabilities.h", "runtime/order/policy.h"];

/// The fields that only they read.
const LOOKED_AT: [&str; 4] = ["HEADER->mode", "HEADER->options", "header->mode", "header->options"];

/// Returns lines, counted from 1, where a file of the runtime reads the fields itself.
pub fn direct_looks(path: &Path, text: &str) -> Vec<usize> {
    if !path.starts_with("runtime") || ASKED.iter().any(|header| path == Path::new(header)) {
        return Vec::new();
    }
    let looks = |line: &str| LOOKED_AT.iter().any(|field| line.contains(field));
    text.lines().enumerate().filter(|(_, line)| looks(line)).map(|(index, _)| index + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_headers_with_the_questions_look() {
        let text = "u32 a;\nif (HEADER->mode == MODE_TRACE)\n\tif (header->options & 1)\n";
        let lines = |path: &str| direct_looks(Path::new(path), text);
        assert_eq!(lines("runtime/calls/wait.c"), [2, 3]);
        assert_eq!(lines("runtime/order/policy.h"), [0; 0]);
        assert_eq!(lines("tests/programs/a.c"), [0; 0]);
        assert_eq!(direct_looks(Path::new("runtime/a.c"), "sink->mode = 1;\n"), [0; 0]);
    }
}
