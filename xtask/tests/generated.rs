//! Checks that the committed files match the tables, and that their C compiles without a C library.

use retake_testing::c::compiler;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::generate;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn committed_files_are_up_to_date() {
    let stale = generate::stale(&repository()).unwrap();
    assert!(stale.is_empty(), "{stale:?} differ: run `cargo xtask gen`");
}

#[test]
fn generating_is_deterministic() {
    let first = generate::generate(&repository()).unwrap();
    assert_eq!(first, generate::generate(&repository()).unwrap());
}

#[test]
fn generated_c_is_freestanding_and_needs_no_relocation() {
    let folder = std::env::temp_dir().join(format!("retake-generated-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let object = folder.join("table.o");
    let compiled = Command::new(compiler())
        .args([
            "-std=gnu11",
            "-ffreestanding",
            "-nostdlib",
            "-fPIC",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-c",
            "-o",
        ])
        .arg(&object)
        .arg(repository().join("runtime/gen/table.c"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    if let Ok(listed) = Command::new("readelf").arg("-rSW").arg(&object).output() {
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("There are no relocations"), "{listed}");
        let writable =
            listed.lines().filter(|line| line.contains(" WA ") && !line.contains(" 000000 00 "));
        assert_eq!(writable.count(), 0, "{listed}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Calls on the short path follow at most one buffer, make no descriptors and have no commands.
#[test]
fn plain_calls_are_those_with_one_buffer_at_most() {
    let table = std::fs::read_to_string(repository().join("runtime/gen/table.c")).unwrap();
    let row_of = |name: &str| {
        table.split(&format!("/* {name} */\n")).nth(1).and_then(|rest| rest.lines().next()).unwrap()
    };
    for (name, plain) in [
        ("read", "PLAIN_BUFFER + 1, 0,"),
        ("write", "PLAIN_BUFFER + 1, 0,"),
        ("epoll_wait", "PLAIN_BUFFER + 1, 0,"),
        ("recvfrom", "PLAIN_BUFFER + 1, 48,"),
        ("lseek", "PLAIN_VALUES, 0,"),
        ("getppid", "PLAIN_VALUES, 0,"),
        ("openat", "PLAIN_NOT, 0,"),
        ("close", "PLAIN_NOT, 0,"),
        ("fcntl", "PLAIN_NOT, 0,"),
        ("readv", "PLAIN_NOT, 0,"),
        ("getpeername", "PLAIN_NOT, 0,"),
        ("futex", "PLAIN_NOT, 0,"),
    ] {
        assert!(row_of(name).contains(plain), "{name}: {}", row_of(name));
    }
}
