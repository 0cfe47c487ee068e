//! Checks that the list of known failures only shrinks, and that each entry has a test.

use std::path::Path;

use retake_testing::known;

/// The number of known failures. Lower it with each repair.
const MOST: usize = 1;

#[test]
fn the_list_only_shrinks() {
    let list = known::list();
    assert!(
        list.len() <= MOST,
        "{} faults are known; a new one is to be mended, not listed",
        list.len()
    );
    assert_eq!(list.len(), MOST, "some are mended: lower MOST in {}", file!());
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/tests");
    for known in &list {
        let (file, name) = known.test.split_once("::").expect("BINARY::TEST");
        let text =
            std::fs::read_to_string(tests.join(format!("{file}.rs"))).expect("a file of tests");
        let body = text
            .split(&format!("fn {name}()"))
            .nth(1)
            .unwrap_or_else(|| panic!("no test {}", known.test));
        let body = body.split("\n}\n").next().unwrap_or_default();
        assert!(body.contains("known_failure!("), "{} runs as an ordinary test", known.test);
    }
    let mut sorted = list.clone();
    sorted.sort_by(|one, other| one.test.cmp(&other.test));
    assert_eq!(sorted, list, "the list is sorted");
}
