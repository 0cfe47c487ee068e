//! `retake trace` as a user meets it: all methods see the same calls and whole data; text, filters,
//! and the trace that is left after a crash.

#[path = "../cli_support/mod.rs"]
mod cli_support;
mod data;

use std::collections::{HashMap, HashSet};
use std::fs;

use cli_support::Place;
use cli_support::traces::{calls, compile, methods, moved, name, noise, whole};
use retake_trace_format::{StartKind, TraceRecord};

/// Traces a command by every method. Then records it, and traces the recording.
fn in_every_way(place: &Place, options: &[&str], output: &str, command: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    for method in methods() {
        let file = format!("{method}-{output}");
        let arguments =
            [&["trace", "--method", method, "-o", &file], options, &["--"], command].concat();
        assert_eq!(place.run(&arguments).status, Some(0), "{method}");
        files.push(file);
    }
    assert_eq!(
        place.run(&[&["record", "-o", "recording", "--"], command].concat()).status,
        Some(0)
    );
    let file = format!("from-{output}");
    place.run_well(&[&["trace", "--from", "./recording", "-o", &file], options].concat());
    files.push(file);
    files
}

#[test]
fn every_way_sees_the_same_calls() {
    let place = Place::new("trace-same");
    fs::write(place.work("data"), "some text\n").unwrap();
    let files = in_every_way(
        &place,
        &["-e", "openat,write,close,exit_group", "-q"],
        "out.txt",
        &["sh", "-c", "cat data none; exec tr a-z A-Z < data"],
    );
    let lines = |file: &String| {
        let text = fs::read_to_string(place.work(file)).unwrap();
        // Process numbers differ from run to run.
        let without_process = |line: &str| {
            line.trim_start_matches(|first: char| first.is_ascii_digit() || first == ' ').to_owned()
        };
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines()
            .map(without_process)
            .map(words)
            .filter(|line| !line.starts_with("execve("))
            .collect::<Vec<_>>()
    };
    let first = lines(&files[0]);
    assert!(first.iter().any(|line| line.starts_with("openat(AT_FDCWD, \"none\", O_RDONLY")
        && line.ends_with("-1 ENOENT (No such file or directory)")));
    assert!(
        first.iter().any(|line| line.starts_with("write(1, \"SOME TEXT\\n\", 10)")),
        "{first:?}"
    );
    for file in &files[1..] {
        let (mut expected, mut other) = (first.clone(), lines(file));
        // The order between two processes differs; the order in each does not.
        expected.sort();
        other.sort();
        assert_eq!(other, expected, "{file}");
    }
}

#[test]
fn data_are_whole_however_they_are_traced() {
    let place = Place::new("trace-whole");
    let data = noise(700_001);
    fs::write(place.work("data"), &data).unwrap();
    let files = in_every_way(&place, &[], "out.ds", &["dd", "if=data", "of=copy", "bs=100000"]);
    for file in &files {
        assert_eq!(fs::read(place.work("copy")).unwrap(), data);
        let records = whole(&place, file);
        let calls = calls(&records);
        // dd reads from 0 and writes to 1.
        assert!(moved(&calls, "read", 0) == data, "{file}: what was read");
        assert!(moved(&calls, "write", 1) == data, "{file}: what was written");
        let TraceRecord::ProcessStart(start) = &records[0] else {
            panic!("{file}: the state comes first")
        };
        assert!(
            start.how == StartKind::Exec
                && start.working_directory.ends_with(b"/work")
                && start.arguments.len() == 4,
            "{file}: {start:?}"
        );
    }
}

#[test]
fn processes_and_pipes_between_them_are_followed() {
    let place = Place::new("trace-pipes");
    fs::create_dir(place.work("tree")).unwrap();
    for number in 0..20 {
        fs::write(place.work(&format!("tree/{number}")), noise(number * 1000)).unwrap();
    }
    let script = "tar cf - tree | cat > archive";
    for file in in_every_way(&place, &[], "out.ds", &["sh", "-c", script]) {
        let records = whole(&place, &file);
        let calls = calls(&records);
        let processes: HashSet<u32> = calls.iter().map(|call| call.process).collect();
        assert_eq!(processes.len(), 3, "{file}");
        let of = |process: u32| {
            calls.iter().copied().filter(move |call| call.process == process).collect::<Vec<_>>()
        };
        let archive = fs::read(place.work("archive")).unwrap();
        let written =
            processes.iter().filter(|process| moved(&of(**process), "write", 1) == archive).count();
        assert_eq!(written, 2, "{file}: tar and cat both write the archive");
        let starts =
            records.iter().filter(|record| matches!(record, TraceRecord::ProcessStart(_))).count();
        assert_eq!(starts, 5, "{file}: three programs and two forks");
        for call in calls {
            assert!(
                call.returned_ns == 0 || call.returned_ns >= call.entered_ns,
                "{file}: {call:?}"
            );
        }
    }
}

#[test]
fn many_threads_run_in_parallel_and_lose_nothing() {
    let place = Place::new("trace-threads");
    let source = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *number) {
    char name[32];
    snprintf(name, sizeof name, "file-%ld", (long)number);
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    for (long i = 0; i < 200; i++) {
        long words[2] = { (long)number, i };
        if (pwrite(fd, words, sizeof words, i * 16) != 16) exit(1);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[64];
    for (long i = 0; i < 64; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 64; i++) pthread_join(threads[i], NULL);
    return 0;
}
"#;
    compile(&place, source);
    for file in in_every_way(&place, &["-e", "pwrite64"], "out.ds", &["./program"]) {
        let records = whole(&place, &file);
        let mut next: HashMap<u32, u64> = HashMap::new();
        for call in calls(&records) {
            let words: Vec<u64> = call.buffers[0]
                .data
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
                .collect();
            let expected = next.entry(call.thread).or_default();
            assert_eq!(words[1], *expected, "{file}: thread {} in its order", words[0]);
            *expected += 1;
        }
        assert!(next.len() == 64 && next.values().all(|count| *count == 200), "{file}: {next:?}");
    }
}

#[test]
fn text_is_like_that_of_strace() {
    let place = Place::new("trace-text");
    fs::write(place.work("data"), "some text\n").unwrap();
    for method in methods() {
        let ran = place.run(&[
            "trace",
            "--method",
            method,
            "-y",
            "-T",
            "-e",
            "trace=openat,read",
            "-P",
            "data",
            "cat",
            "data",
        ]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "some text\n"), "{ran:?}");
        let lines: Vec<&str> = ran.stderr.lines().collect();
        let path = place.work("data").canonicalize().unwrap();
        let at = lines
            .iter()
            .position(|line| line.contains("\"data\", O_RDONLY"))
            .expect("the file is opened");
        assert!(lines[at].contains(&format!(" = 3<{}> <0.", path.display())), "{ran:?}");
        assert!(
            lines[at + 1]
                .starts_with(&format!("read(3<{}>, \"some text\\n\", 131072)", path.display())),
            "{ran:?}"
        );
        assert!(lines.last().unwrap().contains("+++ exited with 0 +++"), "{ran:?}");
    }
    let ran = place.run(&["trace", "-c", "-S", "calls", "cat", "data"]);
    assert!(
        ran.stderr.starts_with("% time")
            && ran.stderr.contains(" p99 ")
            && ran.stderr.ends_with(" total\n"),
        "{ran:?}"
    );
    place.run_badly(&["trace", "-e", "reed", "true"], 125, &["reed", "retake trace --help"]);
    place.run_badly(&["trace", "--method", "in-process", "-p", "1"], 125, &["--method ebpf"]);
    place.run_badly(&["trace", "--method", "ptrace", "-p", "999999999"], 125, &["999999999"]);
    for method in methods() {
        place.run_badly(
            &["trace", "--method", method, "./no-such-program"],
            127,
            &["no-such-program"],
        );
    }
}

#[test]
fn strings_are_in_hexadecimal_if_asked() {
    let place = Place::new("trace-hexadecimal");
    for (option, shown) in [("-q", r#"\1a\n"#), ("-x", r"\x01\x61\x0a"), ("-xx", r"\x01\x61\x0a")] {
        let ran = place.run(&["trace", option, "-e", "write", "printf", r"\1a\n"]);
        assert!(ran.stderr.contains(&format!("write(1, \"{shown}\", 3)")), "{option}: {ran:?}");
    }
}

#[test]
fn calls_that_never_return_and_deaths_are_told() {
    let place = Place::new("trace-deaths");
    // The signal comes when it sleeps, however long it takes to get there.
    let script = "sleep 100 & i=0; until grep -q nanosleep /proc/$!/wchan || [ $i = 100 ]; do \
    i=$((i+1)); sleep 0.1; done; kill -9 $!; wait; exit 3";
    for method in methods() {
        let ran = place.run(&["trace", "--method", method, "sh", "-c", script]);
        assert_eq!(ran.status, Some(3), "{method}: {}", ran.stderr);
        let has = |text: &str| ran.stderr.lines().any(|line| line.contains(text));
        let sleeps =
            |line: &str| line.contains("nanosleep(") && line.ends_with(" <unfinished ...>");
        assert!(ran.stderr.lines().any(sleeps), "{method}: {}", ran.stderr);
        assert!(
            has("+++ killed by SIGKILL +++") && has("+++ exited with 3 +++"),
            "{method}: {}",
            ran.stderr
        );
    }
}

#[test]
fn limits_keep_what_matters() {
    let place = Place::new("trace-limits");
    fs::write(place.work("data"), noise(5000)).unwrap();
    for method in methods() {
        for (option, kept) in [("--no-data", 0), ("--data-limit=7", 7)] {
            place.run_well(&[
                "trace",
                "--method",
                method,
                option,
                "-o",
                "out.ds",
                "dd",
                "if=data",
                "of=copy",
                "bs=5000",
                "status=none",
            ]);
            let records = whole(&place, "out.ds");
            let calls = calls(&records);
            let read = calls
                .iter()
                .find(|call| name(call) == "read" && call.result == 5000)
                .expect("it was read");
            assert!(
                read.buffers
                    .iter()
                    .all(|buffer| buffer.total_bytes == 5000 && buffer.data.len() == kept),
                "{method} {option}"
            );
            let open =
                calls.iter().find(|call| name(call) == "openat" && call.buffers[0].data == b"copy");
            assert!(open.is_some(), "{method} {option}: paths are whole");
        }
    }
}
