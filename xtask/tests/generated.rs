//! The committed files are what the tables say, and the C of them compiles where there is no C library.

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
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no gcc");
        return;
    }
    let folder = std::env::temp_dir().join(format!("retake-generated-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let object = folder.join("table.o");
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-ffreestanding", "-nostdlib", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c", "-o"])
        .arg(&object)
        .arg(repository().join("runtime/gen/table.c"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    if let Ok(listed) = Command::new("readelf").arg("-rSW").arg(&object).output() {
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("There are no relocations"), "{listed}");
        let writable = listed.lines().filter(|line| line.contains(" WA ") && !line.contains(" 000000 00 "));
        assert_eq!(writable.count(), 0, "{listed}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
