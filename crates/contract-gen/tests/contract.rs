//! Tests with this repository's contract, and with small ones.

use std::path::Path;

use retake_contract_gen::{Kept, c, from_texts, keep, lines, read, read_as_written, rust};

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

/// The lines of a small contract.
fn lines_of(text: &str) -> Vec<String> {
    lines(&from_texts(vec![("x".to_owned(), text.to_owned())]).unwrap()).unwrap()
}

#[test]
fn additions_make_a_revision_and_all_else_breaks_a_version() {
    let base = "const A: u32 = 1\nstruct part\n    x: u32\nstruct whole\n    a: u64\n    p: part\n";
    let kept = Kept::next(None, 1, &lines_of(base)).unwrap();
    assert_eq!(kept.numbers(), (1, 0));
    let with = |from: &str, to: &str| {
        assert!(base.contains(from), "{from}");
        Kept::next(Some(&kept), 1, &lines_of(&base.replace(from, to)))
    };
    for (from, to) in [
        ("    p: part\n", "    p: part\n    b: u32\n"),
        ("struct part", "const B: u32 = 2\nstruct part"),
        ("struct part", "enum e E_: u32\n    ONE = 1\nstruct part"),
    ] {
        let next = with(from, to).unwrap();
        assert_eq!(next.numbers(), (1, 1), "{to}");
        assert_eq!(Kept::parse(&next.text()).as_ref(), Some(&next));
    }
    assert_eq!(with("x: u32", "x: u32").unwrap(), kept);
    for (from, to, broken) in [
        ("    x: u32\n", "    x: u32\n    y: u32\n", "part has 0x4 bytes"),
        ("    x: u32\n", "    x: i32\n", "part.x at 0x0: u32"),
        ("    a: u64\n    p: part\n", "    p: part\n    a: u64\n", "whole.a at 0x0: u64"),
        ("A: u32 = 1", "A: u32 = 2", "A = 0x1"),
    ] {
        assert_eq!(with(from, to).unwrap_err(), broken);
    }
    let other = Kept::next(Some(&kept), 2, &lines_of("const A: u32 = 2\n")).unwrap();
    assert_eq!(other.numbers(), (2, 0));
    for text in ["", "version 1\n", "version 1\nrevision 1\n", "version 1\nA = 0x1\n"] {
        assert_eq!(Kept::parse(text), None, "{text}");
    }
}

/// A build whose contract is none of a version must not take the version's recordings for its own.
#[test]
fn a_contract_that_is_not_kept_has_no_version() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contract");
    let contract = read_as_written(&source).unwrap();
    let (version, revision) = keep(&contract).unwrap().numbers();
    let said = |contract| {
        let text = rust(&contract).unwrap();
        let number = |name: &str| {
            let (_, rest) = text.split_once(&format!("pub const {name}: u32 = ")).unwrap();
            rest.split(';').next().unwrap().parse::<u64>().unwrap()
        };
        (number("VERSION"), number("REVISION"))
    };
    assert_eq!(said(contract), (version, revision as u64));
    let folder = std::env::temp_dir().join(format!("retake-contract-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for entry in std::fs::read_dir(&source).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    std::fs::write(folder.join("more.contract"), "const MORE: u32 = 1\n").unwrap();
    assert_eq!(said(read_as_written(&folder).unwrap()), (0, 0));
    std::fs::remove_dir_all(&folder).unwrap();
}
