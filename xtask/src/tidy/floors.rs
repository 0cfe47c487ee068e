//! Finds files of the runtime that include a header of a higher floor.
//! `crates/supervisor/tests/floors.rs` compares calls, in the object files.

use std::path::Path;

/// The floors of the runtime, from the top.
pub const FLOORS: [(&str, &str); 8] = [
    ("entry", "where the program comes in and goes out"),
    ("calls", "handlers of single calls"),
    ("mode", "a call: recorded, answered, traced"),
    ("signals", "delivery, and the way back to the program"),
    ("place", "stopping a thread anywhere, and finding the place again"),
    ("order", "whose turn it is"),
    ("log", "events, items, hashes, requests"),
    ("base", "types, memory, the kernel's calls"),
];

/// Returns such lines, counted from 1, each with the header that it includes.
pub fn upward_includes<'a>(path: &Path, text: &'a str) -> Vec<(usize, &'a str)> {
    let Some(own) = path.strip_prefix("runtime").ok().and_then(floor) else { return Vec::new() };
    let includes = text.lines().enumerate().filter_map(|(index, line)| {
        let header = line.strip_prefix("#include \"")?.strip_suffix('"')?;
        Some((index + 1, header))
    });
    includes.filter(|(_, header)| floor(Path::new(header)).is_some_and(|it| it > own)).collect()
}

/// The number of a file's floor, counted from the ground. Generated files are on none.
fn floor(path: &Path) -> Option<usize> {
    let name = path.iter().next()?;
    FLOORS.iter().rev().position(|(floor, _)| name == *floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_a_higher_floor_is_seen() {
        let text = "#include \"base/sys.h\"\n#include \"log/look.h\"\n#include \"mode/look.h\"\n\
            #include \"gen/numbers.h\"\n";
        assert_eq!(upward_includes(Path::new("runtime/log/look.c"), text), [(3, "mode/look.h")]);
        assert_eq!(upward_includes(Path::new("runtime/entry/call.c"), text), []);
        assert_eq!(upward_includes(Path::new("runtime/gen/table.c"), text), []);
        assert_eq!(upward_includes(Path::new("examples/log/look.c"), text), []);
    }
}
