//! Management of recordings: names, sizes, completion, and removal.

mod cli_support;

use std::fs;
use std::process::Stdio;

use cli_support::debugging::compile;
use cli_support::{Place, Ran};
use retake_testing::needs;

/// Records `true` `count` times under its own name.
fn place_with(test: &str, count: usize) -> Place {
    let place = Place::new(test);
    for _ in 0..count {
        place.run_well(&["record", "true"]);
    }
    place
}

/// Makes a recording look as if it had begun some hours ago.
fn age(place: &Place, name: &str, hours: u64) {
    let path = place.recording(name).join("recording.json");
    let text = fs::read_to_string(&path).unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    let value = |name: &str| metadata[name].to_string();
    let began: u64 = value("started_unix_ms").parse().unwrap();
    let aged = text.replace(&began.to_string(), &(began - hours * 3_600_000).to_string());
    // The checksum covers the text with zeros in its own place.
    let sum = value("checksum");
    let zeroed = aged.replacen(&sum, "\"0000000000000000\"", 1);
    let right = format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(zeroed.as_bytes()));
    fs::write(&path, aged.replacen(&sum, &right, 1)).unwrap();
}

#[test]
fn recordings_get_other_names() {
    let place = place_with("mv", 2);
    place.run_well(&["mv", "latest", "good one"]);
    assert_eq!(place.recordings(), ["good one", "latest", "true-1"]);
    assert!(place.run_well(&["ls"]).ends_with("latest: good one\n"));
    place.run_well(&["replay", "good one"]);
    place.run_badly(&["mv", "true-1", "good one"], 125, &["exists already", "another name"]);
    for bad in ["latest", "a/b", ".x"] {
        place.run_badly(&["mv", "true-1", bad], 125, &["a plain name"]);
    }
    place.run_well(&["pack", "true-1", "-o", "true.retake"]);
    place.run_well(&["mv", "./true.retake", "packed"]);
    place.run_well(&["replay", "./packed.retake"]);
    assert!(!place.work("true.retake").exists());
    place.run_badly(&["mv", "./packed.retake/../../work", "x"], 125, &[]);
}

#[test]
fn who_mistypes_a_name_is_told_the_nearest() {
    let place = place_with("nearest", 1);
    place.run_badly(&["info", "tru-1"], 125, &["tru-1 is not a recording", "true-1 was meant"]);
    let ran = place.run(&["info", "entirely-different"]);
    assert!(!ran.stderr.contains("was meant"), "{ran:?}");
}

#[test]
fn old_recordings_go() {
    let place = place_with("rm-old", 4);
    age(&place, "true-1", 24 * 9);
    age(&place, "true-2", 24 * 6);
    place.run_badly(
        &["rm", "--older-than", "7d"],
        125,
        &["1 recording with", "would be removed", "--yes"],
    );
    assert_eq!(place.recordings().len(), 5, "nothing was removed");
    place.run_well(&["rm", "--older-than", "7d", "--yes"]);
    assert_eq!(place.recordings(), ["latest", "true-2", "true-3", "true-4"]);
    place.run_well(&["rm", "--keep", "1", "--yes"]);
    assert_eq!(place.recordings(), ["latest", "true-4"]);
    let none = place.run(&["rm", "--keep", "1"]);
    assert!(none.status == Some(0) && none.stderr.contains("nothing to remove"), "{none:?}");
    place.run_well(&["rm", "--all", "--yes"]);
    assert_eq!(place.recordings(), [""; 0]);
    for bad in [&["--older-than", "7"][..], &["--keep", "1", "--all"], &["x", "--all"], &[]] {
        place.run_badly(&[&["rm"], bad].concat(), 125, &[]);
    }
}

#[test]
fn who_sits_at_a_terminal_is_asked() {
    needs!("script");
    let place = place_with("rm-asked", 2);
    let ask = |answer: &str| {
        let command = format!("{} rm --all", env!("CARGO_BIN_EXE_retake"));
        let mut script = place.command_of("script", &["-qec", &command, "/dev/null"]);
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = script.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, answer.as_bytes()).unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap(), &["rm", "--all"]);
        drop(input);
        assert!(ran.stdout.contains("remove 2 recordings with"), "{ran:?}");
        ran
    };
    assert!(ask("n\n").stdout.contains("nothing was removed"));
    assert_eq!(place.recordings().len(), 3);
    ask("y\n");
    assert_eq!(place.recordings(), [""; 0]);
}

#[test]
fn the_list_is_sorted_and_summed_up() {
    let place = place_with("sorted", 3);
    place.run(&["record", "sh", "-c", "head -c 300000 /dev/urandom | cksum"]);
    age(&place, "true-3", 5);
    let sorted = |by: &str| place.run_well(&["ls", "--names", "--sort", by]);
    assert!(sorted("size").starts_with("sh-1\n"), "{}", sorted("size"));
    assert_eq!(sorted("time"), "sh-1\ntrue-2\ntrue-1\ntrue-3\n");
    assert_eq!(sorted("name"), "sh-1\ntrue-1\ntrue-2\ntrue-3\n");
    let listed = place.run_json(&["ls", "--json"]);
    let sizes = listed["recordings"].as_array().unwrap().iter();
    let sum: u64 = sizes.map(|one| one["file_bytes"].as_u64().unwrap()).sum();
    assert_eq!((&listed["count"], &listed["file_bytes"]), (&4.into(), &sum.into()));
    assert!(place.run_well(&["ls"]).contains("\ntotal: 4 recordings, "));
}

#[test]
fn shells_complete_names_of_recordings() {
    let place = place_with("completes", 1);
    place.run_well(&["mv", "true-1", "before"]);
    let complete = |words: &[&str]| {
        let last = (words.len() - 1).to_string();
        let mut command = place.command(&[&["--"], words].concat());
        command
            .env("RETAKE_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", last)
            .env("_CLAP_COMPLETE_COMP_TYPE", "9")
            .env("_CLAP_COMPLETE_SPACE", "true");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for command in ["replay", "debug", "rm", "mv", "info", "backtrace", "pack"] {
        let named = complete(&["retake", command, "be"]);
        assert!(named.split_whitespace().any(|word| word == "before"), "{command}: {named}");
    }
    assert!(complete(&["retake", "rep"]).contains("replay"));
    assert!(complete(&["retake", "record", "--until-f"]).contains("--until-failure"));
}

#[test]
fn build_ids_are_listed() {
    needs!("readelf");
    let place = Place::new("build-ids");
    compile(&place, "program", "int main(void) { return 0; }\n", &["-Wl,--build-id=sha1"]);
    let script = place.work("script");
    fs::write(&script, "#!/bin/sh\n./program > /dev/null\n").unwrap();
    place.command_of("chmod", &["755", "script"]).status().unwrap();
    place.run(&["record", "./script"]);
    let info = place.run_json(&["info", "--json", "--build-ids"]);
    let listed = info["build_ids"].as_array().unwrap();
    let id_of = |ending: &str| {
        let is_it = |one: &&serde_json::Value| {
            one["path"].as_str().is_some_and(|path| path.ends_with(ending))
        };
        listed.iter().find(is_it).unwrap_or_else(|| panic!("no {ending} in {info}"))["build_id"]
            .clone()
    };
    let shown = place.command_of("readelf", &["-n", "program"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let id = shown.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();
    assert_eq!(id_of("/work/program"), id, "{info}");
    for file in ["/sh", "/libc.so.6", "/ld-linux-x86-64.so.2"] {
        assert!(id_of(file).as_str().is_some_and(|id| id.len() >= 16), "{file}: {info}");
    }
    let text = place.run_well(&["info", "--build-ids"]);
    assert!(text.lines().any(|line| line.starts_with(id) && line.ends_with("/program")), "{text}");
}

#[test]
fn a_recording_is_no_larger_than_its_budget() {
    let place = Place::new("max-size");
    // Two processes take part. All data that they read are recorded.
    let endless = "echo begun; cat /dev/urandom | cat > /dev/null";
    let ran = place.run(&["record", "--max-size", "5MB", "sh", "-c", endless]);
    assert_eq!((ran.signal.or(ran.status), ran.stdout.as_str()), (Some(9), "begun\n"), "{ran:?}");
    assert!(ran.stderr.contains("reached its largest size (--max-size)"), "{ran:?}");
    let info = place.run_json(&["info", "--json"]);
    assert_eq!(info["metadata"]["outcome"]["exit"]["killed"], 9, "{info}");
    assert_eq!(info["metadata"]["settings"]["max size"], "5M", "{info}");
    let bytes = info["file_bytes"].as_u64().unwrap();
    assert!((5 << 20..1 << 30).contains(&bytes), "{bytes}");
    let replayed = place.run(&["replay"]);
    assert_eq!((replayed.signal, replayed.stdout.as_str()), (Some(9), "begun\n"), "{replayed:?}");
    assert_eq!(replayed.stderr, "", "{replayed:?}");
    // A smaller recording is not affected.
    place.run_well(&["record", "--max-size", "5MB", "true"]);
    for bad in ["5", "7d", "x"] {
        place.run_badly(&["record", "--max-size", bad, "true"], 125, &[]);
    }
}
