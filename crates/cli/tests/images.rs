//! Images of recorded processes: `retake record --image-every`, `retake replay --from`.

mod cli_support;

use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use cli_support::debugging::{gdb, in_order, no_process_is_left};
use cli_support::started::{Started, wait_until};
use cli_support::{Place, compile_program};
use retake_testing::needs;
use serde_json::Value;

/// The time limit of these programs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Records a program of tests/images in `made` until there are `count` images. Returns its exit
/// status and its output.
fn record_images(place: &Place, program: &str, options: &[&str], count: usize) -> (i32, String) {
    let executable = place.work(program);
    compile_program(&format!("images/{program}"), &["-O1", "-lm"], &executable);
    let executable = executable.to_str().unwrap();
    let arguments = ["record", "-o", "made", "--image-every", "20ms"];
    let arguments = [&arguments[..], options, &["--", executable]].concat();
    let printed = place.work("printed");
    let output = File::create(&printed).unwrap();
    let mut recorder =
        Started::new(place.command(&arguments).stdout(output).stderr(Stdio::inherit()));
    let folder = place.work("made/checkpoints");
    wait_until("images", LIMIT, || {
        fs::read_dir(&folder).is_ok_and(|entries| entries.count() > count)
    });
    File::create(place.work("enough")).unwrap();
    let status = recorder.wait(LIMIT);
    no_process_is_left(place);
    (status.code().expect("it exits"), fs::read_to_string(printed).unwrap())
}

fn images(place: &Place) -> Vec<Value> {
    let list = place.run_json(&["checkpoint", "--list", "--json", "made"]);
    list.as_array().unwrap().clone()
}

/// Replays from each image. Each replay ends as the program did, and prints the rest of its output.
/// A later image prints no more than an earlier one; the last may print nothing.
fn all_are_good(place: &Place, status: i32, printed: &str) {
    let all = images(place);
    assert!(all.len() > 2, "{all:?}");
    let mut rest = printed;
    for (index, image) in all.iter().enumerate() {
        let number = image["number"].to_string();
        let ran = place.run_within(&["replay", "--from", &number, "made"], LIMIT);
        assert_eq!(ran.status, Some(status), "{ran:?}");
        assert!(rest.ends_with(&ran.stdout), "{rest}\n{ran:?}");
        assert!(index > 0 || !ran.stdout.is_empty(), "{ran:?}");
        rest = &rest[rest.len() - ran.stdout.len()..];
    }
    no_process_is_left(place);
}

#[test]
fn replay_begins_at_every_image() {
    let place = Place::new("images-memory");
    let (status, printed) = record_images(&place, "memory", &["--check=full"], 4);
    assert_eq!(status, 3);
    in_order(&printed, &["0 ", "end "]);
    all_are_good(&place, status, &printed);
    // The recording itself replays as usual.
    let ran = place.run_within(&["replay", "made"], LIMIT);
    assert_eq!((ran.status, ran.stdout), (Some(3), printed));
}

#[test]
fn threads_go_on_wherever_they_wait() {
    let place = Place::new("images-threads");
    let (status, printed) = record_images(&place, "threads", &["--check=full"], 6);
    assert_eq!(status, 5, "{printed}");
    all_are_good(&place, status, &printed);
}

/// The copy has memory that children do not get. They still do not get it, also at replay.
#[test]
fn memory_that_children_do_not_get_is_in_images() {
    let place = Place::new("images-kept-back");
    let (status, printed) = record_images(&place, "kept_back", &["--check=full"], 6);
    assert_eq!(status, 4, "{printed}");
    assert!(printed.lines().all(|line| line.contains(": 24 ") || line.starts_with("end ")));
    all_are_good(&place, status, &printed);
}

#[test]
fn the_program_sees_nothing_of_images() {
    let place = Place::new("images-unseen");
    let (status, printed) = record_images(&place, "unseen", &[], 4);
    assert_eq!((status, printed.as_str()), (0, "nothing was seen\n"));
}

#[test]
fn the_debugger_begins_at_images() {
    needs!("gdb");
    let place = Place::new("images-debugger");
    record_images(&place, "memory", &[], 20);
    let at_exit = ["--at", "exit", "made"];
    let told = gdb(&place, &at_exit, &["reverse-stepi", "monitor hash"]);
    in_order(&told, &["_exit", "retake: begins at checkpoint"]);
    // Without images the whole recording is replayed, to the same state.
    place.run_well(&["checkpoint", "--delete", "all", "made"]);
    let replayed = gdb(&place, &at_exit, &["reverse-stepi", "monitor hash"]);
    let hash = |text: &str| {
        let is_hash =
            |line: &&str| line.len() == 16 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        text.lines().find(is_hash).map(str::to_owned)
    };
    assert!(hash(&told).is_some() && hash(&told) == hash(&replayed), "{told}\n{replayed}");
}

#[test]
fn images_that_there_are_not_are_told() {
    let place = Place::new("images-none");
    place.run(&["record", "-o", "made", "--", "true"]);
    place.run_badly(&["replay", "--from", "last", "made"], 125, &["no image", "--image-every"]);
    place.run_badly(&["replay", "--from", "soon", "made"], 125, &["expected a number"]);
    place.run_badly(&["record", "--image-every", "1ms", "--", "true"], 125, &["the least is 10ms"]);
    for (option, value, why) in
        [("--policy", "sync", "in parallel"), ("--on-full", "drop-oldest", "would stay")]
    {
        let arguments = ["record", "--image-every", "1s", option, value, "--", "true"];
        place.run_badly(&arguments, 125, &[why]);
    }
    fs::remove_dir_all(place.work("made")).unwrap();
    record_images(&place, "unseen", &[], 2);
    place.run_badly(&["replay", "--from", "999", "made"], 125, &["no such image"]);
}
