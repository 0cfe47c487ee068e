//! `retake reanimate`: runs traces of real programs again. The files must be the same.

mod cli_support;

use std::fs;
use std::path::PathBuf;

use cli_support::Place;
use retake_testing::needs;
use serde_json::Value;

/// Traces a shell script in `work/made`.
fn traced(place: &Place, script: &str) -> PathBuf {
    fs::create_dir(place.work("made")).unwrap();
    let script = format!("cd made\n{script}");
    place.run_well(&["trace", "-o", "x.ds", "--", "/bin/sh", "-e", "-c", &script]);
    place.work("x.ds")
}

/// Replays the trace in a new folder, and compares the files. Everything must be the same.
fn reanimated(place: &Place, more: &[&str]) -> Value {
    let made = place.work("made");
    let root = place.work("fresh");
    let _ = fs::remove_dir_all(&root);
    let arguments =
        ["reanimate", "x.ds", "--root", "fresh", "--json", "--compare", made.to_str().unwrap()];
    let report = place.run_json(&[&arguments[..], more].concat());
    assert_eq!(
        (&report["mismatched"], &report["stopped"]),
        (&0.into(), &false.into()),
        "{report:#}"
    );
    let compared = &report["compared"][0];
    assert_eq!(compared["difference_count"], 0, "{compared:#}");
    assert!(compared["files"].as_u64().unwrap() > 0);
    report
}

#[test]
fn the_same_files_come_out_whatever_the_way() {
    let place = Place::new("reanimate-files");
    let script = "
        mkdir -p a/b; umask 077; echo one > a/file; echo two >> a/file; chmod 4751 a/file
        ln a/file a/b/again; ln -s ../file a/b/link; mv a/b/again a/b/moved; mkfifo fifo
        seq 1 20000 | sort -r | gzip -c > numbers.gz; gzip -dc numbers.gz | tail -3 > last
        touch -d 2001-02-03 dated; rm a/b/link; cat < a/file > copy; ls -l > listing";
    traced(&place, script);
    for more in
        [&[][..], &["--threads=1"], &["--order=overlap"], &["--order=strict"], &["--verify=none"]]
    {
        let report = reanimated(&place, more);
        let count = |name: &str| report[name].as_u64().unwrap();
        let reasons = |name: &str| {
            report[name]
                .as_object()
                .unwrap()
                .values()
                .map(|count| count.as_u64().unwrap())
                .sum::<u64>()
        };
        assert_eq!(
            count("calls"),
            count("verified") + reasons("simulated") + reasons("skipped"),
            "{report:#}"
        );
        assert_eq!(reasons("skipped"), 0, "{report:#}");
    }
    let dated = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let below: PathBuf = place.work("made").components().skip(1).collect();
    assert_eq!(
        dated(place.work("made/dated")),
        dated(place.work("fresh").join(below).join("dated"))
    );
}

#[test]
fn archives_are_unpacked_again() {
    let place = Place::new("reanimate-tar");
    fs::create_dir_all(place.work("source/deep/er")).unwrap();
    for index in 0..100 {
        fs::write(
            place.work(&format!("source/deep/file{index}")),
            vec![index; 1000 * usize::from(index)],
        )
        .unwrap();
    }
    std::os::unix::fs::symlink("deep/file7", place.work("source/link")).unwrap();
    traced(&place, "tar cf ../x.tar -C .. source; tar xf ../x.tar");
    let report = reanimated(&place, &[]);
    assert!(report["by_call"]["openat"]["verified"].as_u64().unwrap() > 200, "{report:#}");
}

#[test]
fn a_manifest_and_statistics_say_what_a_trace_left() {
    let place = Place::new("reanimate-manifest");
    fs::create_dir(place.work("made")).unwrap();
    let script = "cd made; seq 1 1000 > numbers; cat numbers numbers > twice; ln -s twice link";
    place.run_well(&[
        "trace",
        "-o",
        "x.ds",
        "--manifest",
        "x.tree",
        "--tree",
        "made",
        "--",
        "/bin/sh",
        "-e",
        "-c",
        script,
    ]);
    let report = place.run_json(&[
        "reanimate",
        "x.ds",
        "--root",
        "fresh",
        "--json",
        "--verify-tree",
        "x.tree",
    ]);
    assert_eq!(
        (&report["compared"][0]["files"], &report["compared"][0]["difference_count"]),
        (&3.into(), &0.into()),
        "{report:#}"
    );
    let below: PathBuf = place.work("made").components().skip(1).collect();
    fs::write(place.work("fresh").join(below).join("more"), "").unwrap();
    let changed = place.run(&[
        "reanimate",
        "x.ds",
        "--root",
        "fresh",
        "--prepare=never",
        "--on-mismatch",
        "warn",
        "--verify-tree",
        "x.tree",
    ]);
    assert!(
        changed.status == Some(120) && changed.stdout.contains("more: not in the manifest"),
        "{changed:?}"
    );
    place.run_badly(
        &["reanimate", "x.ds", "--root", "again", "--verify-tree", "x.ds"],
        125,
        &["is not a manifest"],
    );

    let statistics = place.run_json(&["trace", "stat", "x.ds", "--json"]);
    assert!(statistics["written"]["bytes"].as_u64() >= Some(3893), "{statistics:#}");
    assert!(statistics["processes"].as_array().unwrap().len() >= 3, "{statistics:#}");
    assert!(place.run_well(&["trace", "stat", "x.ds"]).contains("execve"));
    place.run_well(&["trace", "stat", "x.ds", "--html", "x.html"]);
    assert!(fs::read_to_string(place.work("x.html")).unwrap().contains("<svg"));
    place.run_badly(&["trace", "stat", "x.tree"], 125, &["cannot read the trace"]);
}

#[test]
fn differences_are_told() {
    let place = Place::new("reanimate-different");
    let trace = traced(&place, "echo some > file; cat file > copy");
    assert!(trace.exists());
    // The existing file makes the exclusive open fail, and the sizes differ.
    let below: PathBuf = place.work("made").components().skip(1).collect();
    let there = place.work("fresh").join(below);
    fs::create_dir_all(there.join("file")).unwrap();
    let ran =
        place.run(&["reanimate", "x.ds", "--root", "fresh", "--on-mismatch", "warn", "--prepare"]);
    assert_eq!(ran.status, Some(120), "{ran:?}");
    assert!(ran.stdout.contains("EISDIR"), "{ran:?}");
    let missing = place.run(&["reanimate", "nothing.ds", "--root", "fresh"]);
    assert_eq!(missing.status, Some(125), "{missing:?}");
    assert!(missing.stderr.contains("cannot read the trace"), "{missing:?}");
}

#[test]
fn on_a_full_disk_replay_ends_and_says_so() {
    let place = Place::new("reanimate-full");
    needs!("mounts");
    traced(&place, "seq 1 200000 > numbers; cp numbers copy; wc -l copy > count");
    fs::create_dir(place.work("small")).unwrap();
    // The disk vanishes with the namespace in which it is mounted.
    let script = r#"
        mount -t tmpfs -o size=1m none small || exit 99
        timeout -k 1 20 "$0" reanimate x.ds --root small/root --on-mismatch warn
        echo "ended with $?"
    "#;
    let mut command = std::process::Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_retake")])
        .current_dir(place.work(""))
        .stdin(std::process::Stdio::null());
    let ran = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(stdout.contains("ENOSPC") && stdout.contains("ended with 120"), "{stdout}");
}

#[test]
fn a_killed_replay_leaves_nobody_and_can_be_run_again() {
    let place = Place::new("reanimate-killed");
    traced(&place, "sleep 1; echo some > file; (sleep 1; echo more > other) & wait");
    let mut replay = place.command(&["reanimate", "x.ds", "--root", "fresh", "--speed=traced"]);
    let mut replay = replay.stdout(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    replay.kill().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&replay.wait().unwrap()), Some(9));
    // The trace has several threads but only one process.
    reanimated(&place, &[]);
}
