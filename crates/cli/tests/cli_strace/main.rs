//! Compares the output of `retake trace` with that of strace.

#[path = "../cli_support/mod.rs"]
mod cli_support;
mod options;

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use cli_support::Place;
use cli_support::traces::compile;
use retake_testing::needs;
use retake_testing::needs::is_lacking;

/// A tracer's lines without the number of the process. The two parts of an interrupted line are
/// joined.
fn whole_lines(text: &str) -> Vec<String> {
    let mut begun: HashMap<String, String> = HashMap::new();
    let mut whole = Vec::new();
    for line in text.lines() {
        let (process, rest) = line.split_once(' ').unwrap_or(("", line));
        let rest = rest.trim_start();
        if let Some(beginning) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(process.to_owned(), beginning.to_owned());
        } else if let Some((_, end)) =
            rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"))
        {
            let beginning = begun.remove(process).unwrap_or_else(|| panic!("not begun: {line}"));
            whole.push(beginning + end);
        } else {
            whole.push(rest.to_owned());
        }
    }
    // The process ended in these calls.
    whole.extend(begun.into_values());
    whole
}

/// The sorted lines of calls whose texts do not depend on the tracer, and of the ends of processes.
/// Process ids and addresses are removed.
fn comparable(text: &str, names: &[&str]) -> Vec<String> {
    let is_meant = |line: &String| {
        let is_of = |name| line.strip_prefix(name).is_some_and(|rest: &str| rest.starts_with('('));
        line.starts_with("+++") || names.iter().any(is_of)
    };
    let plain = |line: String| {
        let words = line.split("0x").enumerate().map(|(index, part)| {
            if index == 0 {
                part
            } else {
                part.trim_start_matches(|it: char| it.is_ascii_hexdigit())
            }
        });
        let line =
            words.collect::<Vec<_>>().join("0x").split_whitespace().collect::<Vec<_>>().join(" ");
        // The remaining time and the number of a new thread differ from run to run.
        let ends = if line.starts_with("clone") {
            [" => ", " = "].as_slice()
        } else {
            &[", left ", "], left "]
        };
        ends.iter()
            .filter_map(|end| line.find(end))
            .min()
            .map_or(line.clone(), |end| line[..end].to_owned())
    };
    let mut lines: Vec<String> =
        whole_lines(text).into_iter().filter(is_meant).map(plain).collect();
    lines.sort();
    lines
}

/// The lines of a program's calls with these names, traced by strace and by `retake trace` with
/// ptrace.
fn side_by_side(
    place: &Place,
    options: &[&str],
    program: &[&str],
    names: &[&str],
) -> (Vec<String>, Vec<String>) {
    // Locales and cargo's library path would change the files that a program loads.
    let environment =
        |command: &mut Command| _ = command.env("LC_ALL", "C").env_remove("LD_LIBRARY_PATH");
    let mut strace = strace();
    environment(
        strace
            .args(["-f", "-o", "strace.txt"])
            .args(options)
            .args(program)
            .current_dir(place.work("")),
    );
    let strace = strace.output().unwrap();
    assert!(strace.status.success(), "{strace:?}");
    let ours = [
        ["trace", "--method", "ptrace", "-f", "-o", "ours.txt"].as_slice(),
        options,
        &["--"],
        program,
    ]
    .concat();
    let ran = place.run_command(&ours, Duration::from_secs(60), environment);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let text = |name| fs::read_to_string(place.work(name)).unwrap();
    (comparable(&text("strace.txt"), names), comparable(&text("ours.txt"), names))
}

/// Checks that both have the same lines, each equally often. The order does not matter.
fn assert_same(theirs: &[String], ours: &[String], what: &str) {
    let without = |lines: &[String], others: &[String]| {
        let mut rest = others.to_vec();
        let is_more = |line: &&String| {
            rest.iter().position(|other| other == *line).map(|at| rest.swap_remove(at)).is_none()
        };
        lines.iter().filter(is_more).cloned().collect::<Vec<_>>()
    };
    let (missing, surplus) = (without(theirs, ours), without(ours, theirs));
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "{what}: only strace has {missing:#?}, only we have {surplus:#?}"
    );
}

/// strace with the default signal dispositions, which retake sets for its programs. The tests
/// themselves may run with ignored signals.
fn strace() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", "strace"]);
    command
}

#[test]
fn lines_are_those_that_strace_prints() {
    const NAMES: [&str; 11] = [
        "access",
        "close",
        "dup2",
        "fcntl",
        "mmap",
        "mprotect",
        "openat",
        "pread64",
        "prlimit64",
        "read",
        "rt_sigaction",
    ];
    needs!("strace");
    let place = Place::new("trace-beside-strace");
    fs::write(place.work("data"), "some text\n").unwrap();
    let program = [
        "sh",
        "-c",
        "trap 'echo end' TERM; (exit 3); read x < data; echo $x > copy; cat data none; exit 0",
    ];
    let (theirs, ours) = side_by_side(&place, &[], &program, &NAMES);
    assert!(theirs.len() > 40);
    assert_same(&theirs, &ours, "sh");
    // The path in the first exec is the one found in PATH.
    let first = |name: &str| {
        fs::read_to_string(place.work(name))
            .unwrap()
            .lines()
            .next()
            .and_then(|line| line.split('"').nth(1).map(str::to_owned))
    };
    assert_eq!(first("ours.txt"), first("strace.txt"));
}

/// Waits in every way, and makes a process and a thread.
const WAITS: &str = "#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *thread(void *argument) { return argument; }
int main(void)
{
	int ends[2];
	char bytes[4];
	if (pipe(ends) || write(ends[1], \"abc\", 3) != 3)
		return 1;
	struct pollfd polled[2] = { { ends[0], POLLIN, 0 }, { ends[1], POLLOUT | POLLIN, 0 } }, none = { -1, POLLIN, 0 };
	struct timespec soon = { 0, 1000000 };
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	poll(polled, 2, 100);
	poll(&none, 1, 1);
	ppoll(polled, 2, &soon, &set);
	fd_set to_read = { 0 }, to_write = { 0 };
	FD_SET(ends[0], &to_read);
	FD_SET(ends[1], &to_write);
	pselect(ends[1] + 1, &to_read, &to_write, NULL, &soon, &set);
	struct timeval later = { 1, 0 };
	syscall(SYS_select, ends[1] + 1, &to_read, NULL, NULL, &later);
	if (read(ends[0], bytes, 3) != 3)
		return 1;
	poll(polled, 1, 1);
	ppoll(polled, 1, &soon, NULL);
	pselect(ends[0] + 1, &to_read, NULL, NULL, &soon, NULL);
	fcntl(ends[0], F_GETFL);
	void *memory = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mremap(memory, 8192, 4096, MREMAP_MAYMOVE);
	pid_t child = fork();
	if (!child)
		_exit(3);
	waitpid(child, NULL, 0);
	pthread_t made;
	return pthread_create(&made, NULL, thread, NULL) || pthread_join(made, NULL);
}
";

#[test]
fn waiting_and_making_threads_look_as_strace_prints_them() {
    const NAMES: [&str; 9] =
        ["poll", "ppoll", "select", "pselect6", "fcntl", "mremap", "clone", "clone3", "rseq"];
    needs!("strace");
    let place = Place::new("trace-waits-beside-strace");
    compile(&place, WAITS);
    let (theirs, ours) = side_by_side(&place, &[], &["./program"], &NAMES);
    assert!(theirs.len() >= 9);
    assert_same(&theirs, &ours, "waits");
}

/// Programs that use files, sockets and processes in various ways.
const PROGRAMS: [(&str, &[&str]); 9] = [
    ("ls", &["ls", "-l", "tree"]),
    ("cp", &["cp", "-a", "tree", "copy"]),
    ("tar", &["tar", "cf", "archive", "tree"]),
    ("git", &["git", "hash-object", "tree/file"]),
    (
        "sqlite3",
        &["sqlite3", "base", "create table t(a); insert into t values(1); select * from t"],
    ),
    ("bash", &["bash", "-c", "for i in 1 2; do echo $i | cat; done; exit 0"]),
    ("make", &["make", "-s", "-f", "tree/makefile"]),
    (
        "python3",
        &[
            "python3",
            "-S",
            "-c",
            "import socket; a, b = socket.socketpair(); a.send(b'hi'); b.recv(9); \
            socket.create_server(('127.0.0.1', 0))",
        ],
    ),
    ("curl", &["curl", "-s", "-o", "got", "file:///etc/passwd"]),
];

/// The calls that are compared. Calls that depend on chance or on the machine are left out.
const TOLD: [&str; 30] = [
    "access",
    "bind",
    "chmod",
    "dup2",
    "fchmod",
    "fchown",
    "fcntl",
    "fgetxattr",
    "flistxattr",
    "fsync",
    "getcwd",
    "getdents64",
    "getpeername",
    "getsockname",
    "getsockopt",
    "ioctl",
    "listen",
    "lseek",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "openat",
    "pipe2",
    "prlimit64",
    "recvfrom",
    "sendto",
    "setsockopt",
    "socket",
    "socketpair",
    "uname",
];

#[test]
fn real_programs_look_as_strace_prints_them() {
    needs!("strace");
    for (name, program) in PROGRAMS {
        if !["ls", "cp"].contains(&name) && is_lacking(name) {
            continue;
        }
        for (options, count) in [(&[][..], 10), (&["-v", "-s", "1000"][..], 10)] {
            let place = Place::new(&format!("trace-{name}-beside-strace"));
            let (theirs, ours) = (
                made(&place, options, program, "strace"),
                made(&place, options, program, "retake"),
            );
            assert!(theirs.len() >= count, "{name}");
            assert_same(&theirs, &ours, &format!("{name} {options:?}"));
        }
    }
}

/// The lines of one tracer for a program, run in a new folder with the same content each time.
fn made(place: &Place, options: &[&str], program: &[&str], tracer: &str) -> Vec<String> {
    let work = place.work("");
    fs::remove_dir_all(&work).unwrap();
    fs::create_dir_all(work.join("tree/folder")).unwrap();
    fs::write(work.join("tree/file"), "some text").unwrap();
    fs::write(work.join("tree/makefile"), "all:\n\techo made > made\n").unwrap();
    let lines = place.work("../lines.txt").display().to_string();
    let before = ["-f", "-o", &lines];
    let environment = |command: &mut Command| {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("HOME", place.work(".."))
            .env("TMPDIR", "/tmp");
        command.env("RETAKE_DIR", place.work("../retake")).stdin(std::process::Stdio::null());
    };
    if tracer == "strace" {
        let mut strace = strace();
        environment(strace.args(before).args(options).args(program).current_dir(&work));
        let ran = strace.output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    } else {
        let arguments =
            [&["trace", "--method", "ptrace"][..], &before, options, &["--"], program].concat();
        let ran = place.run_command(&arguments, Duration::from_secs(60), environment);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let text = fs::read_to_string(&lines).unwrap();
    // Of a listing longer than the data limit, retake shows only the size.
    let is_long = |line: &str| {
        line.starts_with("getdents64(")
            && line
                .rsplit(" = ")
                .next()
                .is_some_and(|bytes| bytes.parse().is_ok_and(|bytes: u64| bytes > 4096))
    };
    comparable(&text, &TOLD)
        .into_iter()
        .filter(|line| !is_long(line))
        .map(|line| steady(&line, if options.is_empty() { 5 } else { 1 }))
        .collect()
}

/// Replaces numbers of at least `digits` digits, which differ from run to run.
fn steady(line: &str, digits: usize) -> String {
    let mut steady = String::new();
    for part in line.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
        let number =
            part.len() - part.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let is_long = number >= digits;
        steady += if is_long { "#" } else { &part[..number] };
        steady += &part[number..];
    }
    steady
}
