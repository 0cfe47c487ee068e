//! `retake cc` and `retake c++`: programs whose threads synchronise by plain accesses, which their
//! compiler declares, replay exactly although they run in parallel.

mod cli_support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use cli_support::Place;
use retake_patch::{Options, Placement, SiteKind, Verdict, examine};

const LIMIT: Duration = Duration::from_secs(120);
/// How often each program is recorded.
const RUNS: usize = 2;

/// Calls a compiler of ours.
fn call<Word: AsRef<OsStr>>(place: &Place, compiler: &str, words: &[Word]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retake"))
        .arg(compiler)
        .args(words)
        .current_dir(place.work(""))
        .output()
        .expect("it runs")
}

fn built(place: &Place, name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/declared").join(name);
    let executable = place.work("program");
    let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
    let files = [source.to_str().unwrap(), "-pthread", "-o", executable.to_str().unwrap()];
    let output = call(place, compiler, &[options, &files].concat());
    assert!(output.status.success(), "{output:?}");
    executable
}

/// How many instructions of a file are operations; how many should be, but cannot.
fn operations(executable: &Path) -> (usize, usize) {
    let bytes = std::fs::read(executable).unwrap();
    let options = Options { sections: true, ..Options::default() };
    let verdict = examine(&bytes, Placement::Before, &options).unwrap();
    let Verdict::Patched(image) = verdict else {
        panic!("{} is not patched", executable.display())
    };
    let sites = image.sites.iter().filter(|site| site.kind == SiteKind::Atomic).count();
    let refused = image.refused.iter().filter(|site| site.kind == SiteKind::Atomic).count();
    (sites, refused)
}

/// Records it in parallel, and replays it twice: the same output, and the same memory in the end.
fn repeats(place: &Place, executable: &Path, runs: usize) {
    for run in 0..runs {
        let program = executable.to_str().unwrap();
        let recorded = place.run_within(&["record", "--policy", "sync", "--", program], LIMIT);
        assert_eq!((recorded.status, recorded.stderr.as_str()), (Some(0), ""), "run {run}");
        for _ in 0..2 {
            let replayed = place.run_within(&["replay"], LIMIT);
            assert_eq!(
                (replayed.status, replayed.stderr.as_str(), replayed.stdout.as_str()),
                (Some(0), "", recorded.stdout.as_str()),
                "run {run}"
            );
        }
    }
}

/// At least so many instructions are operations, all of them are patched, and replays are exact.
fn is_exact(name: &str, options: &[&str], least: usize) {
    let place = Place::new(&format!("compiler-{name}-{}", options.concat()));
    let executable = built(&place, name, options);
    let (sites, refused) = operations(&executable);
    assert!(sites >= least && refused == 0, "{sites} operations, {refused} refused");
    repeats(&place, &executable, RUNS);
}

#[test]
fn volatile_and_atomic_variables_of_c() {
    for optimised in ["-O0", "-O2"] {
        is_exact("flags.c", &[optimised], 12);
    }
    is_exact("flags.c", &["-O1", "-masm=intel"], 12);
}

#[test]
fn inline_assembly() {
    for optimised in ["-O0", "-O2"] {
        is_exact("asm.c", &[optimised], 4);
    }
}

#[test]
fn locks_made_of_atomics() {
    for optimised in ["-O0", "-O3"] {
        is_exact("locks.cc", &["-std=c++20", optimised], 30);
    }
}

#[test]
fn what_cxx_offers() {
    for optimised in ["-O0", "-O2"] {
        is_exact("library.cc", &["-std=c++20", optimised], 60);
    }
}

#[test]
fn every_way_of_linking_keeps_the_list() {
    let ways: [&[&str]; 4] = [
        &["-flto"],
        &["-static"],
        &["-no-pie", "-fno-pie", "-pipe"],
        &["-ffunction-sections", "-Wl,--gc-sections", "-s"],
    ];
    for options in ways {
        is_exact("locks.cc", &[&["-std=c++20", "-O2"], options].concat(), 30);
    }
}

#[test]
fn the_compiler_is_as_it_was() {
    let place = Place::new("compiler-alike");
    std::fs::write(place.work("good.c"), "int main(void) { return 0; }\n").unwrap();
    std::fs::write(place.work("bad.c"), "int main(void) { return x; }\n").unwrap();
    assert!(call(&place, "cc", &["-c", "good.c", "-MD"]).status.success());
    assert!(place.work("good.o").exists() && place.work("good.d").exists());
    let failed = call(&place, "cc", &["-c", "bad.c"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let assembly = call(&place, "cc", &["-S", "-o", "-", "good.c"]);
    assert!(!String::from_utf8_lossy(&assembly.stdout).contains("(insn"), "{assembly:?}");
    let version = call(&place, "c++", &["--version"]);
    assert!(version.stdout.starts_with(b"g++"), "{version:?}");
}

#[test]
fn what_cannot_be_ordered_is_told() {
    let place = Place::new("compiler-warns");
    let text = "void f(void *to, void *from, long size)\n\
                {\n\t__asm__ volatile(\"rep movsb\" : \"+D\"(to), \"+S\"(from), \"+c\"(size) : : \"memory\");\n}\n";
    std::fs::write(place.work("copy.c"), text).unwrap();
    let told = call(&place, "cc", &["-c", "copy.c"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("rep movsb") && told.contains("copy.c\" 1"), "{told}");
}

#[test]
fn another_kind_of_compiler_is_refused() {
    let place = Place::new("compiler-other");
    let refused = Command::new(env!("CARGO_BIN_EXE_retake"))
        .args(["cc", "-c", "a.c"])
        .env("RETAKE_CC", "/bin/true")
        .current_dir(place.work(""))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(125), "{told}");
    assert!(told.contains("/bin/true is not gcc") && told.contains("RETAKE_CC"), "{told}");
}
