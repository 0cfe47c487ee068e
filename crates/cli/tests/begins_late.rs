//! `retake record --keep-last` of processes that run on: what came before an image is dropped, and
//! replay begins at that image.

mod cli_support;

use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use cli_support::debugging::{gdb, in_order, no_process_is_left};
use cli_support::started::{Started, wait_until};
use cli_support::{Place, Ran, compile_program, has_dropped_image};
use retake_testing::needs;
use serde_json::Value;

/// The time limit of these programs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Records tests/images/runs_on.c in `made` until the image with this number is dropped, and then
/// does `at_end`. Returns the recorder, and what the program printed. The first image stays under
/// another name.
fn record_until(place: &Place, options: &[&str], dropped: u64, at_end: &str) -> (i32, String) {
    let executable = place.work("runs_on");
    compile_program("images/runs_on", &["-O1", "-g", "-pthread"], &executable);
    let command = format!("test -f enough; exec {}", executable.display());
    let arguments = ["record", "-o", "made", "--check=full", "--policy", "serial"];
    let arguments = [&arguments[..], options, &["--", "sh", "-c", &command]].concat();
    let printed = place.work("printed");
    let output = File::create(&printed).unwrap();
    let mut recorder =
        Started::new(place.command(&arguments).stdout(output).stderr(Stdio::inherit()));
    let folder = place.work("made/checkpoints");
    wait_until("images", LIMIT, || {
        let _ = fs::hard_link(folder.join("1"), place.work("first"));
        has_dropped_image(&folder, dropped)
    });
    if at_end == "kill" {
        rustix::process::kill_process(recorder.pid(), rustix::process::Signal::KILL).unwrap();
    }
    File::create(place.work("enough")).unwrap();
    let status = recorder.wait(LIMIT).code().unwrap_or(-1);
    wait_until("the end", LIMIT, || {
        fs::read_to_string(&printed).unwrap().contains("total") || at_end == "kill"
    });
    (status, fs::read_to_string(printed).unwrap())
}

/// Replays, and checks that the output is the end of what was printed, but not all of it.
fn replays_the_rest(place: &Place, recording: &str, printed: &str) -> Ran {
    let ran = place.run_within(&["replay", "--check=full", recording], LIMIT);
    assert_eq!(ran.status, Some(7), "{ran:?}");
    assert!(ran.stdout.contains("round ") && ran.stdout.len() < printed.len(), "{ran:?}");
    assert!(printed.ends_with(&ran.stdout), "{printed}\n{ran:?}");
    assert!(ran.stderr.contains("before the images at which replay begins"), "{ran:?}");
    assert!(ran.stderr.contains("retake: begins at image "), "{ran:?}");
    ran
}

#[test]
fn a_process_that_runs_on_begins_at_an_image() {
    let place = Place::new("late-time");
    let (status, printed) = record_until(&place, &["--keep-last", "1s"], 3, "end");
    assert_eq!(status, 7, "{printed}");
    let first = replays_the_rest(&place, "made", &printed);
    assert_eq!(replays_the_rest(&place, "made", &printed).stdout, first.stdout);
    // A recorder that is killed may leave images whose events it has dropped.
    fs::rename(place.work("first"), place.work("made/checkpoints/1")).unwrap();
    assert_eq!(replays_the_rest(&place, "made", &printed).stdout, first.stdout);
    place.run_well(&["info", "--verify", "made"]);
    let ps = place.run(&["ps", "made"]);
    assert!(ps.stdout.contains("/runs_on"), "the call that executed it is kept: {ps:?}");
    let left_out = &place.run_json(&["info", "--json", "made"])["left_out"];
    assert!(left_out["bytes"].as_u64().unwrap() > 1 << 20, "{left_out}");
    // What needs the whole says so.
    place.run_badly(&["replay", "--trace-calls", "made"], 125, &["--keep-last left that out"]);
    place.run_badly(&["trace", "--from", "made"], 125, &["--keep-last left that out"]);
    place.run_badly(&["checkpoint", "--at", "exit", "made"], 125, &["--keep-last left that out"]);
    place.run_badly(&["checkpoint", "--delete", "all", "made"], 125, &["begins at its images"]);
    // Copies have the images.
    let packed = place.work("packed.retake").to_str().unwrap().to_owned();
    place.run_well(&["pack", "-o", &packed, "made"]);
    fs::remove_dir_all(place.work("made")).unwrap();
    assert_eq!(replays_the_rest(&place, &packed, &printed).stdout, first.stdout);
    place.run_well(&["unpack", &packed, "-o", "unpacked"]);
    fs::remove_file(&packed).unwrap();
    assert_eq!(replays_the_rest(&place, "unpacked", &printed).stdout, first.stdout);
    no_process_is_left(&place);
}

#[test]
fn a_size_bounds_events_and_images() {
    let place = Place::new("late-size");
    let (status, printed) = record_until(&place, &["--keep-last", "4M"], 6, "end");
    assert_eq!(status, 7, "{printed}");
    replays_the_rest(&place, "made", &printed);
    let size = |folder: &str| -> u64 {
        let files = fs::read_dir(place.work(folder)).unwrap().map(|entry| entry.unwrap());
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    };
    let bytes = size("made/checkpoints") + fs::metadata(place.work("made/events")).unwrap().len();
    assert!(bytes <= 4 << 20, "{bytes}");
}

#[test]
fn what_a_killed_recorder_left_begins_at_an_image() {
    let place = Place::new("late-killed");
    let (status, _) = record_until(&place, &["--keep-last", "1s"], 2, "kill");
    assert_eq!(status, -1);
    wait_until("the end", LIMIT, || no_recorder(&place));
    let printed = fs::read_to_string(place.work("printed")).unwrap();
    let ran = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert!(ran.status == Some(7) || ran.signal == Some(9), "{ran:?}");
    assert!(ran.stdout.contains("round ") && printed.contains(&ran.stdout), "{ran:?}");
    assert!(ran.stderr.contains("retake: begins at image "), "{ran:?}");
    no_process_is_left(&place);
}

/// A tree in which some processes share memory and others do not begins at their images. Processes
/// without images that began in between can be debugged, too.
#[test]
fn a_whole_tree_begins_at_images_of_different_times() {
    needs!("gdb");
    let place = Place::new("late-tree");
    for program in ["sharers", "runs_on"] {
        let source = format!("images/{program}");
        compile_program(&source, &["-O1", "-g", "-pthread"], &place.work(program));
    }
    let script = "echo begins; ./sharers & all=$!; ./runs_on & wait $!; echo ran $?; \
                  wait $all; echo all $?; exit 9";
    let arguments = ["record", "-o", "made", "--check=full", "--keep-last", "1s"];
    let arguments = [&arguments[..], &["--", "bash", "-c", script]].concat();
    let printed = place.work("printed");
    let output = File::create(&printed).unwrap();
    let mut recorder = Started::new(place.command(&arguments).stdout(output));
    wait_until("images", LIMIT, || has_dropped_image(&place.work("made/checkpoints"), 8));
    File::create(place.work("enough")).unwrap();
    assert_eq!(recorder.wait(LIMIT).code(), Some(9));
    let printed = fs::read_to_string(printed).unwrap();
    assert!(printed.contains("all 7") && printed.contains("all end: 3, "), "{printed}");

    let ran = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert_eq!(ran.status, Some(9), "{ran:?}");
    assert!(ran.stderr.contains("others at their images"), "{ran:?}");
    assert!(ran.stdout.len() < printed.len(), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "begins", "{ran:?}");
    for told in ["round ", "total ", "ran 7", "all end: 3, ", "all 7"] {
        assert!(lines.iter().any(|line| line.starts_with(told)), "{told}: {ran:?}");
    }
    let mut all = printed.lines();
    assert!(lines.iter().all(|line| all.any(|one| one == *line)), "{printed}\n{ran:?}");
    // The last process began after all images, or nearly.
    let processes: Value =
        serde_json::from_str(&place.run(&["ps", "--json", "made"]).stdout).unwrap();
    let processes = processes.as_array().unwrap().iter();
    let last = processes.max_by_key(|one| one["stream"].as_u64()).unwrap()["pid"].to_string();
    let text = gdb(&place, &["-p", &last, "made"], &["when", "bt 1"]);
    in_order(&text, &["after recording began", "#0 "]);
    no_process_is_left(&place);
}

/// A process that began by vfork, and whose beginning is left out, cannot be made by replay. So its
/// maker begins at an image after that. Children that it makes after its image print.
#[test]
fn makers_begin_after_children_that_began_in_their_memory() {
    needs!("python3");
    let place = Place::new("late-guests");
    let child = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 0.1; (echo $i); done";
    let script = format!(
        "import os\n\
         for round in range(3):\n \
             child = os.posix_spawn('/bin/sh', ['sh', '-c', '{child}'], os.environ)\n \
             os.waitpid(child, 0)\n \
             print('round', round, flush=True)"
    );
    let arguments = ["record", "-o", "made", "--check=full", "--keep-last", "1s", "--", "python3"];
    let arguments = [&arguments[..], &["-c", &script]].concat();
    let recorded = place.run_within(&arguments, LIMIT);
    assert_eq!(recorded.status, Some(0), "{recorded:?}");
    let ran = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("retake: begins at image "), "{ran:?}");
    assert!(recorded.stdout.len() > ran.stdout.len() && ran.stdout.contains("16\n"), "{ran:?}");
}

fn no_recorder(place: &Place) -> bool {
    cli_support::debugging::left_behind(place).is_empty()
}

#[test]
fn the_debugger_goes_back_to_the_image() {
    needs!("gdb");
    let place = Place::new("late-debug");
    let (_, printed) = record_until(&place, &["--keep-last", "1s"], 2, "end");
    let rounds = printed.lines().filter(|line| line.starts_with("round")).count();
    let commands = [
        "print rounds",
        "when",
        "break next_round",
        "reverse-continue",
        "info breakpoints",
        "bt 2",
        "print number",
        "delete",
        "seek begin",
        "when",
        "print rounds > 1",
        "watch rounds",
        "continue",
        "print rounds > 2",
        "delete",
        "reverse-continue",
        "continue",
        "print rounds",
    ];
    let text = gdb(&place, &["--at", "exit", "made"], &commands);
    let (last, hit) = (format!("$1 = {rounds}"), format!("$2 = {rounds}"));
    in_order(
        &text,
        &[
            &last,
            "after recording began",
            "Breakpoint 1, next_round",
            "breakpoint already hit 1 time",
            "next_round (number=",
            "main (",
            &hit,
            "No more reverse-execution history",
            "after recording began",
            "$3 = 1",
            "Old value = ",
            "$4 = 1",
            "No more reverse-execution history",
            &format!("$5 = {rounds}"),
        ],
    );
    // A profile samples what is kept.
    place.run(&["replay", "--profile", "made.folded", "made"]);
    let profile = fs::read_to_string(place.work("made.folded")).unwrap();
    assert!(profile.contains("main"), "{profile}");
}
