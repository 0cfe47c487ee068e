//! `retake ci`, and the recipes of docs/CI.md.

mod cli_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use cli_support::debugging::{PLAIN, compile, in_order};
use cli_support::{Place, Ran};
use retake_testing::needs;
use retake_testing::needs::{find_command, python_with};
use retake_testing::pages::repository;

/// The time limit for building and running tests on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

fn kept(place: &Place, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(place.work(folder)).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn success_leaves_nothing() {
    let place = Place::new("ci-good");
    let ran = place.run(&["ci", "--junit", "report.xml", "--", "sh", "-c", "echo fine"]);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "fine\n", ""));
    assert!(!place.work("retake-failures").exists());
    assert_eq!(place.recordings(), [""; 0]);
    let report = fs::read_to_string(place.work("report.xml")).unwrap();
    in_order(&report, &["tests=\"1\" failures=\"0\"", "<testcase name=\"sh -c 'echo fine'\""]);
}

#[test]
fn a_failure_is_kept_and_told() {
    needs!("gdb");
    let place = Place::new("ci-bad");
    let program = compile(&place, "plain", PLAIN, &[]);
    let test = format!("echo before; {program} x; exit 4");
    let ran = place.run_command(
        &["ci", "--out", "kept", "--junit", "report.xml", "--", "sh", "-c", &test],
        LIMIT,
        |command| {
            command.env("GITHUB_ACTIONS", "true");
        },
    );
    assert_eq!(ran.status, Some(4), "{ran:?}");
    let parts = [
        "failed with status 4",
        "crashed: SIGSEGV (SEGV_MAPERR: nothing is mapped at 0x0)",
        "follow (node=",
        "kept      kept/sh-1.retake",
        "try       retake debug kept/sh-1.retake",
    ];
    in_order(&ran.stderr, &parts);
    in_order(&ran.stdout, &["before\n", "::error file=", "plain.c,line=13,title=retake::"]);
    let report = fs::read_to_string(place.work("report.xml")).unwrap();
    in_order(&report, &["failures=\"1\"", "<failure message=\"failed with status 4\"", "SIGSEGV"]);
    assert_eq!(kept(&place, "kept"), ["sh-1.retake"]);
    let replayed = place.run(&["replay", "kept/sh-1.retake"]);
    assert_eq!(replayed.status, Some(4), "{replayed:?}");
    assert_eq!(place.recordings(), [""; 0]);
}

#[test]
fn who_is_flaky_has_succeeded() {
    let place = Place::new("ci-flaky");
    let test = "[ -e again ] || { touch again; exit 1; }";
    let arguments = ["ci", "--retries", "3", "--junit", "report.xml", "--", "sh", "-c", test];
    let ran = place.run_command(&arguments, LIMIT, |command| {
        command.env("GITHUB_ACTIONS", "true");
    });
    assert_eq!(ran.status, Some(0), "{ran:?}");
    in_order(&ran.stderr, &["failed with status 1", "run 2 of 4", "flaky: failed 1 times"]);
    assert!(ran.stdout.contains("::warning "), "{ran:?}");
    assert_eq!(kept(&place, "retake-failures"), ["sh-1.retake"]);
    let report = fs::read_to_string(place.work("report.xml")).unwrap();
    in_order(&report, &["failures=\"0\"", "<flakyFailure "]);
    let ran = place.run_within(&["ci", "--retries", "1", "--", "false"], LIMIT);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert_eq!(kept(&place, "retake-failures").len(), 3);
}

#[test]
fn a_test_is_run_until_it_fails() {
    let place = Place::new("ci-until");
    let test = "echo x >> runs; [ $(wc -l < runs) -lt 3 ]";
    let arguments = ["ci", "--until-failure", "-n", "9", "--chaos", "--", "sh", "-c", test];
    let ran = place.run_within(&arguments, LIMIT);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert_eq!(fs::read_to_string(place.work("runs")).unwrap().lines().count(), 3);
    assert_eq!(kept(&place, "retake-failures"), ["sh-1.retake"]);
    let ran = place.run_within(&["ci", "--until-failure", "-n", "2", "--", "true"], LIMIT);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(kept(&place, "retake-failures").len(), 1);
}

#[test]
fn a_test_that_hangs_is_ended_and_explained() {
    needs!("gdb");
    let place = Place::new("ci-hangs");
    let program = place.work("lock_order");
    cli_support::compile_program("hangs/lock_order", &["-g", "-O1"], &program);
    let program = program.to_str().unwrap();
    let ran = place.run_within(&["ci", "--timeout", "3", "--", program], LIMIT);
    assert_eq!(ran.status, Some(124), "{ran:?}");
    in_order(&ran.stderr, &["did not end in time", "from outside", "deadlock: thread"]);
}

#[test]
fn what_cannot_run_is_told_and_leaves_nothing() {
    let place = Place::new("ci-none");
    place.run_badly(&["ci", "--", "/no/such/test"], 127, &["/no/such/test"]);
    assert!(!place.work("retake-failures").exists());
    place.run_badly(&["ci", "--max-size", "5", "--", "true"], 125, &[]);
}

// ---- recipes ----

/// Runs a recipe with tests that fail. The page must contain the recipe.
fn recipe(place: &Place, shown: &str) -> Ran {
    let page = fs::read_to_string(repository().join("docs/CI.md")).unwrap();
    assert!(page.contains(&format!("`{shown}`")), "docs/CI.md has no {shown}");
    let retake = env!("CARGO_BIN_EXE_retake");
    let folder = std::path::Path::new(retake).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let script = shown.replace("/tmp/failures", place.work("failures").to_str().unwrap());
    let mut command = place.command_of("sh", &["-c", &script]);
    // The folder `bin` of the test goes before all others.
    let first = place.work("bin");
    command.env("PATH", format!("{}:{}:{path}", first.display(), folder.display()));
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "GOCACHE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let ran = Ran::of(command.output().unwrap(), &[shown]);
    assert!(ran.status.is_some_and(|status| status != 0), "{ran:?}");
    ran
}

/// Checks that the kept recording fails in the same way.
fn replays(place: &Place, folder: &str) {
    let kept = kept(place, folder);
    assert_eq!(kept.len(), 1, "{kept:?}");
    let path = place.work(folder).join(&kept[0]);
    let ran = place.run_within(&["replay", path.to_str().unwrap()], LIMIT);
    assert!(ran.status.is_some_and(|status| !matches!(status, 0 | 120 | 125)), "{ran:?}");
}

#[test]
fn pytest() {
    needs!("python:pytest");
    let place = Place::new("ci-pytest");
    fs::write(place.work("test_sum.py"), "def test_sum():\n    assert 1 + 1 == 3\n").unwrap();
    let python = python_with("pytest").unwrap();
    if python.is_absolute() {
        // The Python of the tests' own environment.
        fs::create_dir(place.work("bin")).unwrap();
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", python.display());
        fs::write(place.work("bin/python3"), script).unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.work("bin/python3"), executable).unwrap();
    }
    let ran = recipe(&place, "retake ci -- python3 -m pytest -q");
    assert!(ran.stdout.contains("1 failed"), "{ran:?}");
    replays(&place, "retake-failures");
}

#[test]
fn ctest() {
    needs!("ctest");
    let place = Place::new("ci-ctest");
    let text = "add_test(good true)\nadd_test(bad sh -c \"exit 5\")\n";
    fs::write(place.work("CTestTestfile.cmake"), text).unwrap();
    let ran = recipe(&place, "retake ci -- ctest --output-on-failure");
    assert!(ran.stdout.contains("50% tests passed"), "{ran:?}");
    // The recording is of the failed test's process, not of the test runner's.
    replays(&place, "retake-failures");
}

#[test]
fn cargo_test() {
    needs!("cargo");
    let place = Place::new("ci-cargo");
    let manifest = "[package]\nname = \"tried\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
        [workspace]\n";
    fs::write(place.work("Cargo.toml"), manifest).unwrap();
    fs::create_dir(place.work("src")).unwrap();
    let text = "#[test]\nfn sum() {\n    assert_eq!(1 + 1, 3);\n}\n";
    fs::write(place.work("src/lib.rs"), text).unwrap();
    let built = Command::new("cargo")
        .args(["test", "--no-run", "--offline", "-q"])
        .env_remove("CARGO_TARGET_DIR")
        .current_dir(place.work(""))
        .status()
        .unwrap();
    assert!(built.success());
    let ran = recipe(&place, "retake ci -- cargo test --offline");
    assert!(ran.stdout.contains("sum ... FAILED"), "{ran:?}");
    replays(&place, "retake-failures");
}

#[test]
fn go_test() {
    needs!("go");
    let place = Place::new("ci-go");
    assert!(find_command("go").is_some());
    fs::write(place.work("go.mod"), "module tried\n\ngo 1.18\n").unwrap();
    let text = "package tried\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\
        \tif 1+1 != 3 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n";
    fs::write(place.work("sum_test.go"), text).unwrap();
    let ran = recipe(&place, "go test -exec 'retake ci --out /tmp/failures --' ./...");
    assert!(ran.stdout.contains("FAIL"), "{ran:?}");
    replays(&place, "failures");
}
