//! `retake debug`: real gdb on replays of small programs.

mod cli_support;

use std::process::Command;

use cli_support::Place;

/// A program to debug: leaves by its status, or with an argument through a null pointer.
const PLAIN: &str = r#"
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

/// Three threads take turns at a variable; a signal comes before them.
const THREADS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int shared, handled;
__thread int mine;
static void handler(int number) { handled = number; }
static void *worker(void *argument)
{
	mine = (int)(long)argument;
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&lock);
		shared += mine;
		pthread_mutex_unlock(&lock);
		usleep(100);
	}
	return NULL;
}
int main(void)
{
	pthread_t threads[3];
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return shared;
}
"#;

/// Whether gdb is there; says so if it is not.
fn has_gdb() -> bool {
    let found = Command::new("gdb").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no gdb here");
    }
    found
}

fn compile(place: &Place, name: &str, source: &str, options: &[&str]) -> String {
    let (from, to) = (place.work(&format!("{name}.c")), place.work(name));
    std::fs::write(&from, source).unwrap();
    let status = Command::new("gcc").args(["-g", "-pthread", "-o"]).arg(&to).arg(&from).args(options).status().unwrap();
    assert!(status.success());
    to.to_string_lossy().into_owned()
}

/// What gdb prints for these commands at the latest recording.
fn gdb(place: &Place, options: &[&str], commands: &[&str]) -> String {
    let mut arguments = vec!["debug"];
    arguments.extend(options);
    arguments.extend(["--", "-nx", "-batch", "-ex", "set width 0"]);
    for command in commands {
        arguments.extend(["-ex", command]);
    }
    let ran = place.run(&arguments);
    assert!(!ran.stderr.contains("error: ") && !ran.stdout.contains("Remote connection closed"), "{ran:?}");
    no_process_is_left(place);
    ran.stdout + "\n--- standard error\n" + &ran.stderr
}

/// Nobody lives on who was started by a command of this test.
fn no_process_is_left(place: &Place) {
    let mine = place.work("");
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let is_here = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&mine));
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!is_here || command.is_empty(), "left behind: {}", String::from_utf8_lossy(&command));
    }
}

/// The parts must come in this order.
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some(at) = rest.find(part) else { panic!("no {part:?} where it should be in:\n{text}") };
        rest = &rest[at + part.len()..];
    }
}

fn record(place: &Place, program: &[&str]) {
    let mut arguments = vec!["record", "--"];
    arguments.extend(program);
    place.run(&arguments);
}

#[test]
fn breakpoints_values_and_the_end() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-plain");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let commands = ["break twice", "continue", "continue", "backtrace", "print x", "print counter", "finish", "delete", "continue", "continue"];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["twice (x=0)", "twice (x=1)", "#0", "twice (x=1)", "#1", "main (argc=1", "= 1", "= 1", "Value returned is $3 = 2"]);
    in_order(&text, &["No more reverse-execution history", "exited with code 03"]);
}

#[test]
fn a_crash_is_seen_where_it_happens() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-crash");
    let program = compile(&place, "plain", PLAIN, &["-O1", "-fno-inline"]);
    record(&place, &[&program, "crash"]);
    let text = gdb(&place, &[], &["continue", "backtrace", "print counter", "continue", "continue"]);
    in_order(&text, &["SIGSEGV", "#0", "plain.c", "main", "= 10", "No more reverse-execution history", "terminated with signal SIGSEGV"]);
}

#[test]
fn the_runtime_is_invisible() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-runtime");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let commands = [
        "break main",
        "continue",
        "break getpid",
        "continue",
        "x/2i $pc",
        "set $start = $pc",
        "stepi",
        "print $pc - $start",
        "stepi",
        "print $rax > 1",
        "x/x 0x690000000000",
        "info proc mappings",
        "info threads",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["mov    $0x27,%eax", "syscall", "= 5", "= 1", "Cannot access memory"]);
    let is_ours = |line: &str| line.trim_start().starts_with("0x69") && line.contains("-p");
    assert!(!text.lines().any(is_ours) && text.contains("-p"), "{text}");
}

#[test]
fn threads_signals_and_watchpoints() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-threads");
    let program = compile(&place, "threads", THREADS, &[]);
    record(&place, &[&program]);
    let commands = [
        "continue",
        "break handler",
        "continue",
        "backtrace",
        "break worker",
        "continue",
        "info threads",
        "backtrace",
        "delete",
        "watch shared",
        "continue",
        "continue",
        "delete",
        "next",
        "next",
        "continue",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["received signal SIGUSR1", "handler (number=10)", "<signal handler called>", "main ()", "worker (argument="]);
    in_order(&text, &["worker (argument=", "Thread 1.", "start_thread", "Old value = 0", "New value", "exited with code 036"]);
}

#[test]
fn backwards_over_breakpoints_and_steps() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-back");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program, "crash"]);
    let commands = [
        "continue",
        "break twice",
        "reverse-continue",
        "print x",
        "reverse-continue",
        "print x",
        "continue",
        "print x",
        "delete",
        "reverse-finish",
        "reverse-next",
        "print i",
        "break main",
        "reverse-continue",
        "info breakpoints",
        "delete",
        "reverse-continue",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["SIGSEGV", "twice (x=9)", "= 9", "twice (x=8)", "= 8", "twice (x=9)", "= 9", "main (argc=2"]);
    in_order(&text, &["breakpoint already hit 1 time", "No more reverse-execution history", "_start", "SIGSEGV"]);
}

#[test]
fn backwards_one_instruction_at_a_time() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-back-steps");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    // Forwards over a system call and back again: the same registers at the same places.
    let show = "printf \"at %lx %lx %lx %lx\\n\", $pc, $rsp, $rax, $rdi";
    let steps = 6;
    let mut commands = vec!["break getpid", "continue", show];
    commands.extend(["stepi", show].repeat(steps));
    commands.push("echo and back\\n");
    commands.extend(["reverse-stepi", show].repeat(steps));
    let text = gdb(&place, &[], &commands);
    let (forth, back) = text.split_once("and back").unwrap();
    let places = |text: &str| -> Vec<String> { text.lines().filter(|line| line.starts_with("at ")).map(str::to_owned).collect() };
    let (forth, mut back) = (places(forth), places(back));
    back.reverse();
    assert_eq!((forth.len(), &forth[..steps]), (steps + 1, &back[..]), "{text}");
}

#[test]
fn backwards_to_what_wrote_a_variable() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-last");
    let program = compile(&place, "threads", THREADS, &[]);
    record(&place, &[&program]);
    let commands = [
        "seek end",
        "print shared",
        "watch shared",
        "reverse-continue",
        "reverse-continue",
        "info threads",
        "delete",
        "last shared",
        "print mine >= 1 && mine <= 3",
        "last handled",
        "backtrace",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["= 30", "Old value = 30", "New value = 2", "Old value = 2", "New value = 2", "worker", "handler (number=10)"]);
    in_order(&text, &["handler (number=10)", "<signal handler called>", "main ()", "No more reverse-execution history"]);
}

#[test]
fn places_by_event_and_checkpoints() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-seek");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let commands = [
        "break twice",
        "continue",
        "checkpoint",
        "seek end",
        "when",
        "seek 10",
        "when",
        "seek 20",
        "when",
        "seek begin",
        "when",
        "restart 1",
        "print x",
        "info checkpoints",
        "seek nowhere",
        "info recording",
        "continue",
        "print x",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["twice (x=0)", "checkpoint 1 at event", "_exit", "event 10 of thread", "event 20 of thread", "_start", "event 2 of"]);
    in_order(&text, &["event 2 of thread", "twice (x=0)", "= 0", "1  event", "plain", "twice (x=1)", "= 1"]);
    assert!(text.contains("is no place"), "{text}");
}

#[test]
fn a_process_of_a_tree_is_chosen() {
    if !has_gdb() {
        return;
    }
    let place = Place::new("debug-tree");
    let program = compile(&place, "plain", PLAIN, &[]);
    let script = format!("true; {program}; {program} crash; exit 0");
    record(&place, &["sh", "-c", &script]);
    // Without a choice, the one that crashed.
    let text = gdb(&place, &[], &["continue", "backtrace 1"]);
    in_order(&text, &["SIGSEGV", "follow (node="]);
    let text = gdb(&place, &["-p", "plain"], &["break twice", "continue", "delete", "continue", "continue"]);
    in_order(&text, &["twice (x=0)", "exited with code 03"]);
    let text = gdb(&place, &["-p", "sh"], &["continue", "continue"]);
    assert!(text.contains("exited normally"), "{text}");
    place.run_badly(&["debug", "-p", "nobody"], 125, &["no process", "retake ps"]);
}
