//! Tests with this repository's contract, and with small ones.

use std::path::Path;

use retake_contract_gen::{c, from_texts, read, rust};

fn repository() -> retake_contract_gen::Contract {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contract")).unwrap()
}

#[test]
fn the_contract_of_this_repository_has_all_three_sides() {
    let headers = c(&repository()).unwrap();
    let offsets = &headers.iter().find(|(name, _)| name == "offsets.h").unwrap().1;
    assert!(offsets.contains("#define CONTEXT_REGS "));
    assert!(
        headers.iter().any(|(name, text)| name == "header.h" && text.contains("struct slot {"))
    );
    assert!(rust(&repository()).unwrap().contains("pub struct Header {"));
}

#[test]
fn layouts_follow_the_rules_of_c() {
    let text = "struct inner\n    a: u8\n    b: u16[3]\nstruct outer align 16\n    c: \
    char\n    d: inner[2]\n    e: *outer\n";
    let contract = from_texts(vec![("x".to_owned(), text.to_owned())]).unwrap();
    let rust = rust(&contract).unwrap();
    assert!(
        rust.contains("pub const B: u64 = 2;") && rust.contains("pub const LAYOUT_BYTES: u64 = 8;"),
        "{rust}"
    );
    assert!(
        rust.contains("pub const D: u64 = 2;") && rust.contains("pub const E: u64 = 24;"),
        "{rust}"
    );
    assert!(rust.contains("pub const LAYOUT_BYTES: u64 = 32;"), "{rust}");
}

#[test]
fn mistakes_are_refused_with_their_place() {
    for (text, told) in [
        ("structure a\n", "x.contract:1"),
        ("const A: u32 = 1\n    B = 2\n", "x.contract:2"),
        ("struct a\n    b: c\n", "no type c"),
        ("struct a\n    b: u8[C]\n", "C is neither"),
        ("const A: u32 = 1\nconst A: u32 = 1\n", "two of A"),
        ("use y\n", "x uses a file"),
        ("struct a\nstruct a\n", "two structures a"),
    ] {
        let contract = from_texts(vec![("x".to_owned(), text.to_owned())]);
        let error = contract.and_then(|contract| rust(&contract)).unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
}
