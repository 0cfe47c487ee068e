//! `retake trace` as a user meets it: all ways to see the same calls, whole data, text, filters,
//! and what is left after a crash.

mod cli_support;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use cli_support::Place;
use cli_support::traces::{calls, compile, methods, moved, name, noise, records, whole};
use retake_trace_format::{MappedPages, StartKind, TraceRecord, TracedCall};

/// Traces a command by every method and, after recording it, from the recording.
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
        // Which process is which differs from run to run.
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
        // Two processes at once: in each order is the same.
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
    // It is killed when it sleeps, however long it takes to get there.
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

#[test]
fn stores_through_mappings_are_seen() {
    let place = Place::new("trace-mapped");
    let source = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int file = open("file", O_CREAT | O_RDWR, 0600);
    if (ftruncate(file, 4096)) return 1;
    char *bytes = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    bytes[5] = 'x';
    return munmap(bytes, 4096);
}
"#;
    compile(&place, source);
    for file in in_every_way(&place, &[], "out.ds", &["./program"]) {
        let records = whole(&place, &file);
        let is_it = |pages: &MappedPages| {
            pages.write
                && pages.data[5] == b'x'
                && pages.path == place.work("file").as_os_str().as_bytes()
        };
        assert!(
            records
                .iter()
                .any(|record| matches!(record, TraceRecord::MappedPages(pages) if is_it(pages))),
            "{file}"
        );
    }
}

#[test]
fn what_the_kernel_moves_is_in_recordings_that_keep_it() {
    let place = Place::new("trace-moved");
    let data = noise(100_000);
    fs::write(place.work("data"), &data).unwrap();
    for (option, is_kept) in [(None, false), (Some("--moved-data"), true)] {
        let record =
            [&["record", "-o", "recording"][..], option.as_slice(), &["cp", "data", "copy"]]
                .concat();
        assert_eq!(place.run(&record).status, Some(0));
        place.run_well(&["trace", "--from", "./recording", "-o", "out.ds"]);
        let records = records(&place, "out.ds");
        let moved: Vec<u8> = calls(&records)
            .iter()
            .filter_map(|call| call.moved())
            .flat_map(|buffer| buffer.data.to_vec())
            .collect();
        assert!(moved == if is_kept { &data[..] } else { &[] }, "{} bytes", moved.len());
        let is_said = |record: &TraceRecord| {
            matches!(record, TraceRecord::Incomplete(reason)
            if reason.contains("record --moved-data"))
        };
        assert_ne!(records.iter().any(is_said), is_kept);
        fs::remove_dir_all(place.work("recording")).unwrap();
    }
}

/// A program that goes through all ways in which the table describes buffers, with results that are
/// the same in every run.
const SHAPES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
static char big[3000000];
int main(void) {
    int pair[2], pipes[2];
    char one[16] = "first", two[16] = "second", in1[4], in2[64], name[108];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(pipes)) return 1;
    struct iovec out[2] = { { one, 5 }, { two, 6 } }, in[2] = { { in1, 4 }, { in2, 64 } };
    writev(pair[0], out, 2);
    readv(pair[1], in, 2);
    struct msghdr message = { .msg_iov = out, .msg_iovlen = 2 };
    sendmsg(pair[0], &message, 0);
    struct msghdr got = { .msg_iov = in, .msg_iovlen = 2, .msg_name = name, .msg_namelen = sizeof name };
    recvmsg(pair[1], &got, 0);
    struct mmsghdr many[2] = { { .msg_hdr = message }, { .msg_hdr = message } };
    sendmmsg(pair[0], many, 2, 0);
    struct pollfd polled[2] = { { pair[1], POLLIN, 0 }, { pipes[0], POLLIN, 0 } };
    poll(polled, 2, 0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[1], &set);
    struct timeval none = { 0, 0 };
    select(pair[1] + 1, &set, NULL, NULL, &none);
    int value = 0;
    socklen_t bytes = sizeof value;
    getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &value, &bytes);
    struct sockaddr_un address;
    bytes = sizeof address;
    getsockname(pair[0], (void *)&address, &bytes);
    ioctl(pair[1], FIONREAD, &value);
    recv(pair[1], in2, sizeof in2, 0);
    memset(big, 'x', sizeof big);
    int fd = open("big", O_CREAT | O_RDWR | O_TRUNC, 0600);
    pwrite(fd, big, sizeof big, 0);
    memset(big, 'y', sizeof big);
    pread(fd, big, sizeof big, 0);
    mkdir("folder", 0700);
    rename("folder", "other");
    symlink("some where", "link");
    readlink("link", name, sizeof name);
    rmdir("none");
    write(fd, (void *)8, 16);
    write(fd, NULL, 0);
    return 0;
}
"#;

#[test]
fn every_shape_of_buffer_is_seen_alike() {
    let place = Place::new("trace-shapes");
    compile(&place, SHAPES);
    let wanted = "writev,readv,sendmsg,recvmsg,sendmmsg,poll,select,getsockopt,\
                  getsockname,ioctl,recvfrom,pwrite64,pread64,mkdir,rename,symlink,readlink,rmdir,write";
    let mut seen: Vec<(&str, Vec<TracedCall>)> = Vec::new();
    for method in methods() {
        for leftover in ["other", "link"] {
            let _ = fs::remove_dir(place.work(leftover));
            let _ = fs::remove_file(place.work(leftover));
        }
        place.run_well(&["trace", "--method", method, "-e", wanted, "-o", "out.ds", "./program"]);
        let records = whole(&place, "out.ds");
        let plain = |call: &&TracedCall| {
            let mut call = (*call).clone();
            (
                call.id,
                call.process,
                call.thread,
                call.entered_ns,
                call.returned_ns,
                call.processor,
            ) = (0, 0, 0, 0, 0, 0);
            call.arguments = [0; 6]; // addresses differ from run to run
            for buffer in &mut call.buffers {
                buffer.address = 0;
            }
            call
        };
        // Before that the loader reads libraries, as many as this machine's have parts.
        let own: Vec<TracedCall> =
            calls(&records).iter().map(plain).skip_while(|call| name(call) != "writev").collect();
        seen.push((method, own));
    }
    let (_, first) = &seen[0];
    let names: Vec<&str> = first.iter().map(name).collect();
    assert_eq!(names.len(), 19, "{names:?}");
    for (method, other) in &seen[1..] {
        assert_eq!(other.len(), first.len(), "{method}");
        for (expected, call) in first.iter().zip(other) {
            let sizes = |call: &TracedCall| {
                call.buffers
                    .iter()
                    .map(|buffer| (buffer.argument, buffer.direction, buffer.data.len()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                (call.number, call.result, sizes(call)),
                (expected.number, expected.result, sizes(expected)),
                "{method} {}",
                name(call)
            );
            // Structures with pointers in them differ; what they point to is compared.
            let data = |call: &TracedCall| {
                call.buffers
                    .iter()
                    .map(|buffer| buffer.data.clone())
                    .filter(|data| ![16, 32, 56].contains(&data.len()))
                    .collect::<Vec<_>>()
            };
            assert!(data(call) == data(expected), "{method} {}", name(call));
        }
    }
}

#[test]
fn more_than_rings_hold_is_not_lost() {
    let place = Place::new("trace-flood");
    for method in methods() {
        place.run_well(&[
            "trace",
            "--method",
            method,
            "-e",
            "read,write",
            "-o",
            "out.ds",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=60000",
            "count=600",
            "status=none",
        ]);
        let records = whole(&place, "out.ds");
        for wanted in ["read", "write"] {
            let moved = calls(&records)
                .iter()
                .filter(|call| {
                    name(call) == wanted
                        && call.result == 60_000
                        && call.buffers[0].data.len() == 60_000
                })
                .count();
            assert_eq!(moved, 600, "{method} {wanted}");
        }
    }
}
