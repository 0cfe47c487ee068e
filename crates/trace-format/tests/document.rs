//! Checks that `docs/TRACE.md` holds the current schema.

use std::path::Path;

const BEGIN: &str = "<!-- The schema, made by a test: RETAKE_UPDATE=1 cargo test --release -p \
retake-trace-format --test document -->\n";

#[test]
fn the_page_has_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TRACE.md");
    let page = std::fs::read_to_string(&path).expect("docs/TRACE.md");
    let (before, schema) =
        page.split_once(BEGIN).expect("docs/TRACE.md has the line after which the schema begins");
    let expected = retake_trace_format::document();
    if std::env::var_os("RETAKE_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{expected}"))
            .expect("docs/TRACE.md can be written");
        return;
    }
    let same = schema.trim() == expected.trim();
    assert!(
        same,
        "docs/TRACE.md is stale: RETAKE_UPDATE=1 cargo test --release -p retake-trace-format \
        --test document"
    );
}
