//! Tests the harness with small workloads, and a fake recorder that only writes down the command
//! and runs it again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::figures::{Measured, Outcome};
use super::harness::Bench;
use super::mode::Mode;
use super::pace::Pace;
use super::workload::parse;

const RECORDER: &str = r#"#!/bin/bash
if [ "$1" = record ]; then
    mkdir "$3" && printf '%q ' "${@:5}" > "$3/command"
    exec "${@:5}"
fi
if [ -e "$2/../fake-replay" ]; then exec bash "$2/../fake-replay"; fi
exec bash -c "$(cat "$2/command")"
"#;

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    /// Makes it in memory if possible, because disks are busy while tests run.
    fn new(name: &str) -> Self {
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let path = parent.join(format!("retake-bench-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Measures one workload with two rounds. `replay`, unless empty, is the script of every replay.
fn measure(name: &str, text: &str, replay: &str) -> Measured {
    let folder = Folder::new(name);
    let recorder = folder.0.join("recorder");
    fs::write(&recorder, RECORDER).unwrap();
    fs::set_permissions(&recorder, fs::Permissions::from_mode(0o755)).unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let bench = Bench::prepare(&repository, &folder.0.join("scratch"), &recorder, false).unwrap();
    if !replay.is_empty() {
        fs::write(bench.scratch().path().join("fake-replay"), replay).unwrap();
    }
    let pace = Pace {
        rounds: 3,
        strace_rounds: 0,
        share: Some(Duration::ZERO),
        strace_limit: Duration::ZERO,
        load_seconds: 1,
        profile: false,
    };
    bench.measure(&parse(name, text).unwrap(), pace).unwrap()
}

#[test]
fn a_program_is_measured_in_all_modes() {
    let measured = measure(
        "program",
        "title = p\nprepare = echo hello > {work}/file\n\
         command = cat {work}/file\nrequires = cat\n",
        "",
    );
    assert_eq!(measured.outcome, Outcome::Done);
    // There is no time, so the number of rounds is the lowest.
    for mode in [Mode::Native, Mode::Record, Mode::Replay] {
        assert_eq!(measured.seconds(mode).figures.len(), 2, "{mode:?}");
    }
    assert!(measured.seconds(Mode::Strace).figures.is_empty() && measured.log_bytes > 0);
}

#[test]
fn a_replay_that_prints_something_else_fails() {
    let measured = measure("different", "title = p\ncommand = echo hello\n", "echo hallo");
    assert_eq!(
        measured.outcome,
        Outcome::Failed("replay printed something else than was recorded".to_owned())
    );
}

#[test]
fn a_program_that_fails_says_how() {
    let Outcome::Failed(reason) =
        measure("failing", "title = p\ncommand = sh -c 'echo broken >&2; exit 3'\n", "").outcome
    else {
        panic!("it failed")
    };
    assert_eq!(reason, "native ended with status 3: broken");
}

#[test]
fn what_is_not_installed_is_skipped() {
    let measured = measure(
        "skipped",
        "title = p\ncommand = a\nrequires = no-such-program\npackages = some-package\n",
        "",
    );
    assert_eq!(
        measured.outcome,
        Outcome::Skipped("needs no-such-program; try: apt-get install some-package".to_owned())
    );
}

const SERVER: &str = "title = s\ncommand = bash -c 'trap \"exit 0\" TERM; echo $$ > {work}/up; \
while :; do sleep 0.01; done'\n\
                      ready = test -s {work}/up\nreset = rm -f {work}/up\nload = [[ {seconds} = 1 ]] && [[ {rate} = 0 || {rate} = 1000 ]]\n";

#[test]
fn a_server_is_driven_stopped_and_replayed() {
    let load = "load = printf 'requests 1000\\nseconds 0.5\\nlatency_us 250\\n'\n";
    let measured = measure("server", &format!("{SERVER}{load}"), "exit 0");
    // The server answers 2,000 requests a second, and is then asked for half of that.
    assert_eq!(measured.outcome, Outcome::Done);
    assert_eq!(measured.seconds(Mode::Native).median(), Some(0.0005));
    assert_eq!(measured.ratio(Mode::Record), Some(1.0));
    assert_eq!(measured.latency_ratio(), Some(1.0));
    assert!(measured.seconds(Mode::Replay).median().is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn a_server_whose_replay_ends_otherwise_fails() {
    let load = "load = printf 'requests 1000\\nseconds 0.5\\nlatency_us 250\\n'\n";
    let Outcome::Failed(reason) =
        measure("server-status", &format!("{SERVER}{load}"), "echo lost >&2; exit 120").outcome
    else {
        panic!("it failed")
    };
    assert_eq!(reason, "replay ended with status 120, recorded was status 0: lost");
}
