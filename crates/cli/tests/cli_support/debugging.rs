//! Drives the real gdb on a replay.

use retake_testing::c::compiler;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Place;

/// Functions that a user may call from gdb.
pub const CALLED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
int counter = 10;
double half(double x) { return x / 2; }
int add(int x)
{
	counter += x;
	return counter;
}
int say(const char *text)
{
	char line[64];
	snprintf(line, sizeof line, "said %s\n", text);
	return write(1, line, strlen(line));
}
int leave(const char *path) { return open(path, O_CREAT | O_WRONLY, 0600); }
int large(void)
{
	char *bytes = malloc(1 << 20);
	memset(bytes, 1, 1 << 20);
	return bytes[4096];
}
int quit(void) { exit(9); }
int stop(int x) { return x + 1; }
int main(void)
{
	char *text = strdup("program");
	int pid = getpid();
	stop(pid);
	printf("%s %d\n", text, counter);
	return counter;
}
"#;

/// Computes for a long time without an event.
pub const BUSY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int once;
unsigned long rounds, total;
unsigned long mix(unsigned long x, unsigned long i)
{
	return x * 6364136223846793005UL + i;
}
int done(unsigned long x) { return x & 7; }
int main(int argc, char **argv)
{
	unsigned long x = 1;
	rounds = strtoul(argv[1], NULL, 10);
	getpid();
	for (unsigned long i = 0; i < rounds; i++) {
		x = mix(x, i);
		if (i == rounds / 50)
			once = 1;
	}
	total = x;
	getpid();
	return done(x);
}
"#;

/// The time limit for many commands in one run, on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(240);

/// Exits with a status. With an argument, writes through a null pointer.
pub const PLAIN: &str = r#"
#include <stdio.h>
#include <unistd.h>
struct node { int value; struct node *next; };
int counter;
int twice(int x)
{
	counter++;
	return 2 * x;
}
int follow(struct node *node)
{
	return node->next->value;
}
int main(int argc, char **argv)
{
	struct node node = { 5, 0 };
	int sum = 0;
	for (int i = 0; i < 10; i++)
		sum += twice(i);
	printf("sum %d of %d\n", sum, getpid());
	fflush(stdout);
	if (argc > 1)
		return follow(&node);
	return 3;
}
"#;

/// Compiles a C program with debug information. Returns its path.
pub fn compile(place: &Place, name: &str, source: &str, options: &[&str]) -> String {
    compile_with(&compiler(), &place.work(&format!("{name}.c")), &place.work(name), source, options)
}

/// Compiles a C++ program with debug information. Returns its path.
pub fn compile_cpp(place: &Place, name: &str, source: &str, options: &[&str]) -> String {
    compile_with("g++", &place.work(&format!("{name}.cc")), &place.work(name), source, options)
}

fn compile_with(compiler: &str, from: &Path, to: &Path, source: &str, options: &[&str]) -> String {
    std::fs::write(from, source).unwrap();
    let status = Command::new(compiler)
        .args(["-g", "-pthread", "-o"])
        .arg(to)
        .arg(from)
        .args(options)
        .status()
        .unwrap();
    assert!(status.success());
    to.to_string_lossy().into_owned()
}

/// The output of gdb for these commands on the latest recording. It starts at the beginning, unless
/// `options` say otherwise.
pub fn gdb(place: &Place, options: &[&str], commands: &[&str]) -> String {
    let mut arguments = vec!["debug"];
    if !options.contains(&"--at") {
        arguments.extend(["--at", "begin"]);
    }
    arguments.extend(options);
    arguments.extend(["--", "-nx", "-batch", "-ex", "set width 0"]);
    for command in commands {
        arguments.extend(["-ex", command]);
    }
    let ran = place.run_within(&arguments, TIME_LIMIT);
    assert!(
        !ran.stderr.contains("error: ") && !ran.stdout.contains("Remote connection closed"),
        "{ran:?}"
    );
    no_process_is_left(place);
    ran.stdout + "\n--- standard error\n" + &ran.stderr
}

/// Checks that no process started by this test is alive.
pub fn no_process_is_left(place: &Place) {
    let left = left_behind(place);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The command lines of this test's processes that are alive.
pub fn left_behind(place: &Place) -> Vec<String> {
    let mine = place.work("");
    let is_here = |path: &std::path::Path| {
        std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&mine))
    };
    let command = |path: &std::path::Path| {
        String::from_utf8_lossy(&std::fs::read(path.join("cmdline")).unwrap_or_default())
            .into_owned()
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|path| is_here(path))
        .map(|path| command(&path))
        .filter(|command| !command.is_empty())
        .collect()
}

/// Checks that the text has these parts in this order.
pub fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some(at) = rest.find(part) else {
            panic!("no {part:?} where it should be in:\n{text}")
        };
        rest = &rest[at + part.len()..];
    }
}

/// Records a program with its arguments.
pub fn record(place: &Place, program: &[&str]) {
    let mut arguments = vec!["record", "--"];
    arguments.extend(program);
    place.run(&arguments);
}
