//! Patches files of this machine, and checks the counts and every stub.

mod common;

use common::{check_image, counts, print_counts};
use retake_patch::{Options, Placement, Refusal, SiteKind, Verdict, examine};
use retake_testing::c::compiler;
use retake_testing::needs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const LIBRARY_FOLDERS: [&str; 4] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"];

fn find_library(name: &str) -> Option<PathBuf> {
    LIBRARY_FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

/// Examines a file in both placements and checks the images.
fn examine_file(path: &Path) -> Verdict {
    let bytes = std::fs::read(path).expect("readable");
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    let started = Instant::now();
    let verdict = examine(&bytes, Placement::After, &Options::default()).expect("well formed");
    println!("{name}: {:.1} ms for {} bytes", started.elapsed().as_secs_f64() * 1e3, bytes.len());
    print_counts(&name, &verdict);
    let before = examine(&bytes, Placement::Before, &Options::default()).expect("well formed");
    for (verdict, placement) in [(&verdict, Placement::After), (&before, Placement::Before)] {
        if let Verdict::Patched(image) = verdict {
            check_image(&bytes, image, placement);
        }
    }
    check_with_sections(&bytes, &verdict);
    verdict
}

/// Checks that sections take no patches away from other sites.
fn check_with_sections(bytes: &[u8], without: &Verdict) {
    let options = Options { sections: true, ..Options::default() };
    let verdict = examine(bytes, Placement::After, &options).expect("well formed");
    print_counts("  with sections", &verdict);
    for kind in SiteKind::REPLACED {
        assert_eq!(counts(&verdict, kind), counts(without, kind), "{kind:?}");
    }
    assert_eq!(verdict.unknown_calls(), without.unknown_calls());
    if let Verdict::Patched(image) = &verdict {
        check_image(bytes, image, Placement::After);
    }
}

fn examine_library(name: &str) -> Verdict {
    let path = find_library(name).unwrap_or_else(|| panic!("{name}, which gcc and git need"));
    examine_file(&path)
}

fn refused_for_other_reasons(verdict: &Verdict, kind: SiteKind) -> usize {
    verdict
        .refused()
        .iter()
        .filter(|site| site.kind == kind && site.reason != Refusal::SignalReturn)
        .count()
}

#[test]
fn c_library() {
    let verdict = examine_library("libc.so.6");
    assert!(counts(&verdict, SiteKind::SystemCall).0 > 300);
    assert!(refused_for_other_reasons(&verdict, SiteKind::SystemCall) <= 2);
    let restorers =
        verdict.refused().iter().filter(|site| site.reason == Refusal::SignalReturn).count();
    assert_eq!(restorers, 1);
    assert_eq!(
        counts(&verdict, SiteKind::Passage),
        (3, 0),
        "a mutex, and a lock for readers and writers"
    );
    let (counted, refused) = counts(&verdict, SiteKind::Spin);
    assert!(counted >= 5 && refused == 0, "{counted} places of spinning, {refused} refused");
}

#[test]
fn dynamic_linker() {
    let verdict = examine_library("ld-linux-x86-64.so.2");
    assert!(counts(&verdict, SiteKind::SystemCall).0 > 20);
    assert!(refused_for_other_reasons(&verdict, SiteKind::SystemCall) <= 1);
    assert!(counts(&verdict, SiteKind::Cpuid).0 > 10);
}

#[test]
fn functions_are_found_without_sections() {
    let path = find_library("ld-linux-x86-64.so.2").expect("the dynamic linker");
    let mut bytes = std::fs::read(path).expect("readable");
    // The offset and the count of the section headers, and the index of their names.
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    let verdict = examine(&bytes, Placement::After, &Options::default()).expect("well formed");
    print_counts("ld.so without sections", &verdict);
    assert!(counts(&verdict, SiteKind::SystemCall).0 > 20);
    assert!(refused_for_other_reasons(&verdict, SiteKind::SystemCall) <= 1);
    check_image(&bytes, &verdict.into_image().expect("patched"), Placement::After);
}

#[test]
fn data_in_text_is_left_alone() {
    let verdict = examine_library("libcrypto.so.3");
    assert!(
        counts(&verdict, SiteKind::SystemCall).0 <= 4,
        "libcrypto hardly makes system calls itself"
    );
    assert!(refused_for_other_reasons(&verdict, SiteKind::SystemCall) <= 4);
}

#[test]
fn libraries_without_sites() {
    let verdict = examine_library("libm.so.6");
    assert!(counts(&verdict, SiteKind::SystemCall).0 <= 2);
}

/// A folder for compiled files, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("retake-patch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(command: &mut Command) -> bool {
    command.status().expect("it runs").success()
}

#[test]
fn static_program() {
    let folder = Folder::new("static");
    let source = folder.0.join("main.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n")
        .expect("written");
    for (name, flags) in [("fixed", ["-static", "-no-pie"]), ("movable", ["-static-pie", "-fpie"])]
    {
        let program = folder.0.join(name);
        assert!(
            run(Command::new(compiler())
                .args(["-O2", "-o"])
                .arg(&program)
                .arg(&source)
                .args(flags)),
            "{name}"
        );
        let verdict = examine_file(&program);
        assert!(counts(&verdict, SiteKind::SystemCall).0 > 50);
        assert!(refused_for_other_reasons(&verdict, SiteKind::SystemCall) <= 3);
        let stripped = folder.0.join(format!("{name}-stripped"));
        assert!(run(Command::new("strip").arg("-o").arg(&stripped).arg(&program)));
        let verdict = examine_file(&stripped);
        assert!(counts(&verdict, SiteKind::SystemCall).0 > 50);
        let bare = folder.0.join(format!("{name}-bare"));
        let remove =
            ["--strip-all", "--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr"];
        assert!(run(Command::new("objcopy").args(remove).arg(&program).arg(&bare)));
        let verdict = examine_file(&bare);
        assert!(counts(&verdict, SiteKind::SystemCall).0 > 30);
    }
}

#[test]
fn go_program() {
    needs!("go");
    let folder = Folder::new("go");
    std::fs::write(
        folder.0.join("main.go"),
        "package main\n\nfunc main() { println(\"hello\") }\n",
    )
    .expect("written");
    std::fs::write(folder.0.join("go.mod"), "module hello\n\ngo 1.20\n").expect("written");
    for (name, flags) in
        [("whole", "-ldflags="), ("stripped", "-ldflags=-s -w"), ("pie", "-buildmode=pie")]
    {
        let build = |command: &mut Command| {
            run(command.current_dir(&folder.0).env("GOFLAGS", "-mod=mod").env("CGO_ENABLED", "0"))
        };
        assert!(build(Command::new("go").args(["build", flags, "-o", name, "."])), "{name}");
        let verdict = examine_file(&folder.0.join(name));
        assert!(counts(&verdict, SiteKind::SystemCall).0 > 20, "{name}");
        assert!(refused_for_other_reasons(&verdict, SiteKind::SystemCall) <= 2, "{name}");
    }
}

#[test]
fn lazy_binding_does_not_say_which_registers_are_in_use() {
    let Verdict::Patched(image) = examine_library("ld-linux-x86-64.so.2") else {
        panic!("not patched")
    };
    assert!(image.saves.len() >= 2 && image.saves.len().is_multiple_of(2), "{:x?}", image.saves);
    for address in &image.saves {
        let segment = image.segments.iter().find(|segment| {
            (segment.address..segment.address + segment.bytes.len() as u64).contains(address)
        });
        let segment = segment.expect("an edited address is in a segment");
        let bytes = &segment.bytes[(address - segment.address) as usize..][..4];
        assert!(
            bytes == [0x0f, 0xae, 0x44, 0x24] || bytes == [0x0f, 0xae, 0x4c, 0x24],
            "{bytes:x?}"
        );
    }
}
