//! What `retake trace` prints, held side by side with what strace prints.

mod cli_support;

use std::fs;
use std::process::Command;
use std::time::Duration;

use cli_support::Place;
use cli_support::traces::compile;

/// Lines of calls whose texts do not depend on who looks, without process ids and addresses, sorted. Calls that strace shows in two parts are left out.
fn comparable(text: &str, names: &[&str]) -> Vec<String> {
    let without_process = |line: &str| line.trim_start_matches(|first: char| first.is_ascii_digit() || first == ' ').to_owned();
    let is_meant = |line: &String| {
        names.iter().any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))) && !line.ends_with("<unfinished ...>")
    };
    let plain = |line: String| {
        let words = line
            .split("0x")
            .enumerate()
            .map(|(index, part)| if index == 0 { part } else { part.trim_start_matches(|it: char| it.is_ascii_hexdigit()) });
        let line = words.collect::<Vec<_>>().join("0x").split_whitespace().collect::<Vec<_>>().join(" ");
        // How much time was left, and which number a thread got, is up to the machine.
        let ends = if line.starts_with("clone") { [" => ", " = "].as_slice() } else { &[", left ", "], left "] };
        ends.iter().filter_map(|end| line.find(end)).min().map_or(line.clone(), |end| line[..end].to_owned())
    };
    let lines = text.lines().map(|line| line.split_once("] ").filter(|_| line.starts_with("[pid")).map_or(line, |(_, line)| line));
    let mut lines: Vec<String> = lines.map(without_process).filter(is_meant).map(plain).collect();
    lines.sort();
    lines
}

/// The lines of a program's calls of these names, under strace and traced by ptrace.
fn side_by_side(place: &Place, program: &[&str], names: &[&str]) -> (Vec<String>, Vec<String>) {
    // What a program loads would differ: locales, and libraries from where cargo has its own.
    let environment = |command: &mut Command| _ = command.env("LC_ALL", "C").env_remove("LD_LIBRARY_PATH");
    let mut strace = Command::new("strace");
    environment(strace.args(["-f", "-o", "strace.txt"]).args(program).current_dir(place.work("")));
    let strace = strace.output().unwrap();
    assert!(strace.status.success(), "{strace:?}");
    let ours = [["trace", "--method", "ptrace", "-o", "ours.txt", "--"].as_slice(), program].concat();
    let ran = place.run_command(&ours, Duration::from_secs(60), environment);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let text = |name| fs::read_to_string(place.work(name)).unwrap();
    (comparable(&text("strace.txt"), names), comparable(&text("ours.txt"), names))
}

fn has_strace() -> bool {
    let is_there = Command::new("strace").arg("-V").output().is_ok();
    if !is_there {
        eprintln!("skipped: strace is not there (Debian: strace)");
    }
    is_there
}

#[test]
fn lines_are_those_that_strace_prints() {
    const NAMES: [&str; 11] = ["access", "close", "dup2", "fcntl", "mmap", "mprotect", "openat", "pread64", "prlimit64", "read", "rt_sigaction"];
    if !has_strace() {
        return;
    }
    let place = Place::new("trace-beside-strace");
    fs::write(place.work("data"), "some text\n").unwrap();
    let program = ["sh", "-c", "trap 'echo end' TERM; (exit 3); read x < data; echo $x > copy; cat data none; exit 0"];
    let (theirs, ours) = side_by_side(&place, &program, &NAMES);
    let missing: Vec<&String> = theirs.iter().filter(|line| !ours.contains(line)).collect();
    assert!(theirs.len() > 40 && missing.is_empty(), "only strace has: {missing:#?} of {ours:#?}");
    // The first program's name is what was found for it.
    let first = |name: &str| fs::read_to_string(place.work(name)).unwrap().lines().next().and_then(|line| line.split('"').nth(1).map(str::to_owned));
    assert_eq!(first("ours.txt"), first("strace.txt"));
}

/// Waits in every way, makes a process and a thread.
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
    const NAMES: [&str; 9] = ["poll", "ppoll", "select", "pselect6", "fcntl", "mremap", "clone", "clone3", "rseq"];
    let place = Place::new("trace-waits-beside-strace");
    if !has_strace() || !compile(&place, WAITS) {
        return;
    }
    let (theirs, ours) = side_by_side(&place, &["./program"], &NAMES);
    let missing: Vec<&String> = theirs.iter().filter(|line| !ours.contains(line)).collect();
    assert!(theirs.len() >= 9 && missing.is_empty(), "only strace has: {missing:#?} of {ours:#?}");
}
